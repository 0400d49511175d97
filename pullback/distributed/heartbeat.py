"""Signs of life: every process tells the others each second that it runs, and how far it is."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from pullback.distributed import ALIVE, ENDED, FAILED, LEFT
from pullback.engines.xla.program_log import Ledger, LoggedFailure
from pullback.errors import EngineError, OutOfMemory, ProcessMismatch, PullbackError, WorkerLost
from pullback.graph.where import user_line

_DIRECTORY = "pullback/pulse/"
_EVERY = 1.0
_POLL = 0.01
_NOTHING = Ledger().words()
_NONE = LoggedFailure(0, 0, "", False)
_SAME_ORDER = "Every process must run the same programs in the same order."
_ANEW = (
    "Programs that run there, too, will never end. Save what this process has, and start all anew\n"
    "from the last state that was saved."
)


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

    def __init__(self, cluster: Any, relay: Any, names: list[str]) -> None:
        self._cluster, self._relay, self.names = cluster, relay, names
        self._state, self._count = ALIVE, 0
        self.waits: dict | None = None  # the tag at which this process waits for others
        self.turns: dict[str, int] = {}  # how often it came to each tag
        self._lost_one: int | None = None
        self._why = ""
        self._said: dict[int, dict] = {}
        self._noticed: dict[tuple, float] = {}  # when a failure was first heard of
        self._checked = self._heard = time.monotonic()
        self._seen = dict.fromkeys(range(cluster.count), self._heard)
        self._stopped = threading.Event()
        self.everyone = Everyone(range(cluster.count))
        self._every = _EVERY
        self.over = False  # whether this process has left the others
        self._tell()
        beating = threading.Thread(target=self._beat, daemon=True, name="pullback-pulse")
        self._threads = [beating]
        beating.start()

    def say(self, state: str | None = None, lost: int | None = None, why: str = "") -> None:
        """Tell the others at once how this process fares; if it failed, for which one, and why."""
        if state is not None:
            self._state, self._lost_one, self._why = state, lost, why
        telling = threading.Thread(target=self._tell, daemon=True)
        self._threads.append(telling)
        telling.start()
        telling.join(timeout=2.0)

    def states(self) -> dict[int, str]:
        """What each process said last about itself."""
        return {k: said["state"] for k, said in self._said.items()}

    def hurry(self) -> None:
        """Tell and hear more often, for soon it will be over."""
        self._every = _EVERY / 20

    def stop(self, lost: int | None = None) -> None:
        """No more signs. A thread that comes back from XLA while Python ends would end it badly.

        One that waits for the coordinator, when that is `lost` or gone, does not come back.
        """
        self._stopped.set()
        end = time.monotonic() + self._cluster.patience
        while any(t.is_alive() for t in self._threads) or self._cluster.telling():
            if time.monotonic() > end:
                return
            if lost == 0 or (self._relay is not None and self._relay.broken.is_set()):
                end = min(end, time.monotonic() + 0.3)
            time.sleep(_POLL)

    # -- who is lost ------------------------------------------------------------------------------

    def check(self, group: Any) -> None:
        """Raise if a process of a group is lost, or will never start what this one waits for."""
        self._raise(self.trouble(group.processes) or self._missed(group) or self._broken(group))

    def admit(self, group: Any, program: int, values: int) -> None:
        """Return when a program may be started on a group, which counts as begun from then on.

        If the last one failed here, that is when it has failed on all of its processes; and one
        that failed elsewhere fails here, too.
        """
        self.require_all(f"a program on {group.name}")
        mine = self._cluster.ledger(group)
        while True:
            self.check(group)
            failures = dict(self._failures(group))
            k = next((k for k, f in failures.items() if f.number == mine.count + 1), None)
            last = 0 if mine.failure is None else mine.failure.number
            others = [k for k in group.processes if k != self._cluster.process]
            if k is not None or all(last <= failures.get(k, _NONE).number for k in others):
                break
            time.sleep(_POLL)
        mine.begin(program, values)
        if k is not None:
            mine.fail(failures[k])
            self._raise(self._could_not_run(failures[k], group))

    def require_all(self, what: str) -> None:
        """Raise if this process has left the others, which it needs for something."""
        if self.over:
            raise EngineError(
                f"{what} needs all processes, and pb.distributed.shutdown was called",
            )

    def _raise(self, error: PullbackError | None) -> None:
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
                    hint=_ANEW,
                )  # fmt: skip
        return None

    def _lost(self, k: int, now: float) -> str:
        said = self._said.get(k, {})
        if said.get("state") in (FAILED, LEFT):
            return f"ended with an error{said['why']}" if said["state"] == FAILED else ""
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
        """The error if a process of a group runs other programs than this one."""
        mine = self._cluster.ledger(group)
        for k in group.processes:
            said = self._said.get(k, {})
            words = said.get("ledgers", {}).get(group.name, _NOTHING)
            if what := mine.differs(words):
                return ProcessMismatch(
                    f"process {k}{self.names[k]} {what} than process {self._cluster.process}, "
                    f"among its first {words[0]} on {group.name}",
                    hint=f"{_SAME_ORDER} Numbers and tensors\nthat are not split must be the same "
                    "on all. What was computed there since they differ is wrong.",
                )
            if self._in_vain(k) and words[0] < mine.count:
                return ProcessMismatch(
                    f"process {k}{self.names[k]} waits for all at {said['waits']['tag']}, where "
                    f"process {self._cluster.process} started another program on {group.name}",
                    hint=_SAME_ORDER,
                )
            if said.get("state") in (ENDED, LEFT) and words[0] < mine.count:
                return ProcessMismatch(
                    f"process {k}{self.names[k]} has ended, and started {words[0]} programs on "
                    f"{group.name}, where process {self._cluster.process} started {mine.count}",
                    hint=f"{_SAME_ORDER}\nWhat one needs is computed on all, and then used on one.",
                )
        return None

    def _failures(self, group: Any) -> Iterator[tuple[int, LoggedFailure]]:
        """By process, the last program on a group that another one could not run."""
        for k in group.processes:
            words = self._said.get(k, {}).get("ledgers", {}).get(group.name)
            if words and words[3] and k != self._cluster.process:
                yield k, LoggedFailure(*words[3])

    def _broken(self, group: Any) -> PullbackError | None:
        """The error if some process is left for ever in a program that another could not run."""
        mine = self._cluster.ledger(group)
        last = mine.failure or _NONE
        if last.final:
            return self._could_not_run(last, group)
        for k, failure in self._failures(group):
            if failure.final or last.number < failure.number <= mine.count:
                # what failed there may be about to fail here, too
                first = self._noticed.setdefault((k, group.name, failure), time.monotonic())
                if failure.final or time.monotonic() - first > 2 * _EVERY:
                    mine.fail(failure._replace(final=True))
                    self.say()
                    return self._could_not_run(mine.failure or failure, group)
        return None

    def _could_not_run(self, failure: LoggedFailure, group: Any) -> EngineError:
        k = failure.process
        what = (
            f"process {k}{self.names[k]} could not run a program on {group.name}: {failure.cause}"
        )
        # all can get over lack of memory, by trying something smaller
        return EngineError(what, hint=_ANEW) if failure.final else OutOfMemory(what)

    def _in_vain(self, k: int) -> bool:
        """Whether another process waits for this one at a tag that it did not come to."""
        waits = self._said.get(k, {}).get("waits")
        if not waits or self._cluster.process not in waits["processes"]:
            return False
        return self.turns.get(waits["tag"], 0) < waits["turn"]

    def elsewhere(self, processes: list[int]) -> PullbackError | None:
        """The error if one of some processes for which this one waits waits for it elsewhere."""
        for k in processes:
            if self._in_vain(k):
                return ProcessMismatch(
                    f"process {k}{self.names[k]} waits for all at {self._said[k]['waits']['tag']}, "
                    f"and process {self._cluster.process} at {self.waits and self.waits['tag']}",
                    hint=_SAME_ORDER,
                )
        return None

    def overtaken(self, group: Any, processes: list[int], word: str) -> PullbackError | None:
        """The error if one of some processes started another program in place of `word`."""
        for k in processes:
            if self.started(group, k) > self.started(group):
                return ProcessMismatch(
                    f"process {k}{self.names[k]} started another program in place of {word}",
                    hint=_SAME_ORDER,
                )
        return None

    def started(self, group: Any, process: int | None = None) -> int:
        """How many programs a process, or this one, has started on a group of devices."""
        if process is None:
            return self._cluster.ledger(group).count
        return self._said.get(process, {}).get("ledgers", {}).get(group.name, [0])[0]

    # -- the thread -------------------------------------------------------------------------------

    def _beat(self) -> None:
        while True:
            self.hear()
            if self._stopped.wait(self._every):
                return
            self._tell()

    def _tell(self) -> None:
        self._count += 1
        words = {
            "count": self._count, "state": self._state,
            "ledgers": self._cluster.ledgers(), "lost": self._lost_one, "waits": self.waits,
            "why": self._why,
        }  # fmt: skip
        with contextlib.suppress(Exception):
            self._cluster.tell(f"{_DIRECTORY}{self._cluster.process}", json.dumps(words))

    def hear(self) -> dict[int, int]:
        """Hear what all say; how often each has said something by now."""
        with contextlib.suppress(Exception):  # the coordinator does not answer: that will tell
            self._take(self._cluster.told(_DIRECTORY))
        return {k: said["count"] for k, said in self._said.items()}

    def heard_again(self, group: Any, before: dict[int, int]) -> bool:
        """Whether all processes of a group said something since then."""
        now = {k: self._said.get(k, {}) for k in group.processes if k != self._cluster.process}
        return all(
            said.get("state") == LEFT or said.get("count", 0) > before.get(k, 0)
            for k, said in now.items()
        )

    def _take(self, found: dict[str, str]) -> None:
        self._heard = time.monotonic()
        for key, text in found.items():
            k, said = int(key.rsplit("/", 1)[1]), json.loads(text)
            if self._said.get(k) != said:
                self._said[k], self._seen[k] = said, self._heard
