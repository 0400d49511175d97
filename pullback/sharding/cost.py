"""The cost model of communication and arithmetic on a mesh.

In a ring of N devices, each device sends 2 (N-1)/N b bytes for an all_reduce of b bytes, (N-1)/N b
for an all_gather or reduce_scatter, and (N-1)/N of its own bytes for an all_to_all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pullback.graph.op_kinds import SumOfProductsKind
from pullback.graph.types import Type


@dataclass(frozen=True)
class Machine:
    """The speed of a device and of its connections."""

    flops: float = 5e13  # per second
    bandwidth: float = 5e10  # bytes per second
    latency: float = 5e-6  # seconds per collective

    def seconds(self, traffic: float, steps: int = 1) -> float:
        """Return the time to send `traffic` bytes in `steps` collectives."""
        return traffic / self.bandwidth + steps * self.latency if steps else 0.0

    def computing(self, work: float) -> float:
        """Return the time for `work` arithmetic operations."""
        return work / self.flops


def arithmetic_cost(op: Any, extents: dict[str, int], types: Sequence[Type]) -> float:
    """Count the arithmetic operations of an op: two per product in a sum, at least one per element.

    `extents` are the sizes of its factors, `types` those of its operands and results.
    """
    steps = math.prod(extents.values()) * (2 if isinstance(op, SumOfProductsKind) else 1)
    return max([steps, *[t.size for t in types]])


def traffic_cost(kind: str, nbytes: float, count: int) -> float:
    """Return the bytes that each of `count` devices sends in a collective.

    `nbytes` is the larger of a device's sizes before and after.
    """
    share = (count - 1) / count
    return nbytes * share * (2 if kind == "all_reduce" else 1)
