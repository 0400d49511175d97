"""The base class of ops that hold graphs, and helpers for branches and loops."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import PullbackError
from pullback.graph.ambient import ambient_tracing_state
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.node import next_number, node_varying_over
from pullback.graph.op_kinds import DistinctKind, HigherOrderKind
from pullback.ops.control.varying import Axes, varying_axes_of, varying_union
from pullback.ops.prelude import Node, Op, Type, interpret, zeros
from pullback.ops.sources import placeholder
from pullback.ops.traits import HasNamedAxes, trait_communicates, trait_named_axes

if TYPE_CHECKING:
    from pullback.sharding.mesh import DeviceMesh


class Holder(Op, HigherOrderKind, HasNamedAxes, abstract=True):
    """An op that runs graphs. It has a tuple of results, and its rules transform the graphs.
    Operands and results vary along the same named axes as inputs and outputs of its graphs."""

    @cached_property
    def fallible(self) -> bool:  # type: ignore[override]
        return any(held_may_fail(graph) for graph in self.graphs)

    def named_axes(self) -> tuple[str, ...]:
        return self._named_axes

    def communicates(self) -> tuple[str, ...]:
        nodes = [n for graph in self.graphs for n in graph.nodes]
        return tuple(sorted({a for n in nodes for a in trait_communicates(n.op)}))

    @cached_property
    def _named_axes(self) -> tuple[str, ...]:
        nodes = [n for graph in self.graphs for n in graph.nodes]
        return tuple(sorted({a for n in nodes for a in trait_named_axes(n.op)}))

    def _derive_type(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """Put results on the mesh of the graphs where no operand is on a mesh."""
        pairs = zip(super()._derive_type(types), self.graphs[-1].outputs, strict=True)
        made = tuple([t.over(y.type.varying) for t, y in pairs])
        if self._mesh is None or any(t.sharding for t in types):
            return made
        found = self.shardings(self._mesh, types, made)
        return tuple([t.sharded(s) for t, s in zip(made, found, strict=True)])

    @cached_property
    def _mesh(self) -> DeviceMesh | None:
        for node in (n for graph in self.graphs for n in graph.nodes):
            for t in node.type if isinstance(node.type, tuple) else (node.type,):
                if t.sharding:
                    return t.sharding.mesh
        return None

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        """Operands that vary along more axes than the graphs' inputs need other graphs."""
        wanted, given = self.operand_axes, varying_axes_of(xs)
        if wanted == given:
            return self, xs
        wider = [varying_union(a, b) for a, b in zip(wanted, given, strict=True)]
        op = self if wider == wanted else self.derived(("over", *wider), lambda: self.over(wider))
        return op, tuple(
            [node_varying_over(x, a) for x, a in zip(xs, op.operand_axes, strict=True)]
        )

    @property
    def operand_axes(self) -> list[Axes]:
        """The named axes that operands vary along."""
        return varying_axes_of(self.graphs[-1].inputs)

    @abstractmethod
    def over(self, axes: Sequence[Axes]) -> Holder:
        """Return the op for operands that vary along the given axes."""

    @cached_property
    def _derived(self) -> dict[Hashable, Any]:
        return {}

    def derived(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the cached result of a transform of the graphs."""
        if not self.predictable:  # a user's rule may return something else next time
            return make()
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]


def held_may_fail(graph: Graph) -> bool:
    """Return whether running a graph may raise, or never end."""
    return any(n.op.fallible for n in graph.nodes)


def hold(inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    """Return the graph from inputs to outputs, any nodes, in the canonical form that ops hold."""
    return canonicalise(Graph(inputs, outputs, [f"x{i}" for i in range(len(inputs))]), True)


def canonical_holder_graph(graph: Graph) -> Graph:
    """Return a graph in the canonical form that ops hold."""
    return hold(graph.inputs, graph.outputs)


def holder_derivative(x: Node, d: Node | None) -> Node:
    """Return `d`, the tangent or cotangent of `x`, in the type of `x`; None becomes zeros."""
    return node_varying_over(zeros(x.type) if d is None else d, x.type.varying)


def push_through_holder(
    graph: Graph, active: Sequence[int], moving: Sequence[int], tangents: Callable
) -> tuple[dict[int, Node], dict[int, Node]]:
    """Return placeholders for tangents of `active` inputs, and tangents of `moving` outputs."""
    ts = {i: placeholder("t", graph.inputs[i].type) for i in active}
    outputs = [graph.outputs[i] for i in moving]
    with ambient_tracing_state(next_number(), frozen=False):  # for users' rules
        found = tangents(outputs, [graph.inputs[i] for i in active], list(ts.values()))
    return ts, {i: holder_derivative(y, t) for i, y, t in zip(moving, outputs, found, strict=True)}


def pull_held(
    outputs: Sequence[Node], targets: Sequence[Node], gradients: Callable
) -> tuple[list[Node], list[Node]]:
    """Return placeholders for cotangents of `outputs`, and cotangents of `targets`."""
    seeds = [placeholder("g", y.type) for y in outputs]
    with ambient_tracing_state(next_number(), frozen=False):
        found = gradients(outputs, seeds, targets)
    return seeds, [holder_derivative(x, ct) for x, ct in zip(targets, found, strict=True)]


def held_captured_values(outputs: Sequence[Node], boundary: Sequence[Node]) -> list[Node]:
    """Return values from outside that users' rules captured: a held graph needs them as inputs."""
    known = set(boundary)
    found = graph_ancestors(outputs, known.__contains__)
    return [n for n in found if n not in known and not n.inputs and isinstance(n.op, DistinctKind)]


def run_held(
    graph: Graph, arrays: Sequence[np.ndarray], iteration: int | None = None
) -> list[np.ndarray]:
    """Run a held graph in NumPy; errors name the line inside the graph."""
    try:
        return interpret(graph, arrays, iteration)
    except PullbackError as error:
        node = error.values.get("node")
        raise error.at(None, None if node is None else node.where) from None


def interleave_held(values: Sequence[Node], tangents: dict[int, Node], *ends: int) -> list[Node]:
    """Return values group by group, each group followed by its tangents; `ends` separate groups."""
    made: list[Node] = []
    start = 0
    for end in (*ends, len(values)):
        made += values[start:end]
        made += [tangents[i] for i in range(start, end) if i in tangents]
        start = end
    return made


def holder_at_positions(
    count: int, positions: Sequence[int], values: Sequence[Node]
) -> list[Node | None]:
    """Return a list of `count` entries with values at the given positions and None elsewhere."""
    made: list[Node | None] = [None] * count
    for i, value in zip(positions, values, strict=True):
        made[i] = value
    return made


def stacked_held_type(type: Type, length: int) -> Type:
    """Return the type of `length` values stacked along a new first dimension."""
    return type.with_shape((length, *type.shape))


def held_row(type: Type) -> Type:
    """Return the type of one of the values that are stacked."""
    return type.with_shape(type.shape[1:])


def holder_positions_among(nodes: Sequence[Node], others: Sequence[Node]) -> list[int] | None:
    """Return the position of each node among others; None if one is missing."""
    places: dict[Node, int] = {}
    for i, x in enumerate(others):
        places.setdefault(x, i)  # values come before their tangents
    return [places[x] for x in nodes] if all(x in places for x in nodes) else None


def holder_states_among(nodes: Sequence[Node], others: Sequence[Node]) -> list[int] | None:
    """Return distinct, ascending positions of states: two may have the same initial value."""
    found: list[int] = []
    for i, x in enumerate(others):
        if len(found) < len(nodes) and x is nodes[len(found)]:
            found.append(i)
    return found if len(found) == len(nodes) else None
