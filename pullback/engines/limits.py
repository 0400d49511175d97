"""Limits of all engines: XLA ends the process if a number of bytes exceeds 64 bits."""

from __future__ import annotations

import math

from pullback.errors import OutOfMemory
from pullback.graph.graph import Graph
from pullback.graph.types import show

ADDRESS_SPACE = 1 << 47  # bytes of a process
MOST = 1 << 58  # bytes; intermediate values may be somewhat larger than what is checked


def refuse_too_large(graph: Graph) -> None:
    """Raise if a value of the graph, or of a graph inside it, fits into no memory."""
    for node in graph.nodes:
        for inner in node.op.graphs:
            refuse_too_large(inner)
        types = node.type if isinstance(node.type, tuple) else (node.type,)
        # Zero dimensions count as one, as XLA multiplies the others.
        counts = [math.prod([n or 1 for n in t.shape]) * t.dtype.numpy.itemsize for t in types]
        if max(counts, default=0) >= MOST:
            what = f"there is not enough memory for {show(node.type)}"
            raise OutOfMemory(what, op=node.op.title, where=node.where)
