"""The processes that compute together; `pullback.distributed.initialize` installs the group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.engines.xla.process_cluster import ProcessCluster
    from pullback.engines.xla.replicas import ReplicatedProgram


class ProcessGroup:
    """The processes that compute together; this base class stands for a single process."""

    index, count = 0, 1
    cluster: ProcessCluster | None = None  # connects XLA's clients of several processes

    def agree_on_launch(self, program: ReplicatedProgram, args: list[Any], always: bool) -> None:
        """Return when all processes are about to start the same program on the same values.

        Unless `always`, a program that they agreed on before is not compared again.
        """

    def exchange(self, tag: str, word: str, timeout: float) -> list[str]:
        """Return what each process says under a tag, by index."""
        return [word]

    def shutdown(self) -> None:
        """Leave the group when all processes do."""


_current = ProcessGroup()


def current_processes() -> ProcessGroup:
    return _current


def install_processes(group: ProcessGroup) -> None:
    global _current
    _current = group


def processes_in_words(processes: Iterable[int]) -> str:
    """Return "process 1" or "processes 1, 2"."""
    found = sorted(processes)
    return ("process " if len(found) == 1 else "processes ") + ", ".join(map(str, found))
