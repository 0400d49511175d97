"""Waiting for other processes, and checking that all do the same."""

from __future__ import annotations

import time

from pullback.distributed.heartbeat import ENDED, LEFT, Heartbeat
from pullback.engines.processes import processes_in_words
from pullback.engines.xla.process_cluster import ProcessCluster
from pullback.engines.xla.sharded import ShardedDeviceGroup
from pullback.errors import ProcessMismatch, PullbackError
from pullback.graph.source_lines import user_line

_POLL, _SLOWEST_POLL = 0.001, 0.02  # seconds


def synchronize_words(
    cluster: ProcessCluster, heartbeat: Heartbeat, tag: str, word: str, timeout: float,
    devices: ShardedDeviceGroup | None = None,
) -> dict[int, str]:  # fmt: skip
    """Return what each process, or each of `devices`, says when it reaches a tag as often."""
    heartbeat.require_all(tag)
    turn = heartbeat.turns[tag] = heartbeat.turns.get(tag, 0) + 1
    among = devices or heartbeat.everyone
    heartbeat.waits = {"tag": tag, "turn": turn, "processes": list(among.processes)}
    directory = f"pullback/words/{tag}/{turn}/"
    end, pause = time.monotonic() + timeout, _POLL
    try:
        while True:
            said = cluster.exchange(f"{directory}{cluster.process}", word, directory, among)
            found = {int(k.rsplit("/", 1)[1]): v for k, v in said.items()}
            missing = [k for k in among.processes if k not in found]
            if not missing:
                break
            ended = [k for k in missing if heartbeat.states().get(k) in (ENDED, LEFT)]
            error: PullbackError | None = (
                _not_synchronized(tag, ended, "before the end") if ended else None
            )
            error = error or heartbeat.elsewhere(missing)
            error = error or heartbeat.overtaken(among, missing, word.partition("\n")[0])
            if error is None and time.monotonic() > end:
                error = _not_synchronized(tag, missing, f"within {timeout:g} s")
            if error is not None:
                raise error.at(None, user_line())
            heartbeat.check(among)
            time.sleep(pause)
            pause = min(1.2 * pause, _SLOWEST_POLL)
    finally:
        heartbeat.waits = None
    cluster.forget(f"pullback/words/{tag}/{turn - 1}/{cluster.process}")  # all have read that
    return {k: found[k] for k in among.processes}


def _not_synchronized(tag: str, missing: list[int], when: str) -> ProcessMismatch:
    return ProcessMismatch(
        f"{processes_in_words(missing)} did not come to {tag} {when}",
        hint="Every process must run the same programs in the same order: compute what only one\n"
        "of them needs on all, and use it on one.",
    )
