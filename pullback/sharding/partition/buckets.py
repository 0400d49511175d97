"""Buckets: sums over devices that do not wait for each other become one instruction."""

from __future__ import annotations

from pullback.graph.graph import Graph
from pullback.graph.node import Node, results
from pullback.ops.collective.reduce import AllReduce, PSum

BYTES = 64 * 2**20  # of one bucket; what is larger goes in several


def bucketed(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    """The same per-device program with its sums in buckets, and where each node is in it."""
    buckets = _buckets(graph)
    new: dict[Node, Node] = {x: x for x in graph.inputs}
    if not buckets:
        return graph, {n: n for n in graph.nodes}
    stack = list(reversed(graph.outputs))
    while stack:  # operands first; a bucket waits for those of all its members
        node = stack[-1]
        members = buckets.get(node, [node])
        missing = [x for m in members for x in m.inputs if x not in new]
        if node not in new and missing:
            stack += reversed(missing)
            continue
        stack.pop()
        if node in new:
            continue
        if node in buckets:
            op = AllReduce(node.op.axes)  # type: ignore[attr-defined]
            xs = tuple([new[m.inputs[0]] for m in members])
            made = Node(op, xs, tuple([m.type for m in members]), node.where, (), node.backward)
            new |= zip(members, results(made), strict=True)
        else:
            xs = tuple([new[x] for x in node.inputs])
            new[node] = Node(node.op, xs, node.type, node.where, (), node.backward, node.value)
    return Graph(graph.inputs, [new[y] for y in graph.outputs], graph.names), new


def _buckets(graph: Graph) -> dict[Node, list[Node]]:
    """The members of each sum's bucket: along the same axes, and none after another.

    A node's level is how many sums lie one after the other on the way to it, so sums of one level
    do not depend on each other.
    """
    level: dict[Node, int] = {}
    found: dict[tuple, list[list[Node]]] = {}
    for node in graph.nodes:
        level[node] = max([level[x] for x in node.inputs], default=0) + isinstance(node.op, PSum)
        if isinstance(node.op, PSum):
            _into(found.setdefault((level[node], node.op.axes), []), node)
    return {n: members for lists in found.values() for members in lists for n in members
            if len(members) > 1}  # fmt: skip


def _into(buckets: list[list[Node]], node: Node) -> None:
    last = buckets[-1] if buckets else []
    if last and sum([n.type.nbytes for n in last]) + node.type.nbytes <= BYTES:
        last.append(node)
    else:
        buckets.append([node])
