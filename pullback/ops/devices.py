"""Per-device programs in NumPy: each op on every device, one op after the other.

It says what a per-device program means, and so what the devices together must give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pullback.ir.errors import PullbackError
from pullback.ir.graph import Graph
from pullback.ir.node import Node
from pullback.ops.base import check_value


def run_devices(graph: Graph, mesh: Any, xs: Mapping[int, Sequence]) -> dict[int, list]:
    """The outputs on some positions of a mesh, by position, from the inputs there.

    A mesh says who communicates over which axes: `groups(axes)` are lists of positions,
    `coordinates[k]` the place of position k on each axis. In a loop that ends earlier on some
    devices than on others, not all positions are there.
    """
    values = {k: dict(zip(graph.inputs, x, strict=True)) for k, x in xs.items()}
    for node in graph.nodes[len(graph.inputs) :]:
        operands = {k: tuple([v[x] for x in node.inputs]) for k, v in values.items()}
        for k, made in _apply(node, mesh, operands).items():
            check_value(node, made)
            values[k][node] = made
    return {k: [np.asarray(v[y]) for y in graph.outputs] for k, v in values.items()}


def _apply(node: Node, mesh: Any, xs: dict[int, tuple]) -> dict[int, Any]:
    op: Any = node.op
    if node.inputs and isinstance(node.inputs[0].type, tuple):
        return {k: x[0][op.index] for k, x in xs.items()}
    try:
        if op.named_axes():
            return op.numpy_devices(xs, mesh, lambda graph, given: run_devices(graph, mesh, given))
        return {k: op.numpy(*x) for k, x in xs.items()}
    except PullbackError as error:
        raise error.at(op.title, node.where) from None
