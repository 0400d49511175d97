"""How processes find each other: all introduce themselves to process 0 and wait for its reply.

XLA's own connect ends the process if two have the same index, and waits forever without a message
if they disagree about their number, or if another program listens at the port.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections.abc import Iterator
from typing import Any

from pullback.engines.processes import show
from pullback.engines.xla import bindings
from pullback.errors import EngineError
from pullback.version import __version__

# Processes with different settings would run different programs, or get different bits.
_SETTINGS = ("PULLBACK_EAGER", "PULLBACK_ENGINE", "PULLBACK_PLATFORM", "PULLBACK_THREADS")
_LONGEST = 65536  # bytes of a message
_POLL = 0.05


def introduction(count: int, index: int) -> dict[str, Any]:
    """Return what a process says about itself."""
    settings = {name: os.environ.get(name) or "nothing" for name in _SETTINGS}
    return {
        "index": index, "name": f" (pid {os.getpid()} on {socket.gethostname()})",
        "same": {"num_processes": count, "pullback": __version__,
                 "jaxlib": bindings.version.__version__} | settings,
    }  # fmt: skip


class Rendezvous:
    """Process 0 waits for the others at an address, and lets all go on."""

    def __init__(self, host: str, port: int, count: int, timeout: float) -> None:
        self._mine, self._timeout = introduction(count, 0), timeout
        self._missing = set(range(1, count))
        self._present: dict[socket.socket, dict] = {}
        self._received: dict[socket.socket, bytes] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = _listen(host, port)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def names(self) -> list[str]:
        """Wait for all processes; return how errors name each of them."""
        end = time.monotonic() + self._timeout
        try:
            while self._missing:
                if time.monotonic() > end:
                    what = f"{show(self._missing)} did not come within {self._timeout:g} s"
                    hint = "Every process must call it, with the same coordinator_address."
                    raise _error(what, hint)
                for key, _ in self._selector.select(_POLL):
                    self._receive(key.fileobj)
        except EngineError as error:
            self._reply({"error": error.message, "hint": error.hint})
            raise
        finally:
            self._listener.close()
        names = {0: self._mine["name"], **{s["index"]: s["name"] for s in self._present.values()}}
        return [names[k] for k in sorted(names)]

    def dismiss(self, names: list[str]) -> None:
        """Let the others go on."""
        self._reply({"names": names})

    def _receive(self, source: Any) -> None:
        if source is self._listener:
            connection, _ = self._listener.accept()
            self._selector.register(connection, selectors.EVENT_READ)
            self._received[connection] = b""
            return
        data = b""
        with contextlib.suppress(OSError):
            data = source.recv(_LONGEST)
        self._received[source] += data
        if not data or len(self._received[source]) > _LONGEST:
            self._forget(source)
        elif self._received[source].endswith(b"\n") and source not in self._present:
            self._admit(source, self._received[source])

    def _forget(self, source: socket.socket) -> None:
        """Forget a process that has left again, or a stranger."""
        self._selector.unregister(source)
        source.close()
        del self._received[source]
        said = self._present.pop(source, None)
        if said is not None:
            self._missing.add(said["index"])

    def _admit(self, source: socket.socket, line: bytes) -> None:
        try:
            said = json.loads(line)
            k, theirs = said["index"], said["same"]
        except (ValueError, TypeError, KeyError):
            self._forget(source)
            return
        self._present[source] = said
        mine = self._mine["same"]
        for what in mine:
            if mine[what] != theirs.get(what):
                raise _error(
                    f"{what} must be the same for all processes, got {mine[what]} on process 0"
                    f"{self._mine['name']} and {theirs.get(what)} on process {k}{said['name']}"
                )
        if k not in self._missing:
            others = [self._mine, *[s for s in self._present.values() if s is not said]]
            first = next(s["name"] for s in others if s["index"] == k)
            raise _error(f"two processes have process_id {k},{first} and{said['name']}")
        self._missing.remove(k)

    def _reply(self, answer: dict) -> None:
        for connection in list(self._received):
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(answer).encode() + b"\n")
            connection.close()
        self._selector.close()


def join(host: str, port: int, count: int, index: int, timeout: float) -> list[str]:
    """Introduce this process to process 0; return how errors name each, when all have come."""
    end = time.monotonic() + timeout
    mine = json.dumps(introduction(count, index)).encode() + b"\n"
    for answer in _answers(host, port, mine, end):
        if isinstance(answer, str):
            last = answer
            time.sleep(_POLL)
        elif "error" in answer:
            raise _error(answer["error"], answer["hint"])
        else:
            return answer["names"]
    hint = "It is process 0: has it started, with the same coordinator_address?"
    raise _error(f"no coordinator at {host}:{port} within {timeout:g} s ({last})", hint)


def _answers(host: str, port: int, mine: bytes, end: float) -> Iterator[dict | str]:
    """Ask process 0 repeatedly until `end`; yield its answer, or why there is none."""
    while True:
        left = max(0.1, end - time.monotonic())
        try:
            with socket.create_connection((host, port), timeout=min(5.0, left)) as connection:
                connection.settimeout(left + 5)  # by then process 0 has given up
                connection.sendall(mine)
                with connection.makefile("rb") as answers:
                    yield json.loads(answers.readline(_LONGEST) or b"{}") or "it left again"
        except ValueError:
            yield "another program listens there"
        except OSError as error:
            yield str(error)
        if time.monotonic() > end:
            return


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the coordinator's address."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        hint = "Choose another port; and only one process may have process_id 0."
        raise _error(f"another program listens at {host}:{port}", hint)
    # The launcher may hold the port for us, and XLA's service will listen there next.
    options: dict[str, Any] = {"reuse_port": hasattr(socket, "SO_REUSEPORT")}
    try:
        if host == "127.0.0.1":
            return socket.create_server((host, port), **options)
        if socket.has_dualstack_ipv6():
            options |= {"family": socket.AF_INET6, "dualstack_ipv6": True}
        return socket.create_server(("", port), **options)
    except OSError as error:
        raise _error(f"cannot listen at port {port} ({error})", "Choose another port.") from None


def _error(what: str, hint: str | None = None) -> EngineError:
    return EngineError(what, op="initialize", hint=hint)
