"""The memory that a program uses. This module imports no jaxlib: `import pullback` loads it."""

from __future__ import annotations

from typing import NamedTuple


class MemoryUse(NamedTuple):
    """Bytes that a program uses while it runs; at the peak, all of them."""

    arguments: int
    results: int
    temporaries: int

    @property
    def peak(self) -> int:
        return self.arguments + self.results + self.temporaries
