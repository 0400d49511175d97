"""Signs of life: every process tells the others each second that it runs, and how far it is."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from typing import Any, NamedTuple

from pullback.distributed import ALIVE, ENDED, FAILED, LEFT
from pullback.ir.errors import ProcessMismatch, PullbackError, WorkerLost
from pullback.ir.where import user_line

_DIRECTORY = "pullback/pulse/"
_EVERY = 1.0


class Everyone(NamedTuple):
    """All processes, as a group of devices has some."""

    processes: range
    name: str = "all"


class Pulse:
    """What is known about the processes of a cluster.

    A process is lost when it has given no sign of life for `patience` seconds, or said that it
    failed. The first one is lost, too, when the connection to it breaks: all words pass through
    it.
    """

    def __init__(self, cluster: Any, relay: Any) -> None:
        self._cluster, self._relay = cluster, relay
        self.names = [""] * cluster.count
        self.names[cluster.process] = f" (pid {os.getpid()} on {socket.gethostname()})"
        self._state, self._count = ALIVE, 0
        self.waits: dict | None = None  # what this process is about to start, if all do
        self.agreed = 0  # how often all did
        self._lost_one: int | None = None
        self._said: dict[int, dict] = {}
        self._checked = self._heard = time.monotonic()
        self._seen = dict.fromkeys(range(cluster.count), self._heard)
        self._stopped = threading.Event()
        self.everyone = Everyone(range(cluster.count))
        self._every = _EVERY
        self._tell()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="pullback-pulse")
        self._thread.start()

    def say(self, state: str, lost: int | None = None) -> None:
        """Tell the others at once how this process fares, and which one it failed for."""
        self._state, self._lost_one = state, lost
        telling = threading.Thread(target=self._tell, daemon=True)
        telling.start()
        telling.join(timeout=2.0)

    def states(self) -> dict[int, str]:
        """What each process said last about itself."""
        return {k: said["state"] for k, said in self._said.items()}

    def hurry(self) -> None:
        """Tell and hear more often, for soon it will be over."""
        self._every = _EVERY / 20

    def stop(self) -> None:
        """No more signs. A thread that is still in XLA when Python ends would end it badly."""
        self._stopped.set()
        self._thread.join(timeout=2.0)

    # -- who is lost ------------------------------------------------------------------------------

    def check(self, group: Any) -> None:
        """Raise if a process of a group is lost, or will never start what this one waits for."""
        error = self.trouble(group.processes) or self._missed(group)
        if error is not None:
            self._cluster.abandon()
            raise error.at(None, user_line())

    def trouble(self, processes: Any) -> WorkerLost | None:
        """The error that says which of some processes is lost; the coordinator always counts."""
        now = time.monotonic()
        if now - self._checked > 2 * _EVERY:  # did this process sleep? then it may have missed it
            self._seen[0] = max(self._seen[0], now - self._cluster.patience / 2)
        self._checked = now
        for k in dict.fromkeys((0, *processes)):
            why = self._lost(k, now) if k != self._cluster.process else ""
            if why:
                k, why = self._origin(k, why)
                return WorkerLost(
                    f"process {k}{self.names[k]} {why}", process=k,
                    hint="Programs that run on it, too, will never end. Save what this process "
                    "has, and start all anew from the\nlast state that was saved.",
                )  # fmt: skip
        return None

    def _lost(self, k: int, now: float) -> str:
        state = self._said.get(k, {}).get("state")
        if state in (FAILED, LEFT):
            return "ended with an error" if state == FAILED else ""
        if k == 0 and self._relay is not None and self._relay.broken.is_set():
            return "was lost: the connection to it broke"
        # while the first process is silent, nothing is heard of the others
        silence = (now if k == 0 else self._heard) - self._seen[k]
        late = silence > self._cluster.patience
        return f"was lost: it gave no sign of life for {silence:.0f} s" if late else ""

    def _origin(self, k: int, why: str) -> tuple[int, str]:
        """A process that left because another was lost names that one."""
        first = self._said.get(k, {}).get("lost")
        if first in (None, k, self._cluster.process):
            return k, why
        return first, self._lost(first, time.monotonic()) or f"was lost, as process {k} found"

    def _missed(self, group: Any) -> PullbackError | None:
        mine = self.started(group)
        for k in group.processes:
            said = self._said.get(k, {})
            theirs = self.started(group, k)
            waits = said.get("waits") or {}
            if (
                waits.get("group") == group.name
                and waits["turn"] > self.agreed  # that question this process was never asked
                and waits["after"] < mine
            ):
                return ProcessMismatch(
                    f"process {k}{self.names[k]} is about to start another program than process "
                    f"{self._cluster.process} did in its place: {waits['for']}",
                    hint="Every process must run the same programs in the same order.",
                )
            if said.get("state") in (ENDED, LEFT) and theirs < mine:
                return ProcessMismatch(
                    f"process {k}{self.names[k]} has ended, and started {theirs} programs on "
                    f"{group.name}, where process {self._cluster.process} started {mine}",
                    hint="Every process must run the same programs in the same order: what only "
                    "one of them needs\nmust be computed on all, and then used on one.",
                )  # fmt: skip
        return None

    def overtaken(self, group: Any, processes: list[int], word: str) -> PullbackError | None:
        """The error if one of some processes started another program in place of `word`."""
        for k in processes:
            if self.started(group, k) > self.started(group):
                return ProcessMismatch(
                    f"process {k}{self.names[k]} started another program in place of {word}",
                    hint="Every process must run the same programs in the same order.",
                )
        return None

    def started(self, group: Any, process: int | None = None) -> int:
        """How many programs a process, or this one, has started on a group of devices."""
        said = self._said.get(process, {}) if process is not None else None
        found = self._cluster.started if said is None else said.get("started", {})
        return found.get(group.name, 0)

    # -- the thread -------------------------------------------------------------------------------

    def _beat(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # the coordinator does not answer: that will tell
                self._hear(self._cluster.told(_DIRECTORY))
            if self._stopped.wait(self._every):
                return
            self._tell()

    def _tell(self) -> None:
        self._count += 1
        words = {
            "count": self._count, "state": self._state,
            "started": dict(self._cluster.started), "lost": self._lost_one, "waits": self.waits,
        }  # fmt: skip
        with contextlib.suppress(Exception):
            self._cluster.tell(f"{_DIRECTORY}{self._cluster.process}", json.dumps(words))

    def _hear(self, found: dict[str, str]) -> None:
        self._heard = time.monotonic()
        for key, text in found.items():
            k, said = int(key.rsplit("/", 1)[1]), json.loads(text)
            if self._said.get(k) != said:
                self._said[k], self._seen[k] = said, self._heard
