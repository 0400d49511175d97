"""How processes find each other: all introduce themselves to process 0 and wait for its reply.

XLA's own connect ends the process if two have the same index, and waits forever without a message
if they disagree about their number, or if another program listens at the port.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from pullback.distributed.environment import SECRET
from pullback.distributed.gate import Gate
from pullback.distributed.handshake import (
    MEET,
    PATIENCE,
    Refused,
    WrongSecret,
    handshake_receive,
    handshake_respond,
)
from pullback.engines.processes import processes_in_words
from pullback.engines.xla import bindings
from pullback.errors import EngineError
from pullback.version import __version__

# Processes with different settings would run different programs, or get different bits.
_SETTINGS = (
    "PULLBACK_CHECK_REPLICAS", "PULLBACK_EAGER", "PULLBACK_ENGINE", "PULLBACK_PLATFORM",
    "PULLBACK_THREADS",
)  # fmt: skip
_LONGEST = 65536  # bytes of a message
_POLL = 0.05


def rendezvous_introduction(count: int, index: int) -> dict[str, Any]:
    """Return what a process says about itself."""
    settings = {name: os.environ.get(name) or "nothing" for name in _SETTINGS}
    return {
        "index": index, "name": f" (pid {os.getpid()} on {socket.gethostname()})",
        "same": {"num_processes": count, "pullback": __version__,
                 "jaxlib": bindings.version.__version__} | settings,
    }  # fmt: skip


class Rendezvous:
    """Process 0 waits for the others at its gate, and lets all go on."""

    def __init__(self, gate: Gate, count: int, timeout: float) -> None:
        self._gate, self._mine, self._timeout = gate, rendezvous_introduction(count, 0), timeout
        self._missing = set(range(1, count))
        self._present: dict[socket.socket, dict] = {}
        self._changed = threading.Condition()
        self._error: EngineError | None = None
        self._over = False
        gate.open(MEET, self._meet)

    def names(self) -> list[str]:
        """Wait for all processes; return how errors name each of them."""
        with self._changed:
            self._changed.wait_for(lambda: not self._missing or self._error, self._timeout)
            if self._missing and self._error is None:
                what = (
                    f"{processes_in_words(self._missing)} did not come within {self._timeout:g} s"
                )
                hint = "Every process must call it, with the same coordinator_address."
                hint += f"\nProcess 0 waited at {self._gate.address}."
                self._error = _rendezvous_error(what, hint)
            said = list(self._present.values())
        if self._error is not None:
            self._reply({"error": self._error.message, "hint": self._error.hint})
            raise self._error
        names = {0: self._mine["name"], **{s["index"]: s["name"] for s in said}}
        return [names[k] for k in sorted(names)]

    def dismiss(self, names: list[str]) -> None:
        """Let the others go on."""
        self._reply({"names": names})

    def _meet(self, connection: socket.socket) -> None:
        """Admit a process, and forget it if it leaves again before the reply."""
        said = _read_rendezvous_introduction(connection)
        with self._changed:
            if self._over:
                raise Refused("all processes have come")
            try:
                self._admit(connection, said)
            except EngineError as error:
                self._error = self._error or error
            self._changed.notify_all()
        connection.settimeout(None)
        with contextlib.suppress(OSError):
            while connection.recv(_LONGEST):
                pass
        with self._changed:
            gone = self._present.pop(connection, None)
            if gone is not None and not self._over and self._error is None:
                self._missing.add(gone["index"])
        connection.close()

    def _admit(self, connection: socket.socket, said: dict[str, Any]) -> None:
        k, mine, theirs = said["index"], self._mine["same"], said["same"]
        self._present[connection] = said
        for what in mine:
            if mine[what] != theirs.get(what):
                raise _rendezvous_error(
                    f"{what} must be the same for all processes, got {mine[what]} on process 0"
                    f"{self._mine['name']} and {theirs.get(what)} on process {k}{said['name']}"
                )
        if k not in self._missing:
            others = [self._mine, *[s for s in self._present.values() if s is not said]]
            first = next((s["name"] for s in others if s["index"] == k), "")
            raise _rendezvous_error(f"two processes have process_id {k},{first} and{said['name']}")
        self._missing.remove(k)

    def _reply(self, answer: dict) -> None:
        with self._changed:
            self._over = True
            waiting = list(self._present)
        for connection in waiting:
            with contextlib.suppress(OSError):
                connection.settimeout(PATIENCE)
                connection.sendall(_rendezvous_message(answer))
                connection.shutdown(socket.SHUT_RDWR)  # its thread closes it


class RendezvousResult(NamedTuple):
    """What a process knows when all have come."""

    names: list[str]  # how errors name each process
    host: str  # the address of this machine on the way to process 0


def join_rendezvous(
    host: str, port: int, count: int, index: int, timeout: float, secret: bytes
) -> RendezvousResult:
    """Introduce this process to process 0; return when all have come."""
    end = time.monotonic() + timeout
    mine = _rendezvous_message(rendezvous_introduction(count, index))
    for answer in _rendezvous_answers(host, port, mine, secret, end):
        if isinstance(answer, str):
            last = answer
            time.sleep(_POLL)
        else:
            return answer
    hint = "It is process 0: has it started, with the same coordinator_address?"
    raise _rendezvous_error(f"no coordinator at {host}:{port} within {timeout:g} s ({last})", hint)


def _rendezvous_answers(
    host: str, port: int, mine: bytes, secret: bytes, end: float
) -> Iterator[RendezvousResult | str]:
    """Ask process 0 repeatedly until `end`; yield its answer, or why there is none."""
    while True:
        left = max(0.1, end - time.monotonic())
        try:
            with socket.create_connection((host, port), timeout=min(5.0, left)) as connection:
                handshake_respond(connection, secret, MEET, min(PATIENCE, left))
                connection.sendall(mine)
                # by then process 0 has given up
                yield _joined_rendezvous(
                    _read_rendezvous(connection, left + 5), connection.getsockname()[0]
                )
        except WrongSecret:
            what = f"process 0 at {host}:{port} has another secret than this process"
            raise _rendezvous_error(what, f"{SECRET} must be the same for all processes.") from None
        except (Refused, OSError) as error:
            yield str(error)
        if time.monotonic() > end:
            return


def _joined_rendezvous(answer: Any, host: str) -> RendezvousResult:
    match answer:
        case {"error": str(what), "hint": str() | None as hint}:
            raise _rendezvous_error(what, hint)
        case {"names": [*names]} if all(isinstance(name, str) for name in names):
            return RendezvousResult(names, host)
    raise Refused("its answer cannot be understood")


def _read_rendezvous_introduction(connection: socket.socket) -> dict[str, Any]:
    """Return what a process says about itself."""
    match _read_rendezvous(connection, PATIENCE):
        case {"index": int(k), "name": str(), "same": dict()} as said if type(k) is int and k >= 0:
            return said
    raise Refused("its introduction cannot be understood")


def _rendezvous_message(content: dict) -> bytes:
    """Return a message: its length in four bytes, and JSON."""
    text = json.dumps(content).encode()
    return len(text).to_bytes(4) + text


def _read_rendezvous(connection: socket.socket, timeout: float) -> Any:
    """Return the content of the next message."""
    end = time.monotonic() + timeout
    size = int.from_bytes(handshake_receive(connection, 4, end))
    if size > _LONGEST:
        raise Refused(f"a message must have at most {_LONGEST} bytes, got {size}")
    text = handshake_receive(connection, size, end)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("a message cannot be understood") from None


def _rendezvous_error(what: str, hint: str | None = None) -> EngineError:
    return EngineError(what, op="initialize", hint=hint)
