"""Graphs: a program is its inputs and outputs; the nodes between them follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

from pullback.graph.kinds import Distinct
from pullback.graph.node import Node, emit, origin

by_number = attrgetter("number")


def ancestors(outputs: Iterable[Node], stop: Callable[[Node], bool] | None = None) -> list[Node]:
    """Every node that `outputs` depend on, in the order of recording; inputs precede uses.

    A node for which `stop` holds is included, what it depends on is not visited.
    """
    stack = list(outputs)
    seen = set(stack)
    for node in stack:  # grows while it is walked: no recursion, so no limit on depth
        if stop is not None and stop(node):
            continue
        for x in node.inputs:
            if x not in seen:
                seen.add(x)
                stack.append(x)
    return sorted(seen, key=by_number)


def dependence(graph: Graph, marks: dict[Node, int]) -> list[int]:
    """For each output, the marks (bits) of the nodes it depends on, joined."""
    found: dict[Node, int] = {}
    for node in graph.nodes:
        mask = marks.get(node, 0)
        for x in node.inputs:
            mask |= found[x]
        found[node] = mask
    return [found[y] for y in graph.outputs]


def graphs_within(parameters: Iterable[Any]) -> list[Graph]:
    """The graphs among an op's parameters: bodies of loops, branches, calls."""
    found: list[Graph] = []
    for p in parameters:
        if isinstance(p, Graph):
            found.append(p)
        elif isinstance(p, tuple):
            found += graphs_within(p)
    return found


class Structure:
    """A program's ops, edges and types, in the order of recording, to compare and to hash.

    Ops and types are interned, so comparing compares everything, by type and bits. The line of an
    op that may fail when it runs counts too: its error will name that line.
    """

    __slots__ = ("_hash", "parts")

    def __init__(self, graph: Graph) -> None:
        index = {node: i for i, node in enumerate(graph.nodes)}
        count = len(graph.inputs)
        parts: list = [count, *(x.type for x in graph.inputs)]
        for node in graph.nodes[count:]:
            # A leaf is itself: two of them are two, whatever they hold.
            parts.append(node if not node.inputs and isinstance(node.op, Distinct) else node.op)
            parts += [index[x] for x in node.inputs]
            if node.op.fallible:
                parts.append(node.where)
        self.parts = (*parts, None, *(index[y] for y in graph.outputs))
        self._hash = hash(self.parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self.parts == other.parts


class Graph:
    """A program from `inputs` to `outputs`; `names` are the inputs' names in text."""

    def __init__(
        self,
        inputs: Sequence[Node],
        outputs: Sequence[Node],
        names: Sequence[str] | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        if names is None:
            names = [getattr(x.op, "label", None) or f"x{i}" for i, x in enumerate(self.inputs)]
        self.names = tuple(names)

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes, inputs first, then in the order of recording."""
        boundary = set(self.inputs)
        inner = ancestors(self.outputs, boundary.__contains__)
        return [*self.inputs, *(n for n in inner if n not in boundary)]

    @cached_property
    def structure(self) -> Structure:
        """What the program is, apart from names and lines: equal programs have equal ones."""
        return Structure(self)

    def __call__(self, *values: Node) -> tuple[Node, ...]:
        """The outputs as nodes over other inputs: the program is written out once more."""
        new = dict(zip(self.inputs, values, strict=True))
        saved = origin.where, origin.backward
        try:
            for node in self.nodes[len(self.inputs) :]:
                if not node.inputs and isinstance(node.op, Distinct):
                    new[node] = node  # a leaf is itself, however often it is used
                    continue
                origin.where, origin.backward = node.where, node.backward
                new[node] = emit(node.op, tuple([new[x] for x in node.inputs]))
        finally:
            origin.where, origin.backward = saved
        return tuple([new[y] for y in self.outputs])

    def __str__(self) -> str:
        from pullback.static.text import print_graph

        return print_graph(self)
