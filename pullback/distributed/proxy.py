"""Connections to XLA's coordination service, which authenticates nobody.

It listens at a Unix socket that only this user can reach. Process 0 forwards to it what comes from
processes that know the secret. In each of the others, XLA's client connects to a `Proxy` in its own
process. This also outlives the coordinator: the client ends its process when the connection to the
service breaks, and its callback for that cannot be used from Python (jaxlib 0.10 to 0.12).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from pullback.distributed.handshake import (
    PATIENCE,
    WORK,
    Refused,
    handshake_receive,
    handshake_respond,
)

_LONGEST_DIRECTORY = 70  # the path of a Unix socket has at most 107 bytes, on some systems 103
_INDEX = 4  # bytes
_POLL = 0.05  # seconds


@contextlib.contextmanager
def proxy_directory() -> Iterator[str]:
    """Make a directory for Unix sockets that only this user can enter, and remove it again."""
    short = len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_DIRECTORY
    path = tempfile.mkdtemp(prefix="pullback-", dir=None if short else "/tmp")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Proxy:
    """Forwards bytes between a Unix socket and process 0; `broken` once that has closed."""

    def __init__(self, target: tuple[str, int], secret: bytes, index: int, path: str) -> None:
        self._target, self._secret, self._index = target, secret, index
        self.broken = threading.Event()
        self._open: list[socket.socket] = []  # never closed: XLA must not notice
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        _start_proxy(self._accept)

    def close(self) -> None:
        """Accept no more connections; those that are open stay."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        server = self._reach()
        if server is None:
            self.broken.set()
            return
        self._open.append(server)
        _start_proxy(self._forward, client, server)
        _start_proxy(self._forward, server, client)

    def _reach(self) -> socket.socket | None:
        """Return a connection to process 0. When many come at once, it may have to be repeated."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(OSError, Refused):
                server = socket.create_connection(self._target, timeout=PATIENCE)
                try:
                    handshake_respond(server, self._secret, WORK)
                    server.sendall(self._index.to_bytes(_INDEX))
                except BaseException:
                    server.close()
                    raise
                server.settimeout(None)
                return server
            time.sleep(_POLL)
        return None

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        _proxy_copy_bytes(source, target)
        if source.family != socket.AF_UNIX:
            self.broken.set()
        else:
            _end_proxy(target)


class ProxyRelay:
    """Process 0 forwards bytes between the other processes and the service at a Unix socket."""

    def __init__(self, path: str, count: int) -> None:
        self._path, self._count = path, count
        self.ended: set[int] = set()  # processes whose connection has ended
        self.changed = threading.Event()

    def serve(self, connection: socket.socket) -> None:
        """Forward until the connection ends."""
        index = int.from_bytes(handshake_receive(connection, _INDEX, time.monotonic() + PATIENCE))
        if not 0 < index < self._count:
            raise Refused(f"there is no process {index}")
        connection.settimeout(None)
        with connection, socket.socket(socket.AF_UNIX) as service:
            service.connect(self._path)
            upwards = _start_proxy(_proxy_forward_and_end, connection, service)
            _proxy_forward_and_end(service, connection)
            upwards.join()
        self.ended.add(index)
        self.changed.set()


def _proxy_copy_bytes(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one of two connections ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)


def _proxy_forward_and_end(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one of two connections ends; then end both."""
    _proxy_copy_bytes(source, target)
    for connection in (source, target):
        _end_proxy(connection)


def _end_proxy(connection: socket.socket) -> None:
    """End a connection; this wakes up the thread that reads from it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _start_proxy(run: Callable, *args: Any) -> threading.Thread:
    thread = threading.Thread(target=run, args=args, daemon=True, name="pullback-proxy")
    thread.start()
    return thread
