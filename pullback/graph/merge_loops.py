"""Merge applications that others contain: a loop, and the same one with more results, run once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from pullback.graph.graph import Graph, graph_node_marks
from pullback.graph.node import Node
from pullback.graph.op_kinds import HigherOrderKind
from pullback.graph.op_table import TABLE

Place = tuple[Node, Sequence[int]]  # an application, and positions of some of its results


def merge_contained_loops(graph: Graph) -> tuple[Graph, dict[Node, Node]] | None:
    """Return the graph without applications that others contain, and each new node; or None."""
    found = [n for n in graph.nodes if isinstance(n.op, HigherOrderKind)]
    holders = [n for n in found if isinstance(n.type, tuple)]
    if len(holders) < 2:
        return None
    instead = _loops_contained(graph, holders)
    order = _order_after_merge(graph, instead) if instead else None
    if order is None:  # together they form a cycle: one alone does not
        instead = dict(list(instead.items())[:1])
        order = _order_after_merge(graph, instead) if instead else None
    return None if order is None else _rewrite_merged(graph, order, instead)


def _loops_contained(graph: Graph, holders: Sequence[Node]) -> dict[Node, Place]:
    """Map each application that another one contains to that one, if it does not depend on it."""
    above = graph_node_marks(graph, {holder: 1 << i for i, holder in enumerate(holders)})
    users: dict[Node | None, list[Node]] = {}
    for holder in holders:
        for x in dict.fromkeys(holder.inputs) or (None,):
            users.setdefault(x, []).append(holder)
    found: dict[Node, Place] = {}
    for i, small in enumerate(holders):
        op: Any = small.op
        for large in users[small.inputs[0] if small.inputs else None]:
            if len(large.type) <= len(small.type) or above[large] >> i & 1:
                continue
            positions = op.within(small.inputs, large.op, large.inputs)
            if positions is not None:
                found[small] = large, positions
                break
    return {small: _final_loop(place, found) for small, place in found.items()}


def _final_loop(place: Place, found: dict[Node, Place]) -> Place:
    """Follow a place while its application is itself contained in another one."""
    node, positions = place
    while node in found:  # ends: each has more results than the one before
        node, further = found[node]
        positions = [further[i] for i in positions]
    return node, positions


def _order_after_merge(graph: Graph, instead: dict[Node, Place]) -> list[Node] | None:
    """Return the remaining nodes in topological order, and in the order of recording otherwise."""
    waits: dict[Node, int] = {}
    users: dict[Node, list[Node]] = {}
    given = set(graph.inputs)
    inner = [n for n in graph.nodes if n not in instead and n not in given]
    for node in inner:
        needs = {instead[x][0] if x in instead else x for x in node.inputs} - given
        waits[node] = len(needs)
        for x in needs:
            users.setdefault(x, []).append(node)
    ready = [(n.number, n) for n in inner if not waits[n]]
    heapq.heapify(ready)
    made: list[Node] = []
    while ready:
        node = heapq.heappop(ready)[1]
        made.append(node)
        for user in users.get(node, ()):
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, (user.number, user))
    return made if len(made) == len(inner) else None


def _rewrite_merged(
    graph: Graph, order: list[Node], instead: dict[Node, Place]
) -> tuple[Graph, dict[Node, Node]]:
    new: dict[Node, Node] = {x: x for x in graph.inputs}
    # Work of the forward pass belongs to it, even if the backward pass asked for more
    forward = {large for small, (large, _) in instead.items() if not small.backward}
    for node in order:
        op, xs = node.op, node.inputs
        if xs and xs[0] in instead:
            large, positions = instead[xs[0]]
            op, xs = TABLE["Result"](positions[op.index]), (large,)  # type: ignore[attr-defined]
        inputs = tuple([new[x] for x in xs])
        forward_op = "" if node in forward else node.forward_op
        new[node] = Node(op, inputs, node.type, node.where, (), forward_op, node.value)
    return Graph(graph.inputs, [new[y] for y in graph.outputs], graph.names), new
