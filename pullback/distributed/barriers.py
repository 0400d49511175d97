"""Waiting for the other processes, and comparing what they say."""

from __future__ import annotations

from pullback.engines import processes
from pullback.errors import ProcessMismatch
from pullback.graph.argument_checks import with_argument_checks


@with_argument_checks
def barrier(name: str = "barrier", timeout: float = 600.0) -> None:
    """Return when all processes have reached this call.

    >>> import pullback as pb
    >>> pb.distributed.barrier("loaded")
    """
    agree(name, "", timeout)


@with_argument_checks
def agree(tag: str, fingerprint: str, timeout: float = 600.0) -> None:
    """Return when all processes have reached `tag` with the same fingerprint.

    Otherwise `ProcessMismatch` says which process has what, or which did not come. A tag may be
    used again.

    >>> import pullback as pb
    >>> pb.distributed.agree("version", pb.__version__)
    """
    compare_at_barrier(tag, dict(enumerate(exchange(tag, fingerprint, timeout))))


@with_argument_checks
def exchange(tag: str, word: str, timeout: float = 600.0) -> list[str]:
    """Return what each process says under a tag, by process index.

    >>> import pullback as pb
    >>> pb.distributed.exchange("name", "a")
    ['a']
    """
    return processes.current_processes().exchange(tag, word, timeout)


def compare_at_barrier(tag: str, words: dict[int, str]) -> None:
    """Raise unless all processes said the same."""
    groups: dict[str, list[int]] = {}
    for k, word in words.items():
        groups.setdefault(word, []).append(k)
    if len(groups) > 1:
        lines = [f"  {processes.processes_in_words(ks)}: {word}" for word, ks in groups.items()]
        hint = "Every process must run the same programs in the same order."
        raise ProcessMismatch(f"processes disagree about {tag}:\n" + "\n".join(lines), hint=hint)


__all__ = ["agree", "barrier", "exchange"]
