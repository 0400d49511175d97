"""Loops leave sums that they do not read to the program around them."""

from __future__ import annotations

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.traits import HasLateSums
from pullback.transforms.call_rules import is_result_node
from pullback.transforms.replacement import with_replacements


def with_late_sums(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    """Return the program with such sums after its loops, and the old node of each new one."""
    made = {n: n.op.with_late_sums(n.inputs) for n in graph.nodes if isinstance(n.op, HasLateSums)}
    places = {}
    for node in graph.nodes:
        results = made.get(node.inputs[0]) if is_result_node(node) else None
        if results is not None:
            places[node] = results[node.op.index]  # type: ignore[attr-defined]
    return with_replacements(graph, places) if places else (graph, {})
