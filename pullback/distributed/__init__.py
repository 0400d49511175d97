"""Several processes, on one machine or many, whose devices compute together.

Every process runs the same program. Start them with `python -m pullback.distributed --nproc 4
train.py`, or any other launcher, and let each call `initialize` first.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from pullback.errors import (
    ArgumentError,
    EngineError,
    ProcessMismatch,
    PullbackError,
    WorkerLost,
)
from pullback.graph.where import user_line

COORDINATOR, COUNT, INDEX, LAUNCHER = (
    "PULLBACK_COORDINATOR", "PULLBACK_NUM_PROCESSES", "PULLBACK_PROCESS_ID", "PULLBACK_LAUNCHER",
)  # fmt: skip
_PARENT_DEATH_SIGNAL = 1
ALIVE, ENDED, LEFT, FAILED = "alive", "ended", "left", "failed"
_HINT = (
    "Give coordinator_address, num_processes and process_id, or start the script with\n"
    "`python -m pullback.distributed --nproc 4 script.py`."
)


@dataclass(frozen=True)
class Device:
    """A device of some process; `number` is how meshes call it."""

    number: int
    process: int
    kind: str

    def __repr__(self) -> str:
        return f"<{self.kind}:{self.number} of process {self.process}>"


class _Joined(NamedTuple):
    """What this process needs to be one of several."""

    cluster: Any
    pulse: Any
    service: Any


_joined: _Joined | None = None
_agreed: set[tuple[str, str]] = set()  # groups and programs that all processes started on them


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    timeout: float = 120.0,
) -> None:
    """Join `num_processes` processes, of which this is number `process_id`.

    Process 0 coordinates, at `coordinator_address` (`host:port`). What is not given is read from
    the environment, where `python -m pullback.distributed` writes it. To be called before anything
    is computed. A process that gives no sign of life for `PULLBACK_PATIENCE` seconds (8) is
    lost: the others get `WorkerLost`.
    """
    global _joined
    address, count, index = _arguments(coordinator_address, num_processes, process_id)
    if _joined is not None:
        raise _wrong("was called before", "Call it once, at the beginning.")
    if count == 1:
        return
    from pullback.engines.registry import engine, is_created

    if is_created("xla"):
        raise _wrong("must be called before anything is computed", "Call it first of all.")
    _end_with_launcher()
    _joined = _join(address, count, index, timeout)
    atexit.register(shutdown)
    # the processes tell each other their devices: all must be here for that
    _joined.cluster.attempt(lambda: engine("xla"), _joined.pulse.everyone)


def launch(script: str, *args: Any, nproc: int = 2, devices: int | None = None) -> int:
    """Run a script as several processes of this machine; the exit status.

    It is what `python -m pullback.distributed --nproc N [--devices K] script.py ...` does.
    """
    from pullback.distributed.launcher import run

    for name, value in (("nproc", nproc), ("devices", 1 if devices is None else devices)):
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(f"launch: {name} must be a positive integer, got {value!r}")
    return run([str(script), *map(str, args)], nproc, devices)


def _end_with_launcher() -> None:
    """If the launcher is killed, nobody else ends its processes. (Only Linux can promise that.)"""
    if LAUNCHER in os.environ:
        import ctypes
        import signal

        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _arguments(address: Any, count: Any, index: Any) -> tuple[str, int, int]:
    given = []
    for value, name in ((address, COORDINATOR), (count, COUNT), (index, INDEX)):
        value = os.environ.get(name) if value is None else value
        if value is None:
            raise _wrong(f"{name} is not set and its argument not given", _HINT)
        given.append(str(value))
    address, count, index = given
    if not (count.isdecimal() and index.isdecimal() and 0 <= int(index) < int(count)):
        raise _wrong(f"process_id must be in 0 .. num_processes - 1, got {index} of {count}", _HINT)
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise _wrong(f"coordinator_address must be host:port, got {address!r}", _HINT)
    return address, int(count), int(index)


def _join(address: str, count: int, index: int, timeout: float) -> _Joined:
    from pullback.distributed.heartbeat import Pulse
    from pullback.distributed.proxy import Relay
    from pullback.distributed.rendezvous import Meeting, join
    from pullback.engines.xla import cluster as clusters

    host, _, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    patience = float(os.environ.get("PULLBACK_PATIENCE") or 8)
    here = host if host == "127.0.0.1" else None
    service = relay = None
    if index == 0:
        meeting = Meeting(host, int(port), count, timeout)
        names = meeting.names()
        # without a password: on one machine, nobody else may reach it
        service = clusters.Service(f"{here or '[::]'}:{port}", count)
        meeting.dismiss(names)
        near = f"127.0.0.1:{port}"
    else:
        names = join(host, int(port), count, index, timeout)
        relay = Relay((host, int(port)))
        near = relay.address
    cluster = clusters.Cluster(near, index, count, patience, here)
    try:
        cluster.connect(timeout)
    except EngineError as error:
        if service is not None:
            service.abandon()
        raise error.at("initialize", user_line()) from None
    pulse = cluster.pulse = Pulse(cluster, relay, names)
    clusters.current = cluster
    return _Joined(cluster, pulse, service)


def shutdown() -> None:
    """Leave when all processes do. It is called at the end of a script that does not call it.

    A script that ends with an error does not wait for the others: they get `WorkerLost`.
    """
    if _joined is None or _joined.pulse.over:
        return
    cluster, pulse, service = _joined
    pulse.over = True
    atexit.unregister(shutdown)
    failed = sys.exc_info()[1] or getattr(sys, "last_value", None)
    lost = _others_end(cluster, pulse) if failed is None else _to_blame(failed, cluster)
    if lost is None:
        cluster.leave()
        pulse.stop()
        if service is not None:
            service.stop()
        return
    pulse.say(FAILED, lost, _in_a_line(failed))
    if lost != cluster.process:
        with contextlib.suppress(KeyError, OSError):
            os.write(int(os.environ[LAUNCHER]), f"{lost}\n".encode())
    cluster.abandon()
    if service is not None:
        service.abandon()
        time.sleep(2.0)  # the others hear of it through this process
    pulse.stop(lost)


def _to_blame(failed: BaseException, cluster: Any) -> int:
    """The process that an error is to be told of."""
    return failed.process if isinstance(failed, WorkerLost) else cluster.process


def _in_a_line(failed: BaseException | None) -> str:
    """What went wrong, in few words to add to a sentence."""
    if failed is None:
        return ""
    said = failed.message if isinstance(failed, PullbackError) else str(failed)
    text = said.strip().partition("\n")[0]
    return f": {type(failed).__name__}{': ' if text else ''}{text[:300]}"


def _others_end(cluster: Any, pulse: Any) -> int | None:
    """Wait until all processes are at their end; or the number of one that will never be.

    The first leaves last, for the others leave through it.
    """
    others = [k for k in range(cluster.count) if k != cluster.process]
    pulse.hurry()
    for state in (ENDED, LEFT):
        if pulse.trouble(others) is None:
            pulse.say(state)
        while not all(pulse.states().get(k) in (state, LEFT) for k in others):
            if (error := pulse.trouble(others)) is not None:
                return error.process
            if state == LEFT and cluster.process != 0:
                return None
            time.sleep(0.02)
    time.sleep(0.2)
    return None


def process_index() -> int:
    """The number of this process; 0 where there is one.

    >>> import pullback as pb
    >>> pb.distributed.process_index(), pb.distributed.process_count()
    (0, 1)
    """
    return 0 if _joined is None else _joined.cluster.process


def process_count() -> int:
    """How many processes there are."""
    return 1 if _joined is None else _joined.cluster.count


def devices() -> list[Device]:
    """The devices of all processes, in the order in which meshes take them.

    >>> import pullback as pb
    >>> len(pb.distributed.devices()) >= len(pb.distributed.local_devices()) > 0
    True
    """
    from pullback.engines.registry import engine

    client = engine("xla").client
    found = enumerate(client.devices)
    return [Device(i, d.process_index, client.platform) for i, d in found]


def local_devices() -> list[Device]:
    """The devices of this process."""
    return [d for d in devices() if d.process == process_index()]


def barrier(name: str = "barrier", timeout: float = 600.0) -> None:
    """Return when all processes have come here; the same call must be reached by all."""
    agree(name, "", timeout)


def agree(tag: str, fingerprint: str, timeout: float = 600.0) -> None:
    """Return when all processes have come to `tag` with the same fingerprint.

    Else `ProcessMismatch` says which process has what, or does not come. A tag may be used again.
    """
    from pullback.distributed.synchronize import compare

    compare(tag, dict(enumerate(exchange(tag, fingerprint, timeout))))


def agree_on_program(fingerprint: str, described: str, group: Any) -> None:
    """Return when all processes are about to start the same program, for the first time.

    One that was agreed on before, and then dropped from the cache, may still be there elsewhere.
    """
    if _joined is not None and (group.name, fingerprint) not in _agreed:
        from pullback.distributed.synchronize import same_program

        same_program(_joined.cluster, _joined.pulse, f"{described}, {fingerprint}", group)
        _agreed.add((group.name, fingerprint))


def exchange(tag: str, word: str, timeout: float = 600.0) -> list[str]:
    """What each process says under a tag, in their order."""
    if _joined is None:
        return [word]
    from pullback.distributed.synchronize import gather

    return list(gather(_joined.cluster, _joined.pulse, tag, word, timeout).values())


def _wrong(what: str, hint: str) -> ArgumentError:
    return ArgumentError(f"initialize: {what}", hint=hint)


__all__ = [
    "Device", "ProcessMismatch", "WorkerLost", "agree", "barrier", "devices", "exchange",
    "initialize", "launch", "local_devices", "process_count", "process_index", "shutdown",
]  # fmt: skip
