"""Calls: one node that applies a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import PullbackError, ShapeError
from pullback.graph.dtypes import float64
from pullback.graph.graph import Graph
from pullback.graph.node import node_varying_over
from pullback.graph.types import show_types
from pullback.ops.prelude import Composite, Node, Op, Type, interpret
from pullback.ops.samples import real
from pullback.ops.sources import Input, placeholder
from pullback.ops.traits import HasNamedAxes, trait_communicates, trait_named_axes


class Call(Composite, HasNamedAxes):
    """Applies a graph to operands; it is differentiated and batched like the graph."""

    label: str
    graph: Graph

    @property
    def fallible(self) -> bool:  # type: ignore[override]
        return any(n.op.fallible for n in self.graph.nodes)

    def infer(self, *xs: Type) -> Any:
        check_call_operands(self.graph, xs)
        return tuple([y.type for y in self.graph.outputs])

    def _derive_type(self, types: tuple[Type, ...]) -> Any:
        """Derive named axes and shardings of the results from those of the operands."""
        made = self.infer(*[t.plain for t in types])
        if not any(t.varying or t.sharding for t in types):
            return made
        return tuple([y.type for y in self.expand(*[placeholder("x", t) for t in types])])

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        return self, xs  # the graph itself makes operands vary alike

    def named_axes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a for n in self.graph.nodes for a in trait_named_axes(n.op)))

    def communicates(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a for n in self.graph.nodes for a in trait_communicates(n.op)))

    def expand(self, *xs: Node) -> tuple[Node, ...]:
        inputs = zip(xs, self.graph.inputs, strict=True)
        return self.graph(*[node_varying_over(x, i.type.varying) for x, i in inputs])

    def expansion(self, types: Sequence[Type]) -> Graph:
        return self.graph

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        try:
            return tuple(interpret(self.graph, xs))
        except PullbackError as error:
            failed = error.values.pop("node", None)  # the node inside the graph has its own line
            raise error.at(None, None if failed is None else failed.where) from None

    def hlo(self, b: Any, out: Any, *xs: Any) -> Any:
        return b.inline(self.graph, xs, held=True)

    @classmethod
    def samples(cls) -> Any:
        x, y = (Input(f"x{i}", (2, 3), float64)() for i in range(2))
        yield cls("f", Graph((x, y), (x * y + x, x - y))), (real(2, 3), real(2, 3, salt=1))
        yield cls("one", Graph((x,), (x * x,))), (real(2, 3),)


def inline_call_nodes(graph: Graph) -> Graph:
    """Return the graph with all calls inlined."""
    if not any(type(n.op) is Call for n in graph.nodes):
        return graph
    count = len(graph.inputs)
    new: dict[Node, Any] = {x: x for x in graph.inputs}
    for node in graph.nodes[count:]:
        xs = tuple([new[x] for x in node.inputs])
        if type(node.op) is Call:
            new[node] = inline_call_nodes(node.op.graph)(*xs)
        elif xs and isinstance(xs[0], tuple):
            new[node] = xs[0][node.op.index]  # type: ignore[attr-defined]
        else:
            new[node] = Node(node.op, xs, node.type, node.where, (), node.forward_op, node.value)
    return Graph(graph.inputs, [new[y] for y in graph.outputs], graph.names)


def check_call_operands(graph: Graph, xs: Sequence[Type]) -> None:
    """Raise unless operands have the types of the graph's inputs."""
    wanted = [x.type.plain for x in graph.inputs]
    if list(xs) != wanted:
        what = (
            f"operands must have the types of the graph's inputs, {show_types(wanted)}, "
            f"got {show_types(xs)}"
        )
        raise ShapeError(what, code="E2001")
