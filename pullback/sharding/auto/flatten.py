"""Programs without composites that need a dimension whole: what they are made of may not."""

from __future__ import annotations

from typing import Any

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.ops.composite import Expandable
from pullback.ops.prelude import Op
from pullback.sharding.factors import instantiate


def flat(graph: Graph) -> Graph:
    """The same program, as the partition pass writes it where such a dimension is split."""
    while any(_opens(n) for n in graph.nodes):
        graph = _opened(graph)
    return graph


def _opens(node: Node) -> bool:
    op = node.op
    if not isinstance(op, Expandable) or hasattr(op, "partition") or not node.inputs:
        return False
    if type(op).factors is Op.factors:
        return True
    xs = [x.type.plain for x in node.inputs]
    ys: list[Type] = [t.plain for t in (node.type if isinstance(node.type, tuple) else [node.type])]
    rule = instantiate(op.factors(*xs), xs, ys)
    return any(n > 1 and not factors for t, dims in zip(xs, rule.operands, strict=True)
               for n, factors in zip(t.shape, dims, strict=True))  # fmt: skip


def _opened(graph: Graph) -> Graph:
    new: dict[Node, Any] = {x: x for x in graph.inputs}
    for node in graph.nodes[len(graph.inputs) :]:
        xs = tuple([new[x] for x in node.inputs])
        if xs and isinstance(xs[0], tuple):
            new[node] = xs[0][node.op.index]  # type: ignore[attr-defined]
        elif _opens(node):
            made = node.op.expansion([x.type.plain for x in node.inputs])(*xs)  # type: ignore[attr-defined]
            new[node] = tuple(made) if isinstance(node.type, tuple) else made[0]
        else:
            new[node] = Node(node.op, xs, node.type, node.where, (), node.backward, node.value)
    return Graph(graph.inputs, [new[y] for y in graph.outputs], graph.names)
