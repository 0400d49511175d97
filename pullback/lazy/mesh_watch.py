"""Watching programs that hold programs of single devices, which NumPy runs on a simulated mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.engines.engine_registry import engine_for
from pullback.graph.graph import Graph
from pullback.graph.node import Node, result_nodes
from pullback.graph.op_kinds import PerDeviceKind
from pullback.lazy.settings import Settings
from pullback.lazy.values import value_to_host
from pullback.ops.sources import placeholder
from pullback.ops.watch import Watch


class MeshWatch(Watch):
    """A watch of a program that may be on a mesh."""

    def compute(self, node: Node, xs: Sequence[Any]) -> Any:
        return mesh_watch_result(node, xs)


def mesh_watch_result(node: Node, xs: Sequence[Any]) -> Any:
    """What NumPy computes for a node; a tuple for an op with several results."""
    if not isinstance(node.op, PerDeviceKind):
        return node.op.numpy(*xs)
    inputs = [placeholder(f"x{i}", x.type) for i, x in enumerate(node.inputs)]
    graph = Graph(inputs, result_nodes(Node(node.op, tuple(inputs), node.type, node.where)))
    engine = engine_for(Settings(engine="reference"), node.op.mesh)
    pairs = zip(xs, inputs, strict=True)
    made = engine.compile(graph).run([engine.put(np.asarray(a), x.type) for a, x in pairs])
    return tuple([np.asarray(value_to_host(y)) for y in made])
