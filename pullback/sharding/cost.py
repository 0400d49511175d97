"""What communication and arithmetic cost on a mesh.

Of N devices in a ring each sends, for b bytes that every device ends up with: all_reduce
2 (N-1)/N b, all_gather and reduce_scatter (N-1)/N b; all_to_all (N-1)/N of what a device has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pullback.graph.kinds import SumOfProducts
from pullback.graph.types import Type


@dataclass(frozen=True)
class Machine:
    """How fast a device computes, and how fast it sends to its neighbours."""

    flops: float = 5e13  # a second
    bandwidth: float = 5e10  # bytes a second
    latency: float = 5e-6  # seconds until the first byte

    def seconds(self, traffic: float, steps: int = 1) -> float:
        """To send `traffic` bytes, in so many collectives."""
        return traffic / self.bandwidth + steps * self.latency if steps else 0.0

    def computing(self, work: float) -> float:
        """Seconds for so many operations."""
        return work / self.flops


def work(op: Any, extents: dict[str, int], types: Sequence[Type]) -> float:
    """Arithmetic operations of an op, whose factors have these extents, operands and results these
    types: two for each product that is summed, and at least one for each element."""
    steps = math.prod(extents.values()) * (2 if isinstance(op, SumOfProducts) else 1)
    return max([steps, *[t.size for t in types]])


def traffic(kind: str, nbytes: float, count: int) -> float:
    """Bytes that each of `count` devices sends; `nbytes` is the larger of what it has before and
    after."""
    share = (count - 1) / count
    return nbytes * share * (2 if kind == "all_reduce" else 1)
