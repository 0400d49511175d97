"""Heartbeats: every process tells the others each second that it runs, and how far it is."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pullback.distributed.proxy import Proxy, ProxyRelay
from pullback.engines.xla.process_cluster import ClusterThread, ProcessCluster
from pullback.engines.xla.program_log import LoggedFailure, LogSummary, ProgramLog
from pullback.engines.xla.sharded import ShardedDeviceGroup
from pullback.errors import EngineError, OutOfMemory, ProcessMismatch, PullbackError, WorkerLost
from pullback.graph.source_lines import user_line

ALIVE, ENDED, LEFT, FAILED = "alive", "ended", "left", "failed"
_DIRECTORY = "pullback/heartbeat/"
INTERVAL = 1.0  # seconds
_POLL = 0.01
_EMPTY_LOG = ProgramLog().summary()
_NO_FAILURE = LoggedFailure(0, 0, "", False)
_SAME_ORDER = "Every process must run the same programs in the same order."
_RESTART = (
    "Programs that also run there will never end. Save what this process has, and restart all\n"
    "processes from the last state that was saved."
)


class HeartbeatGroup(NamedTuple):
    """All processes, with the attributes of a group of devices."""

    processes: range
    name: str = "all"


Group = ShardedDeviceGroup | HeartbeatGroup


class Heartbeat:
    """What is known about the processes of a cluster.

    A process is lost when it has given no sign of life for `patience` seconds, when it has said
    that it failed, or when the connection between it and process 0 breaks: all messages pass
    through that, and process 0 tells the others.
    """

    def __init__(
        self, cluster: ProcessCluster, via: Proxy | ProxyRelay | None, names: list[str]
    ) -> None:
        self._cluster, self.names = cluster, names
        self._proxy = via if isinstance(via, Proxy) else None
        self._relay = via if isinstance(via, ProxyRelay) else None
        self._cut: set[int] = set()  # processes whose connection to this one, process 0, broke
        self._wake = self._relay.changed if self._relay else threading.Event()
        self._state, self._count = ALIVE, 0
        self.waits: dict[str, Any] | None = None  # the tag at which this process waits for others
        self.turns: dict[str, int] = {}  # how many times it has reached each tag
        self._blamed: int | None = None
        self._why = ""
        self._said: dict[int, dict[str, Any]] = {}
        self._noticed: dict[tuple, float] = {}  # when a failure was first heard of
        self._checked = self._heard = time.monotonic()
        self._seen = dict.fromkeys(range(cluster.count), self._heard)
        self._stopped = threading.Event()
        self.everyone = HeartbeatGroup(range(cluster.count))
        self.interval = self._pause = INTERVAL
        self._raised = False  # whether this process has raised an error about the others
        self.over = False  # whether this process has left the others
        self._send()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="pullback-heartbeat")
        self._thread.start()
        self._saying = ClusterThread()  # Python starts no threads while it ends

    def say(self, state: str | None = None, lost: int | None = None, why: str = "") -> None:
        """Tell the others at once how this process is; if it failed, because of which, and why."""
        if state is not None:
            self._state, self._blamed, self._why = state, lost, why
        answer, end = self._saying.submit(self._send), time.monotonic() + 2.0
        while not answer and time.monotonic() < end:
            time.sleep(_POLL)

    def states(self) -> dict[int, str]:
        """Return what each process said last about itself."""
        return {k: said["state"] for k, said in self._said.items()}

    def poll_faster(self) -> None:
        """Send and receive more often, during shutdown."""
        self._pause = self.interval / 20
        self._wake.set()

    def stop(self, lost: int | None = None) -> None:
        """Send no more. A thread that returns from XLA while Python ends would abort the process.

        One that waits for the coordinator, when that is `lost` or gone, does not return.
        """
        self._stopped.set()
        self._wake.set()
        end = time.monotonic() + self._cluster.patience
        calling = self._saying, self._cluster.exchanging
        while self._thread.is_alive() or any(thread.busy for thread in calling):
            if time.monotonic() > end:
                return
            if lost == 0 or (self._proxy is not None and self._proxy.broken.is_set()):
                end = min(end, time.monotonic() + 0.3)
            time.sleep(_POLL)

    def check(self, group: Group) -> None:
        """Raise if a process of a group is lost, or will never start what this one waits for."""
        self._raise(self.trouble(group.processes) or self._missed(group) or self._broken(group))

    def admit(self, group: ShardedDeviceGroup, program: int, values: int) -> None:
        """Return when a program may be started on a group; it then counts as begun.

        If the last one failed here, it must have failed on all of its processes; and one that
        failed elsewhere fails here, too.
        """
        self.require_all(f"a program on {group.name}")
        log = self._cluster.log(group)
        while True:
            self.check(group)
            failures = dict(self._failures(group))
            k = next((k for k, f in failures.items() if f.number == log.count + 1), None)
            last = (log.failure or _NO_FAILURE).number
            others = [k for k in group.processes if k != self._cluster.process]
            if k is not None or all(last <= failures.get(k, _NO_FAILURE).number for k in others):
                break
            time.sleep(_POLL)
        log.begin(program, values)
        if k is not None:
            log.fail(failures[k])
            self._raise(self._could_not_run(failures[k], group))

    def require_all(self, what: str) -> None:
        """Raise if this process has left the others, which it needs for something."""
        if self.over:
            raise EngineError(f"{what} needs all processes, and pb.distributed.shutdown was called")

    def _raise(self, error: PullbackError | None) -> None:
        if error is not None:
            self._raised = True
            self._cluster.abandon()
            raise error.at(None, user_line())

    def trouble(self, processes: Iterable[int]) -> WorkerLost | None:
        """Return an error if one of some processes is lost; the coordinator always counts."""
        now = time.monotonic()
        if (
            now - self._checked > 2 * self.interval
        ):  # this process slept, and may have missed messages
            self._seen[0] = max(self._seen[0], now - self._cluster.patience / 2)
        self._checked = now
        for k in dict.fromkeys((0, *processes)):
            why = self._lost(k, now) if k != self._cluster.process else ""
            if why:
                k, why = self._origin(k, why)
                return WorkerLost(f"process {k}{self.names[k]} {why}", process=k, hint=_RESTART)
        return None

    def _lost(self, k: int, now: float) -> str:
        said = self._said.get(k, {})
        if said.get("state") in (FAILED, LEFT):
            return f"ended with an error{said['why']}" if said["state"] == FAILED else ""
        if k == 0 and self._proxy is not None and self._proxy.broken.is_set():
            return "was lost: the connection to it broke"
        if k in (self._cut or self._said.get(0, {}).get("cut", ())):
            return "was lost: its connection to process 0 broke"
        # While process 0 is silent, nothing is heard of the others.
        silence = (now if k == 0 else self._heard) - self._seen[k]
        late = silence > self._cluster.patience
        return f"was lost: it gave no sign of life for {silence:.0f} s" if late else ""

    def _origin(self, k: int, why: str) -> tuple[int, str]:
        """A process that left because another was lost names that one."""
        first = self._said.get(k, {}).get("lost")
        if first in (None, k, self._cluster.process):
            return k, why
        return first, self._lost(first, time.monotonic()) or f"was lost, as process {k} found"

    def _log(self, k: int, group: Group) -> LogSummary:
        """Return what a process said about its programs on a group."""
        sent = self._said.get(k, {}).get("logs", {}).get(group.name)
        if sent is None:
            return _EMPTY_LOG
        started, programs, values, failure = sent
        return LogSummary(started, programs, values, LoggedFailure(*failure) if failure else None)

    def _missed(self, group: Group) -> PullbackError | None:
        """Return an error if a process of a group runs other programs than this one."""
        mine, me = self._cluster.log(group), self._cluster.process
        if error := self._different(group):
            return error
        for k in group.processes:
            said, theirs, name = self._said.get(k, {}), self._log(k, group), self.names[k]
            if theirs.started >= mine.count:
                continue
            if self._in_vain(k):
                tag = said["waits"]["tag"]
                there = f"where process {me} started another program on {group.name}"
                return _heartbeat_mismatch(f"process {k}{name} waits for all at {tag}, {there}")
            if said.get("state") in (ENDED, LEFT):
                return ProcessMismatch(
                    f"process {k}{name} has ended, and started {theirs.started} programs on "
                    f"{group.name}, where process {me} started {mine.count}",
                    hint=f"{_SAME_ORDER}\nCompute what one needs on all, and use it on one.",
                )
        return None

    def _different(self, group: Group) -> ProcessMismatch | None:
        """Return an error if a process ran other programs than this one, or on other values."""
        mine, me = self._cluster.log(group), self._cluster.process
        for k in group.processes:
            theirs = self._log(k, group)
            if what := mine.difference(theirs):
                return ProcessMismatch(
                    f"process {k}{self.names[k]} {what} than process {me}, among its first "
                    f"{theirs.started} on {group.name}",
                    hint=f"{_SAME_ORDER} Numbers and whole\ntensors must have the same values on "
                    "all. What was computed there since they differ is wrong.",
                )
        return None

    def last_difference(self) -> ProcessMismatch | None:
        """Return an error if other processes, which have ended, computed something else.

        Not if this process has raised one before.
        """
        groups = [self.everyone._replace(name=name) for name in self._cluster.logs()]
        found = () if self._raised else filter(None, map(self._different, groups))
        return next(iter(found), None)

    def _failures(self, group: Group) -> Iterator[tuple[int, LoggedFailure]]:
        """By process, the last program on a group that another one could not run."""
        for k in group.processes:
            failure = self._log(k, group).failure
            if failure is not None and k != self._cluster.process:
                yield k, failure

    def _broken(self, group: Group) -> PullbackError | None:
        """Return an error if a process never comes out of a program that another could not run."""
        mine = self._cluster.log(group)
        last = mine.failure or _NO_FAILURE
        if last.final:
            return self._could_not_run(last, group)
        for k, failure in self._failures(group):
            if failure.final or last.number < failure.number <= mine.count:
                # What failed there may be about to fail here, too.
                first = self._noticed.setdefault((k, group.name, failure), time.monotonic())
                if failure.final or time.monotonic() - first > 2 * self.interval:
                    mine.fail(failure._replace(final=True))
                    self.say()
                    return self._could_not_run(mine.failure or failure, group)
        return None

    def _could_not_run(self, failure: LoggedFailure, group: Group) -> EngineError:
        k = failure.process
        what = f"process {k}{self.names[k]} could not run a program on {group.name}"
        # After a lack of memory, all can try something smaller.
        if failure.final:
            return EngineError(f"{what}: {failure.cause}", hint=_RESTART)
        return OutOfMemory(f"{what}: {failure.cause}")

    def _in_vain(self, k: int) -> bool:
        """Whether another process waits for this one at a tag that it did not come to."""
        waits = self._said.get(k, {}).get("waits")
        if not waits or self._cluster.process not in waits["processes"]:
            return False
        return self.turns.get(waits["tag"], 0) < waits["turn"]

    def elsewhere(self, processes: list[int]) -> PullbackError | None:
        """Return an error if one of some processes waits for this one at another tag."""
        for k in processes:
            if self._in_vain(k):
                theirs, mine = self._said[k]["waits"]["tag"], self.waits and self.waits["tag"]
                here = f"and process {self._cluster.process} at {mine}"
                return _heartbeat_mismatch(
                    f"process {k}{self.names[k]} waits for all at {theirs}, {here}"
                )
        return None

    def overtaken(self, group: Group, processes: list[int], word: str) -> PullbackError | None:
        """Return an error if one of some processes started another program instead of `word`."""
        started = self._cluster.log(group).count
        for k in processes:
            if self._log(k, group).started > started:
                what = f"started another program instead of {word}"
                return _heartbeat_mismatch(f"process {k}{self.names[k]} {what}")
        return None

    def _beat(self) -> None:
        while not self._stopped.is_set():
            ended = set(self._relay.ended) if self._relay else set()
            self.receive()
            # What a process said before its connection ended has been received by now.
            cut = {k for k in ended if self.states().get(k) not in (LEFT, FAILED)}
            if cut != self._cut:
                self._cut = cut
                self._send()
            self._wake.wait(self._pause)
            self._wake.clear()
            if not self._stopped.is_set():
                self._send()

    def _send(self) -> None:
        self._count += 1
        message = {
            "count": self._count, "state": self._state,
            "logs": self._cluster.logs(), "lost": self._blamed, "waits": self.waits,
            "why": self._why, "cut": sorted(self._cut),
        }  # fmt: skip
        with contextlib.suppress(Exception):
            self._cluster.write(f"{_DIRECTORY}{self._cluster.process}", json.dumps(message))

    def receive(self) -> dict[int, int]:
        """Read the last message of each process; return how many each has sent by now."""
        with contextlib.suppress(Exception):  # the coordinator does not answer: noticed later
            found = self._cluster.read(_DIRECTORY)
            self._heard = time.monotonic()
            for key, text in found.items():
                k, said = int(key.rsplit("/", 1)[1]), json.loads(text)
                if self._said.get(k) != said:
                    self._said[k], self._seen[k] = said, self._heard
        return {k: said["count"] for k, said in self._said.items()}

    def heard_again(self, group: Group, before: dict[int, int]) -> bool:
        """Whether all processes of a group have sent something since then."""
        now = {k: self._said.get(k, {}) for k in group.processes if k != self._cluster.process}
        waits = [k for k, said in now.items() if said.get("count", 0) <= before.get(k, 0)]
        return all(now[k].get("state") == LEFT for k in waits)


def _heartbeat_mismatch(what: str) -> ProcessMismatch:
    return ProcessMismatch(what, hint=_SAME_ORDER)
