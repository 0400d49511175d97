"""What communication and arithmetic cost on a mesh.

Of N devices in a ring each sends, for b bytes that every device ends up with: all_reduce
2 (N-1)/N b, all_gather and reduce_scatter (N-1)/N b; all_to_all (N-1)/N of what a device has.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """How fast a device computes, and how fast it sends to its neighbours."""

    flops: float = 5e13  # a second
    bandwidth: float = 5e10  # bytes a second
    latency: float = 5e-6  # seconds until the first byte

    def seconds(self, traffic: float, steps: int = 1) -> float:
        """To send `traffic` bytes, in so many collectives."""
        return traffic / self.bandwidth + steps * self.latency if steps else 0.0


def traffic(kind: str, nbytes: float, count: int) -> float:
    """Bytes that each of `count` devices sends; `nbytes` is the larger of what it has before and
    after."""
    share = (count - 1) / count
    return nbytes * share * (2 if kind == "all_reduce" else 1)
