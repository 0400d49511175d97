"""Ops that hold graphs: what branches and loops have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pullback.errors import PullbackError
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph, ancestors, graphs_within
from pullback.graph.kinds import Distinct, HigherOrder
from pullback.graph.node import vary_over
from pullback.ops.control.varying import Axes, axes_of, union
from pullback.ops.prelude import Node, Op, Type, interpret, zeros
from pullback.ops.traits import HasNamedAxes, communicates, named_axes


class Holder(Op, HigherOrder, HasNamedAxes, abstract=True):
    """An op that runs graphs; it has a tuple of results, and all its rules transform the graphs.

    Operands and results vary along the named axes that inputs and outputs of its graphs do.
    """

    @cached_property
    def graphs(self) -> list[Graph]:
        return graphs_within(self.parameters())

    @cached_property
    def fallible(self) -> bool:  # type: ignore[override]
        return any(may_fail(graph) for graph in self.graphs)

    def named_axes(self) -> tuple[str, ...]:
        return self._named_axes

    def communicates(self) -> tuple[str, ...]:
        nodes = [n for graph in self.graphs for n in graph.nodes]
        return tuple(sorted({a for n in nodes for a in communicates(n.op)}))

    @cached_property
    def _named_axes(self) -> tuple[str, ...]:
        nodes = [n for graph in self.graphs for n in graph.nodes]
        return tuple(sorted({a for n in nodes for a in named_axes(n.op)}))

    def _derive_type(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """Where operands are on no mesh, but something inside runs on one, results are on it."""
        pairs = zip(super()._derive_type(types), self.graphs[-1].outputs, strict=True)
        made = tuple([t.over(y.type.varying) for t, y in pairs])
        if self._mesh is None or any(t.sharding for t in types):
            return made
        found = self.shardings(self._mesh, types, made)
        return tuple([t.sharded(s) for t, s in zip(made, found, strict=True)])

    @cached_property
    def _mesh(self) -> Any:
        found = [t for g in self.graphs for n in g.nodes for t in several(n.type) if t.sharding]
        return found[0].sharding.mesh if found else None

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        """Operands that vary along more axes than the graphs' inputs need other graphs."""
        wanted, given = self.operand_axes, axes_of(xs)
        if wanted == given:
            return self, xs
        wider = [union(a, b) for a, b in zip(wanted, given, strict=True)]
        op = self if wider == wanted else self.derived(("over", *wider), lambda: self.over(wider))
        return op, tuple([vary_over(x, a) for x, a in zip(xs, op.operand_axes, strict=True)])

    @property
    def operand_axes(self) -> list[Axes]:
        """The named axes that operands vary along."""
        return axes_of(self.graphs[-1].inputs)

    @abstractmethod
    def over(self, axes: Sequence[Axes]) -> Holder:
        """The op for operands that vary along the given axes."""

    @cached_property
    def _derived(self) -> dict[Hashable, Any]:
        return {}

    def derived(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What a transform made of the graphs, once for all applications of this op."""
        if not self.predictable:  # a rule of the user's may give something else next time
            return make()
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]


def several(type: Any) -> tuple[Type, ...]:
    return type if isinstance(type, tuple) else (type,)


def may_fail(graph: Graph) -> bool:
    """Whether running a graph may raise, or never end."""
    return any(n.op.fallible for n in graph.nodes)


def hold(inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    """The program between nodes of any kind, in the form in which an op holds it."""
    return canonicalise(Graph(inputs, outputs, [f"x{i}" for i in range(len(inputs))]), True)


def held(graph: Graph) -> Graph:
    return hold(graph.inputs, graph.outputs)


def derivative(of: Node, found: Node | None) -> Node:
    """What was found as the tangent or cotangent of a value, in the value's type."""
    made = zeros(of.type) if found is None else found
    return vary_over(made, of.type.varying)


def brought(outputs: Sequence[Node], boundary: Sequence[Node]) -> list[Node]:
    """Values that rules of the user's brought along: a held graph must be handed them."""
    known = set(boundary)
    found = ancestors(outputs, known.__contains__)
    return [n for n in found if n not in known and not n.inputs and isinstance(n.op, Distinct)]


def run(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A held graph's outputs in NumPy; an error names the line inside the graph."""
    try:
        return interpret(graph, arrays)
    except PullbackError as error:
        node = error.values.get("node")
        raise error.at(None, None if node is None else node.where) from None


def paired(values: Sequence[Node], tangents: dict[int, Node], *ends: int) -> list[Node]:
    """Values and tangents group by group: the tangents of a group follow its values."""
    made: list[Node] = []
    start = 0
    for end in (*ends, len(values)):
        made += values[start:end]
        made += [tangents[i] for i in range(start, end) if i in tangents]
        start = end
    return made


def stacked(type: Type, length: int) -> Type:
    """The type of `length` values, one after the other along a new first dimension."""
    return type.with_shape((length, *type.shape))


def row(type: Type) -> Type:
    """The type of one of the values that are stacked."""
    return type.with_shape(type.shape[1:])


# -- one application within another -------------------------------------------------------------


def places_among(mine: Sequence[Node], theirs: Sequence[Node]) -> list[int] | None:
    """Where each node is among others; `None` if one is not."""
    places: dict[Node, int] = {}
    for i, x in enumerate(theirs):
        places.setdefault(x, i)  # values come before their tangents
    return [places[x] for x in mine] if all(x in places for x in mine) else None


def states_among(mine: Sequence[Node], theirs: Sequence[Node]) -> list[int] | None:
    """The same for states, each in a place of its own: two may begin with one value."""
    found: list[int] = []
    for i, x in enumerate(theirs):
        if len(found) < len(mine) and x is mine[len(found)]:
            found.append(i)
    return found if len(found) == len(mine) else None
