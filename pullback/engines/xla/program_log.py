"""What a process did on a group of devices, for the other processes to compare."""

from __future__ import annotations

import threading
import zlib
from array import array
from typing import Any, NamedTuple

_LONGEST = 1 << 17  # more than a process can be ahead of what it has heard of another


class LoggedFailure(NamedTuple):
    """A program that could not be run: its number, on which process and why, and whether another
    is left in it for ever."""

    number: int
    process: int
    cause: str
    final: bool


class Ledger:
    """The programs that were started on a group, in their order; `failure` is the last one.

    Threads that start programs, that wait for results and that tell other processes share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self.failure: LoggedFailure | None = None
        self.results: set[int] = set()  # of the last program: the arrays, by identity
        # after each program: a sum over all that were started so far, and over what was put in
        self._programs, self._values = array("I"), array("I")

    def begin(self, program: int, values: int) -> None:
        """A program is about to be started; marks tell it from others, and what is put in, as far
        as that must be the same on all processes."""
        with self._lock:
            for sums, mark in ((self._programs, program), (self._values, values)):
                if len(sums) == _LONGEST:
                    del sums[: _LONGEST // 2]
                sums.append(zlib.crc32(mark.to_bytes(4), sums[-1] if sums else 0))
            self.count += 1

    def fail(self, failure: LoggedFailure) -> None:
        """A program could not be run; after one that is `final` none can."""
        if self.failure is None or not self.failure.final:
            self.failure = failure

    def differs(self, words: list[Any]) -> str:
        """What another process, which said `words` about itself, did otherwise."""
        number, programs, values, _ = words
        with self._lock:
            place = number - 1 - (self.count - len(self._programs))
            if not 0 <= place < len(self._programs):
                return ""
            mine = self._programs[place], self._values[place]
        if mine[0] != programs:
            return "ran another program"
        return "put other values into a program" if mine[1] != values else ""

    def words(self) -> list[Any]:
        with self._lock:
            if not self.count:
                return [0, 0, 0, self.failure]
            return [self.count, self._programs[-1], self._values[-1], self.failure]
