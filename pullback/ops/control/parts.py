"""Loops and choices on parts of values: each device runs the graphs that an op holds on its own.

What enters and leaves a graph is complete. A state has one layout in all rounds: the one that it
comes in with or, if it comes in whole, the one that the body gives it, so that a loop from zeros
is as parallel as what it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.ir.canonical import canonicalise
from pullback.ir.graph import Graph
from pullback.ops.base import Type
from pullback.ops.structure import placeholder
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


def local(
    to: Any, graph: Graph, types: Sequence[Type], wanted: Sequence[Dims | None]
) -> tuple[Graph, list[Any]]:
    """The graph for one device's parts of operands of the given types, and its outputs, laid out
    as `wanted` (`None`: as they are made)."""
    inputs = [to.placeholder(f"x{i}", t) for i, t in enumerate(types)]
    made = [
        to.ask(y, y.dims if dims is None else dims)
        for y, dims in zip(to.run(graph, inputs), wanted, strict=True)
    ]
    names = [f"x{i}" for i in range(len(inputs))]
    parts = Graph([x.node for x in inputs], [to.finished(y) for y in made], names)
    return canonicalise(parts, True), made
