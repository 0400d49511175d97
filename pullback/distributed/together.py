"""What processes do together: wait for each other, and see that they do the same."""

from __future__ import annotations

import time
from typing import Any

from pullback.distributed import ENDED, LEFT
from pullback.distributed.meeting import these
from pullback.ir.errors import ProcessMismatch
from pullback.ir.where import user_line

_POLL = 0.005
_PROGRAM = "the next program"


def same_program(cluster: Any, pulse: Any, turn: int, word: str, group: Any) -> None:
    """Return when all processes are about to start the same program on a group of devices."""
    after = pulse.started(group)
    pulse.waits = {"group": group.name, "after": after, "turn": turn, "for": word}
    try:
        found = gather(cluster, pulse, _PROGRAM, turn, word, 600.0, group)
    finally:
        pulse.waits = None
    compare(_PROGRAM, dict(enumerate(found)))
    pulse.agreed = turn


def gather(
    cluster: Any, pulse: Any, tag: str, turn: int, word: str, timeout: float, group: Any = None
) -> list[str]:
    """What each process says when it comes to a tag for the `turn`-th time.

    If it is a program for a group of devices, none may have started another one.
    """
    directory = f"pullback/words/{tag}/{turn}/"
    end = time.monotonic() + timeout
    while True:
        told = cluster.exchange(f"{directory}{cluster.process}", word, directory, pulse.everyone)
        found = {int(k.rsplit("/", 1)[1]): v for k, v in told.items()}
        missing = [k for k in range(cluster.count) if k not in found]
        if not missing:
            break
        error = _never(pulse, tag, missing)
        if error is None and group is not None:
            error = pulse.overtaken(group, missing, word)
        if error is None and time.monotonic() > end:
            error = _absent(tag, missing, f"within {timeout:g} s")
        if error is not None:
            raise error
        pulse.check(pulse.everyone)
        time.sleep(_POLL)
    cluster.forget(f"pullback/words/{tag}/{turn - 1}/{cluster.process}")  # all have read that
    return [found[k] for k in range(cluster.count)]


def compare(tag: str, words: dict[int, str]) -> None:
    """Raise unless all processes said the same."""
    groups: dict[str, list[int]] = {}
    for k, word in words.items():
        groups.setdefault(word, []).append(k)
    if len(groups) > 1:
        lines = [f"  {these(ks)}: {word}" for word, ks in groups.items()]
        raise ProcessMismatch(
            f"processes disagree about {tag}:\n" + "\n".join(lines), where=user_line(),
            hint="Every process must run the same programs in the same order.",
        )  # fmt: skip


def _never(pulse: Any, tag: str, missing: list[int]) -> Any:
    ended = [k for k in missing if pulse.states().get(k) in (ENDED, LEFT)]
    return _absent(tag, ended, "before the end") if ended else None


def _absent(tag: str, missing: list[int], when: str) -> ProcessMismatch:
    return ProcessMismatch(
        f"{these(missing)} did not come to {tag} {when}", where=user_line(),
        hint="Every process must run the same programs in the same order: what only one of them "
        "needs\nmust be computed on all, and then used on one.",
    )  # fmt: skip
