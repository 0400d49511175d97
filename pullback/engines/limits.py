"""What no engine can do: XLA ends the process where a number of bytes does not fit 64 bits."""

from __future__ import annotations

import math

from pullback.errors import OutOfMemory
from pullback.graph.graph import Graph
from pullback.graph.types import Type, show

MOST = 1 << 58  # bytes; what is computed on the way to a result may be somewhat larger


def refuse_too_large(graph: Graph) -> None:
    """Raise at the first value, also of inner graphs, that no memory can hold."""
    for node in graph.nodes:
        for inner in node.op.graphs:
            refuse_too_large(inner)
        types = node.type if isinstance(node.type, tuple) else (node.type,)
        if max(map(_extent, types), default=0) >= MOST:
            raise OutOfMemory(
                f"there is not enough memory for {show(node.type)}",
                op=node.op.title, where=node.where,
            )  # fmt: skip


def _extent(type: Type) -> int:
    """The bytes of a value; an empty one counts by its other dimensions, as it does in XLA."""
    return math.prod([n or 1 for n in type.shape]) * type.dtype.numpy.itemsize
