"""Joining the processes of a job, and leaving them."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

from pullback.distributed.environment import COORDINATOR, COUNT, INDEX, LAUNCHER
from pullback.distributed.process_devices import process_count
from pullback.engines import fork, processes
from pullback.engines.engine_registry import engine_is_created, registered_engine
from pullback.errors import ArgumentError, ProcessMismatch

if TYPE_CHECKING:
    from _typeshed import StrPath

_PARENT_DEATH_SIGNAL = 1
_HINT = (
    "Pass coordinator_address, num_processes and process_id, or start the script with\n"
    "`python -m pullback.distributed --nproc 4 script.py`."
)


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    timeout: float = 120.0,
) -> None:
    """Join `num_processes` processes, as number `process_id`.

    Process 0 coordinates, at `coordinator_address` (`host:port`). Arguments that are not given are
    read from the environment, where `python -m pullback.distributed` writes them. So is the secret
    with which processes prove that they belong together (`PULLBACK_SECRET`). Call this before
    anything is computed. A process that gives no sign of life for `PULLBACK_PATIENCE` seconds (8)
    is lost: the others get `WorkerLost`.
    """
    address, count, index = _membership_of_process(coordinator_address, num_processes, process_id)
    if process_count() > 1:
        raise _membership_error("was called before", "Call it once, at the beginning.")
    if count == 1:
        return
    if engine_is_created("xla"):
        raise _membership_error(
            "must be called before anything is computed", "Call it first of all."
        )
    if LAUNCHER in os.environ:  # let the system end this process with it (on Linux)
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    from pullback.distributed.connection import connect_to_coordinator  # heavy: loads jaxlib

    joined = connect_to_coordinator(address, count, index, timeout)
    processes.install_processes(joined)
    atexit.register(_leave_at_exit)
    # To create their engines, the processes tell each other their devices: all must be there.
    joined.cluster.attempt(lambda: registered_engine("xla"), joined.heartbeat.everyone)


def launch(script: StrPath, *args: object, nproc: int = 2, devices: int | None = None) -> int:
    """Run a script as several processes on this machine and return the exit status.

    This is what `python -m pullback.distributed --nproc N [--devices K] script.py ...` does.
    """
    for name, value in (("nproc", nproc), ("devices", 1 if devices is None else devices)):
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(f"launch: {name} must be a positive integer, got {value!r}")
    from pullback.distributed.launcher import run  # rarely needed: loads subprocess and argparse

    return run([str(script), *map(str, args)], nproc, devices)


def _membership_of_process(
    address: str | None, count: int | None, index: int | None
) -> tuple[str, int, int]:
    given = []
    for value, name in ((address, COORDINATOR), (count, COUNT), (index, INDEX)):
        found = os.environ.get(name) if value is None else value
        if found is None:
            raise _membership_error(f"{name} is not set and its argument not given", _HINT)
        given.append(str(found))
    place, n, k = given
    if not (n.isdecimal() and k.isdecimal() and 0 <= int(k) < int(n)):
        raise _membership_error(
            f"process_id must be in 0 .. num_processes - 1, got {k} of {n}", _HINT
        )
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise _membership_error(f"coordinator_address must be host:port, got {place!r}", _HINT)
    return place, int(n), int(k)


def shutdown() -> None:
    """Leave when all processes do. A script that does not call this leaves at its end.

    A script that ends with an error does not wait for the others: they get `WorkerLost`.
    """
    atexit.unregister(_leave_at_exit)
    _leave_membership()


def _leave_membership() -> None:
    if not fork.lost_xla:  # a forked process is no member
        processes.current_processes().shutdown()


def _leave_at_exit() -> None:
    """Leave; a script whose last values were wrong must not end with status 0."""
    try:
        _leave_membership()
    except ProcessMismatch as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _membership_error(what: str, hint: str) -> ArgumentError:
    return ArgumentError(f"initialize: {what}", hint=hint)
