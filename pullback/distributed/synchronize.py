"""What processes do together: wait for each other, and see that they do the same."""

from __future__ import annotations

import time
from typing import Any

from pullback.distributed import ENDED, LEFT
from pullback.distributed.rendezvous import these
from pullback.errors import ProcessMismatch
from pullback.graph.where import user_line

_POLL = 0.005


def same_program(cluster: Any, pulse: Any, word: str, group: Any) -> None:
    """Return when all processes of a group of devices are about to start the same program."""
    tag = f"the next program on {group.name}"
    compare(tag, gather(cluster, pulse, tag, word, 600.0, group))


def gather(
    cluster: Any, pulse: Any, tag: str, word: str, timeout: float, group: Any = None
) -> dict[int, str]:
    """What each process says when it comes to a tag, as often as this one did.

    It is told to all, or to those of a group that are about to start a program on it.
    """
    pulse.require_all(tag)
    turn = pulse.turns[tag] = pulse.turns.get(tag, 0) + 1
    among = group or pulse.everyone
    pulse.waits = {"tag": tag, "turn": turn, "processes": list(among.processes)}
    try:
        return _gathered(cluster, pulse, tag, turn, word, timeout, among)
    finally:
        pulse.waits = None


def _gathered(
    cluster: Any, pulse: Any, tag: str, turn: int, word: str, timeout: float, among: Any
) -> dict[int, str]:
    processes = among.processes
    directory = f"pullback/words/{tag}/{turn}/"
    end = time.monotonic() + timeout
    while True:
        told = cluster.exchange(f"{directory}{cluster.process}", word, directory, among)
        found = {int(k.rsplit("/", 1)[1]): v for k, v in told.items()}
        missing = [k for k in processes if k not in found]
        if not missing:
            break
        error = _never(pulse, tag, missing) or pulse.elsewhere(missing)
        error = error or pulse.overtaken(among, missing, word)
        if error is None and time.monotonic() > end:
            error = _absent(tag, missing, f"within {timeout:g} s")
        if error is not None:
            raise error.at(None, user_line())
        pulse.check(among)
        time.sleep(_POLL)
    cluster.forget(f"pullback/words/{tag}/{turn - 1}/{cluster.process}")  # all have read that
    return {k: found[k] for k in processes}


def compare(tag: str, words: dict[int, str]) -> None:
    """Raise unless all processes said the same."""
    groups: dict[str, list[int]] = {}
    for k, word in words.items():
        groups.setdefault(word, []).append(k)
    if len(groups) > 1:
        lines = [f"  {these(ks)}: {word}" for word, ks in groups.items()]
        raise ProcessMismatch(
            f"processes disagree about {tag}:\n" + "\n".join(lines),
            hint="Every process must run the same programs in the same order.",
        )  # fmt: skip


def _never(pulse: Any, tag: str, missing: list[int]) -> Any:
    ended = [k for k in missing if pulse.states().get(k) in (ENDED, LEFT)]
    return _absent(tag, ended, "before the end") if ended else None


def _absent(tag: str, missing: list[int], when: str) -> ProcessMismatch:
    return ProcessMismatch(
        f"{these(missing)} did not come to {tag} {when}",
        hint="Every process must run the same programs in the same order: what only one of them "
        "needs\nmust be computed on all, and then used on one.",
    )  # fmt: skip
