"""Gradients of rectifiers from their results.

A rectifier's result is positive where its operand is. The result is often in memory, since a
product or convolution reads it; on GPUs, XLA computes the operand again, from all that it depends
on.
"""

from __future__ import annotations

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.elementwise.relu import Relu, Step
from pullback.transforms.replacement import with_replacements


def with_relu_steps(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    """Return the program with such gradients, and the old node of each new one."""
    results = {n.inputs[0]: n for n in graph.nodes if isinstance(n.op, Relu)}
    places = {
        n: Step()(results[n.inputs[0]])
        for n in graph.nodes
        if isinstance(n.op, Step) and n.inputs[0] in results
    }
    return with_replacements(graph, places) if places else (graph, {})
