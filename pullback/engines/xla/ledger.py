"""What a process did on a group of devices, for the other processes to compare."""

from __future__ import annotations

import zlib
from array import array
from typing import Any, NamedTuple

_LONGEST = 1 << 17  # more than a process can be ahead of what it has heard of another


class Failure(NamedTuple):
    """A program that could not be run: its number, on which process and why, and whether another
    is left in it for ever."""

    number: int
    process: int
    cause: str
    final: bool


class Ledger:
    """The programs that were started on a group, in their order; `failure` is the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.failure: Failure | None = None
        self.results: set[int] = set()  # of the last program: the arrays, by identity
        self._sums = array("I")  # after each program: a sum over all that were started so far

    def begin(self, mark: int) -> None:
        """Another program is about to be started; `mark` tells it from others."""
        last = self._sums[-1] if self._sums else 0
        if len(self._sums) == _LONGEST:
            del self._sums[: _LONGEST // 2]
        self._sums.append(zlib.crc32(mark.to_bytes(8), last))
        self.count += 1

    def fail(self, failure: Failure) -> None:
        """A program could not be run; after one that is `final` none can."""
        if self.failure is None or not self.failure.final:
            self.failure = failure

    def differs(self, said: list[Any]) -> bool:
        """Whether another process, which said `words` about itself, ran other programs."""
        number, total, _ = said
        place = number - 1 - (self.count - len(self._sums))
        return 0 <= place < len(self._sums) and self._sums[place] != total

    def words(self) -> list[Any]:
        return [self.count, self._sums[-1] if self._sums else 0, self.failure]
