"""Put other nodes in the place of some of a program's, and keep the order of the rest."""

from __future__ import annotations

import heapq

from pullback.graph.graph import Graph, by_number
from pullback.graph.node import Node
from pullback.graph.op_kinds import DistinctKind


def with_replacements(graph: Graph, places: dict[Node, Node]) -> tuple[Graph, dict[Node, Node]]:
    """Return the program with nodes replaced, in the old order, and the old node of each new one.

    If an operand of a gradient depends on another gradient, the program stays as it is.
    """
    order = _replacement_order(graph, places)
    if order is None:
        return graph, {}
    new: dict[Node, Node] = {x: x for x in graph.inputs}
    known: dict[tuple, Node] = {}
    stands_for = _replacement_lines(graph, places)
    origins: dict[Node, Node] = {}
    for node in order:
        old = stands_for[node]
        xs = tuple([new[places.get(x, x)] for x in node.inputs])
        made = new[node] = _replacement_copy(node, xs, old, known)
        origins.setdefault(made, old)
    outputs = [new[places.get(y, y)] for y in graph.outputs]
    return Graph(graph.inputs, outputs, graph.names), origins


def _replacement_lines(graph: Graph, places: dict[Node, Node]) -> dict[Node, Node]:
    """Return the old node whose line each node gets: for those of a replacement, the replaced."""
    found = {node: node for node in graph.nodes}
    for old, made in places.items():
        stack = [made]
        while stack:
            node = stack.pop()
            if node not in found:
                found[node] = old
                stack.extend(node.inputs)
    return found


def _replacement_order(graph: Graph, places: dict[Node, Node]) -> list[Node] | None:
    """Return the nodes that are still needed, operands first, otherwise in the old order."""
    rank = {node: i for i, node in enumerate(graph.nodes)}
    needed: dict[Node, int] = {}  # with the number of operands to come
    users: dict[Node, list[Node]] = {}
    inputs = set(graph.inputs)
    stack = [y for y in (places.get(y, y) for y in graph.outputs) if y not in inputs]
    for old, made in places.items():
        rank[made] = min(rank.get(made, rank[old]), rank[old])
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed[node] = 0
        for x in (places.get(x, x) for x in node.inputs):
            rank[x] = min(rank.get(x, rank[node]), rank[node])
            if x not in inputs:
                needed[node] += 1
                users.setdefault(x, []).append(node)
                stack.append(x)
    ready = [(rank[n], n.number, n) for n, count in needed.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        *_, node = heapq.heappop(ready)
        order.append(node)
        for user in users.get(node, ()):
            needed[user] -= 1
            if not needed[user]:
                heapq.heappush(ready, (rank[user], user.number, user))
    return order if len(order) == len(needed) else None


def _replacement_copy(
    node: Node, xs: tuple[Node, ...], old: Node, known: dict[tuple, Node]
) -> Node:
    """Return the node over new operands, at the line of the old one: an equal one or a new one."""
    if isinstance(node.op, DistinctKind):
        return Node(node.op, xs, node.type, old.where, (), old.forward_op) if xs else node
    if node.op.commutative:
        xs = tuple(sorted(xs, key=by_number))
    key = (node.op, xs, node.type)
    if key not in known:
        known[key] = Node(node.op, xs, node.type, old.where, (), old.forward_op, node.value)
    return known[key]
