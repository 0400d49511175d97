"""Expansion of composites that need a dimension whole, since their ops may not need it."""

from __future__ import annotations

from typing import Any

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.composite import CompositeOnMesh
from pullback.ops.prelude import Op
from pullback.sharding.partition.prices import priced_rule


def expand_composites(graph: Graph) -> Graph:
    """Return the program with the composites expanded that the partition pass may expand."""
    while any(map(_is_expandable_composite, graph.nodes)):
        graph = _expand_composites_once(graph)
    return graph


def _is_expandable_composite(node: Node) -> bool:
    op = node.op
    if not isinstance(op, CompositeOnMesh) or hasattr(op, "partition") or not node.inputs:
        return False
    return type(op).factors is Op.factors or any(
        n > 1 and not factors
        for x, dims in zip(node.inputs, priced_rule(node).operands, strict=True)
        for n, factors in zip(x.type.shape, dims, strict=True)
    )


def _expand_composites_once(graph: Graph) -> Graph:
    new: dict[Node, Any] = {x: x for x in graph.inputs}
    for node in graph.nodes[len(graph.inputs) :]:
        xs = tuple([new[x] for x in node.inputs])
        if xs and isinstance(xs[0], tuple):
            new[node] = xs[0][node.op.index]  # type: ignore[attr-defined]
        elif _is_expandable_composite(node):
            ys = node.op.expansion([x.type.plain for x in node.inputs])(*xs)  # type: ignore[attr-defined]
            new[node] = tuple(ys) if isinstance(node.type, tuple) else ys[0]
        else:
            new[node] = Node(node.op, xs, node.type, node.where, (), node.forward_op, node.value)
    return Graph(graph.inputs, [new[y] for y in graph.outputs], graph.names)
