"""Limits of all engines: XLA ends the process if a number of bytes exceeds 64 bits."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from pullback.errors import OutOfMemory
from pullback.graph.graph import Graph
from pullback.graph.types import Type, show_types

ADDRESS_SPACE = 1 << 47  # bytes of a process
MOST = 1 << 58  # bytes; intermediate values may be somewhat larger than what is checked


def physical_memory() -> int:
    """Return the bytes of memory of this machine; no program is large if they are unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # another system
        return 1 << 63


def refuse_beyond_limits(graph: Graph) -> None:
    """Raise if a value of the graph, or of a graph inside it, fits into no memory."""
    for node in graph.nodes:
        for inner in node.op.graphs:
            refuse_beyond_limits(inner)
        try:
            refuse_types_beyond_limits(node.type if isinstance(node.type, tuple) else (node.type,))
        except OutOfMemory as error:
            raise error.at(node.op.title, node.where) from None


def refuse_types_beyond_limits(types: Sequence[Type], most: int = MOST) -> None:
    """Raise if a value has `most` bytes or more."""
    for t in types:
        # Zero dimensions count as one, as XLA multiplies the others
        if math.prod([n or 1 for n in t.shape]) * t.dtype.numpy.itemsize >= most:
            raise OutOfMemory(f"there is not enough memory for {show_types(t)}")
