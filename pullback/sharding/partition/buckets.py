"""Buckets: independent sums over devices become one instruction."""

from __future__ import annotations

from pullback.graph.graph import Graph
from pullback.graph.node import Node, result_nodes
from pullback.ops.collective.all_reduce import AllReduce, PSum

BYTES = 64 * 2**20  # the largest bucket


def sums_in_buckets(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    """Return the per-device program with its sums in buckets, and each node's replacement."""
    buckets = _sum_buckets(graph)
    if not buckets:
        return graph, {n: n for n in graph.nodes}
    new: dict[Node, Node] = {x: x for x in graph.inputs}
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
        xs = tuple([new[x] for m in members for x in m.inputs])
        if node in buckets:
            op = AllReduce(node.op.axes)  # type: ignore[attr-defined]
            types = tuple([m.type for m in members])
            total = Node(op, xs, types, node.where, (), node.forward_op)
            new |= zip(members, result_nodes(total), strict=True)
        else:
            new[node] = Node(node.op, xs, node.type, node.where, (), node.forward_op, node.value)
    return Graph(graph.inputs, [new[y] for y in graph.outputs], graph.names), new


def _sum_buckets(graph: Graph) -> dict[Node, list[Node]]:
    """Return the members of each sum's bucket: independent sums along the same axes.

    The level of a node is the largest number of sums on a path to it, so sums of one level do not
    depend on each other.
    """
    level: dict[Node, int] = {}
    found: dict[tuple, list[list[Node]]] = {}
    for node in graph.nodes:
        level[node] = max([level[x] for x in node.inputs], default=0) + isinstance(node.op, PSum)
        if isinstance(node.op, PSum):
            buckets = found.setdefault((level[node], node.op.axes), [[]])
            if sum([n.type.nbytes for n in (*buckets[-1], node)]) > BYTES:
                buckets.append([])
            buckets[-1].append(node)
    return {n: members for lists in found.values() for members in lists for n in members
            if len(members) > 1}  # fmt: skip
