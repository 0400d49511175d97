"""The reference engine on several devices: each op on every device, one op after the other.

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


def run_devices(graph: Graph, mesh: Any, parts: Sequence[Sequence[np.ndarray]]) -> list[list]:
    """The outputs of a per-device program on each device of a mesh, from its inputs there.

    `parts[k]` are the inputs at position k. A mesh says who communicates over which axes:
    `groups(axes)` are lists of positions, `coordinates[k]` the place of position k on each axis.
    """
    with np.errstate(all="ignore"):
        made = _run(graph, mesh, dict(enumerate(parts)))
    return [[np.array(y, order="C") for y in made[k]] for k in range(len(parts))]


def _run(graph: Graph, mesh: Any, xs: Mapping[int, Sequence]) -> dict[int, list]:
    """The same on some of the positions: a loop may end earlier on some devices than on others."""
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
            return op.numpy_devices(xs, mesh, lambda graph, given: _run(graph, mesh, given))
        return {k: op.numpy(*x) for k, x in xs.items()}
    except PullbackError as error:
        raise error.at(op.title, node.where) from None
