"""A log of the programs that a process started on a group of devices, for others to compare."""

from __future__ import annotations

import threading
import zlib
from array import array
from typing import NamedTuple

_CAPACITY = 1 << 17  # more than a process can be ahead of what it has heard of another


class LoggedFailure(NamedTuple):
    """A program that could not be run; `final` if another process never comes out of it."""

    number: int
    process: int
    cause: str
    final: bool


class LogSummary(NamedTuple):
    """The state of a log, which other processes receive."""

    started: int
    programs: int  # checksum over all programs that were started
    values: int  # checksum over all values that were passed to them
    failure: LoggedFailure | None


class ProgramLog:
    """The programs that were started on a group, in order; several threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self.failure: LoggedFailure | None = None
        self.results: set[int] = set()  # of the last program: the arrays, by identity
        # after each program: checksums over all that were started so far, and over their inputs
        self._programs, self._values = array("I"), array("I")

    def begin(self, program: int, values: int) -> None:
        """Log a program about to start, by checksums of it and of the inputs that all share."""
        with self._lock:
            for sums, checksum in ((self._programs, program), (self._values, values)):
                if len(sums) == _CAPACITY:
                    del sums[: _CAPACITY // 2]
                sums.append(zlib.crc32(checksum.to_bytes(4), sums[-1] if sums else 0))
            self.count += 1

    def fail(self, failure: LoggedFailure) -> None:
        """Log that a program could not be run; after a `final` failure none can."""
        if self.failure is None or not self.failure.final:
            self.failure = failure

    def difference(self, other: LogSummary) -> str:
        """Return what the process that sent a summary did differently; "" if nothing."""
        with self._lock:
            place = other.started - 1 - (self.count - len(self._programs))
            if not 0 <= place < len(self._programs):
                return ""
            programs, values = self._programs[place], self._values[place]
        if programs != other.programs:
            return "ran another program"
        return "put other values into a program" if values != other.values else ""

    def summary(self) -> LogSummary:
        with self._lock:
            programs, values = (s[-1] if s else 0 for s in (self._programs, self._values))
            return LogSummary(self.count, programs, values, self.failure)
