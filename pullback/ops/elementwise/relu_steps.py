"""Gradients of rectifiers as selections by their results.

A rectifier's result is positive where its operand is. The result is often in memory, since a
product or convolution reads it; on GPUs, XLA computes the operand again, from all that it depends
on.
"""

from __future__ import annotations

from collections.abc import Iterator

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.elementwise.functions import greater, where
from pullback.ops.elementwise.guarded import MulNoNan
from pullback.ops.elementwise.relu import Relu, Step


def relu_steps(graph: Graph) -> dict[Node, Node]:
    """Return selections to put in the place of products of cotangents with steps."""
    return dict(_relu_gradients(graph))


def _relu_gradients(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Yield products of cotangents with steps, and selections that give the same."""
    results = {n.inputs[0]: n for n in graph.nodes if isinstance(n.op, Relu)}
    for node in graph.nodes:
        if isinstance(node.op, MulNoNan) and isinstance(node.inputs[0].op, Step):
            step, g = node.inputs
            x = step.inputs[0]
            if x.type.shape == g.type.shape:
                y = results.get(x)
                # XLA simplifies `y > 0` to `x > 0`
                yield node, where(greater(x, 0) if y is None else greater(y, -y), g, 0)
