"""Loops and choices on parts of values: each device runs the graphs that an op holds on its own.

What enters and leaves a graph is complete. A state has one layout in all rounds: the one that it
comes in with or, if it comes in whole, the one that the body gives it, so that a loop from zeros
is as parallel as what it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from pullback.graph.graph import Graph
from pullback.graph.node import vary_over
from pullback.ops.prelude import TABLE, Node, Type
from pullback.ops.sources import placeholder
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import Dims, Sharding, layout, on_mesh

_TRIES = 4  # layouts of a state, before it keeps the one that it comes in with


def laid(type: Type, mesh: DeviceMesh, dims: Dims) -> Type:
    return type.sharded(on_mesh(mesh, dims))


def row(type: Type, mesh: DeviceMesh) -> Type:
    """The type of one of the values that are stacked along a dimension that is whole."""
    return laid(type.with_shape(type.shape[1:]), mesh, layout(type)[1:])


def behind(type: Type, mesh: DeviceMesh) -> Sharding:
    """How values that lie as the given one do when they are stacked."""
    return on_mesh(mesh, ((), *layout(type)))


def leaving(graph: Graph, types: Sequence[Type]) -> list[Type]:
    """The types of a graph's outputs, for operands of the given types."""
    return [y.type for y in graph(*[placeholder("x", t) for t in types])]


def settled(
    mesh: DeviceMesh, body: Graph, state: Sequence[Type], others: Sequence[Type]
) -> tuple[list[Type], list[Type]]:
    """The types of the state in all rounds, and of what the body gives."""
    first = [laid(t, mesh, layout(t)) for t in state]
    free = [t.sharding is None or not (t.sharding.spec.dims or t.sharding.spec.replicated)
            for t in state]  # fmt: skip
    now = first
    for _ in range(_TRIES):
        made = leaving(body, [*now, *others])
        pairs = zip(now, made, free)  # `made` goes on with what is no state
        following = [laid(t, mesh, layout(y)) if f else t for t, y, f in pairs]
        if following == now:
            return now, made
        now = following
    return first, leaving(body, [*first, *others])


def local(to: Any, graph: Graph, types: Sequence[Type], wanted: Sequence[Dims]) -> Graph:
    """The graph for one device's parts of operands of the given types, with outputs that lie as
    `wanted`."""
    inputs = [to.placeholder(f"x{i}", t) for i, t in enumerate(types)]
    made = zip(to.run(graph, inputs), wanted, strict=True)
    return _held(to, inputs, [to.ask(y, dims) for y, dims in made])


def local_body(
    to: Any, graph: Graph, types: Sequence[Type], state: Sequence[Dims]
) -> tuple[Graph, list[Any]]:
    """The same for the body of a loop, whose first outputs are the state; and its outputs.

    A state to which rounds only add, as the gradient of a constant, may be contributions: they
    are joined behind the loop, and not in each round.
    """
    sums = _added(graph, len(state))
    inputs = [to.placeholder(f"x{i}", t) for i, t in enumerate(types)]
    terms = Graph(graph.inputs, [sums.get(i, y) for i, y in enumerate(graph.outputs)])
    made = []
    for i, y in enumerate(to.run(terms, inputs)):
        if i in sums:
            y = to.contributions(y, state[i])
            axes = tuple(sorted(y.axes))
            before = placeholder(f"x{i}", y.node.type.over(axes))
            inputs[i] = replace(inputs[i], node=before)
            y = replace(y, node=before + vary_over(y.node, axes), remake=None, origin=None)
        else:
            y = to.ask(y, state[i] if i < len(state) else y.dims)
        made.append(y)
    return _held(to, inputs, made), made


def _held(to: Any, inputs: Sequence[Any], made: Sequence[Any]) -> Graph:
    return to.held([x.node for x in inputs], [to.finished(y) for y in made])


def _added(body: Graph, count: int) -> dict[int, Node]:
    """What a round adds to those of `count` states with which it does nothing else."""
    users: dict[Node, list[Node | None]] = {}
    for node in body.nodes:
        for x in node.inputs:
            users.setdefault(x, []).append(node)
    for y in body.outputs:
        users.setdefault(y, []).append(None)
    found = {}
    for i in range(count):
        node, terms = body.inputs[i], []
        while (user := _only(users.get(node))) is not None and user.op is TABLE["Add"]():
            terms += [x for x in user.inputs if x is not node]
            node = user
        alone = node is body.outputs[i] and users[node] == [None]
        if terms and alone and all(t.type.plain is node.type.plain for t in terms):
            found[i] = reduce(add, terms)
    return found


def _only(users: list[Node | None] | None) -> Node | None:
    return users[0] if users and len(users) == 1 else None
