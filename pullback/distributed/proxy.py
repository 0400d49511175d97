"""A local proxy of the coordinator that outlives it.

XLA's client ends its process when the connection to the coordination service breaks, and its
callback for that cannot be used from Python (jaxlib 0.10 to 0.12). So the client connects to a
proxy in its own process, which keeps that connection open when the coordinator is gone.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any


class Proxy:
    """Forwards bytes between local connections and an address; `broken` once that has closed."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.broken = threading.Event()
        self._open: list[socket.socket] = []  # never closed: XLA must not notice
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            self._open.append(client)
            try:
                server = socket.create_connection(self._target, timeout=10)
            except OSError:
                self.broken.set()
                continue
            server.settimeout(None)
            self._open.append(server)
            self._start(self._forward, client, server, False)
            self._start(self._forward, server, client, True)

    def _forward(self, source: socket.socket, target: socket.socket, from_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        if from_server:
            self.broken.set()
        else:
            with contextlib.suppress(OSError):
                target.close()

    @staticmethod
    def _start(run: Callable, *args: Any) -> None:
        threading.Thread(target=run, args=args, daemon=True, name="pullback-proxy").start()
