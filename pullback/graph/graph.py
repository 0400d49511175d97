"""Graphs: programs given by their inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

from pullback.graph.ambient import thread
from pullback.graph.node import Node, apply_op_to_nodes
from pullback.graph.op_kinds import DistinctKind

by_number = attrgetter("number")


def graph_ancestors(
    outputs: Iterable[Node], stop: Callable[[Node], bool] | None = None
) -> list[Node]:
    """Return every node that `outputs` depend on, in the order of recording, themselves included.

    A node for which `stop` is true is included; its inputs are not visited.
    """
    stack = list(outputs)
    seen = set(stack)
    for node in stack:  # grows while iterated: no recursion, so no limit on depth
        if stop is not None and stop(node):
            continue
        for x in node.inputs:
            if x not in seen:
                seen.add(x)
                stack.append(x)
    return sorted(seen, key=by_number)


def graph_output_marks(graph: Graph, marks: dict[Node, int]) -> list[int]:
    """Return, for each output, the union of the marks (bits) of the nodes that it depends on."""
    found = graph_node_marks(graph, marks)
    return [found[y] for y in graph.outputs]


def graph_node_marks(graph: Graph, marks: dict[Node, int]) -> dict[Node, int]:
    """Return, for each node, the union of its own mark and those of the nodes it depends on."""
    found: dict[Node, int] = {}
    for node in graph.nodes:
        mask = marks.get(node, 0)
        for x in node.inputs:
            mask |= found[x]
        found[node] = mask
    return found


def graphs_in_parameters(parameters: Iterable[Any]) -> list[Graph]:
    """Return the graphs among the parameters of an op: loop bodies, branches, called functions."""
    found: list[Graph] = []
    for p in parameters:
        if isinstance(p, Graph):
            found.append(p)
        elif isinstance(p, tuple):
            found += graphs_in_parameters(p)
    return found


class GraphStructure:
    """The ops, edges and types of a program in the order of recording: hashable and comparable.

    Ops and types are interned, so that comparing tuples compares parameters by type and bits. The
    line of an op that may fail at run time is included, because its error names that line; while
    `thread.lines_matter`, that of every node is.
    """

    __slots__ = ("_hash", "parts")

    def __init__(self, graph: Graph) -> None:
        index = {node: i for i, node in enumerate(graph.nodes)}
        count, lines_matter = len(graph.inputs), thread.lines_matter
        parts: list = [count, *(x.type for x in graph.inputs)]
        for node in graph.nodes[count:]:
            # Two leaves are different, even with equal values
            parts.append(node if not node.inputs and isinstance(node.op, DistinctKind) else node.op)
            parts += [index[x] for x in node.inputs]
            if node.op.fallible or lines_matter:
                parts.append(node.where)
        self.parts = (*parts, None, *(index[y] for y in graph.outputs))
        self._hash = hash(self.parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphStructure) and self.parts == other.parts


class Graph:
    """A program from `inputs` to `outputs`; `names` are the inputs' names in text.

    `str(graph)` is that text; `pullback.static`, which writes it, sets `text` and `__str__`.
    """

    text: Callable[..., str]

    def __init__(
        self, inputs: Sequence[Node], outputs: Sequence[Node], names: Sequence[str] | None = None
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        if names is None:
            names = [getattr(x.op, "label", None) or f"x{i}" for i, x in enumerate(self.inputs)]
        self.names = tuple(names)

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes: the inputs, then the others in the order of recording."""
        boundary = set(self.inputs)
        inner = graph_ancestors(self.outputs, boundary.__contains__)
        return [*self.inputs, *(n for n in inner if n not in boundary)]

    @property
    def summary(self) -> str:
        """The types of inputs and outputs and the number of ops, in one line."""
        ins, outs = ([str(n.type) for n in nodes] for nodes in (self.inputs, self.outputs))
        ops = len(self.nodes) - len(self.inputs)
        return f"({', '.join(ins)}) -> ({', '.join(outs)}), {ops} op{'s' * (ops != 1)}"

    @cached_property
    def structure(self) -> GraphStructure:
        """The program without names and lines, for comparison."""
        return GraphStructure(self)

    def __call__(self, *values: Node) -> tuple[Node, ...]:
        """Write the program out again over other inputs; return the outputs."""
        new = dict(zip(self.inputs, values, strict=True))
        saved = thread.where, thread.forward_op
        try:
            for node in self.nodes[len(self.inputs) :]:
                if not node.inputs and isinstance(node.op, DistinctKind):
                    new[node] = node  # leaves are shared
                    continue
                thread.where, thread.forward_op = node.where, node.forward_op
                new[node] = apply_op_to_nodes(node.op, tuple([new[x] for x in node.inputs]))
        finally:
            thread.where, thread.forward_op = saved
        return tuple([new[y] for y in self.outputs])
