"""How much memory programs take."""

from __future__ import annotations

from typing import NamedTuple


class MemoryUse(NamedTuple):
    """Bytes that a program takes while it runs: all of it is there at its peak."""

    arguments: int
    results: int
    temporaries: int

    @property
    def peak(self) -> int:
        return self.arguments + self.results + self.temporaries
