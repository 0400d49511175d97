"""The only port of a job: process 0 listens there until all processes have joined."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable

from pullback.distributed.handshake import Refused, handshake_challenge
from pullback.errors import ArgumentError, EngineError

Handler = Callable[[socket.socket], None]

_MOST_STRANGERS = 256  # connections that have not proved anything yet
_MOST_LOGGED = 100
_POLL = 0.2  # seconds
_logger = logging.getLogger("pullback.distributed")


class Gate:
    """Accepts connections at one address from callers that know the secret of the job.

    Each gets a thread, and the handler for its purpose. Whatever else a caller says is refused and
    logged; it never ends the process.
    """

    def __init__(self, host: str, port: int, secret: bytes) -> None:
        self._secret = secret
        self._handlers: dict[bytes, Handler] = {}
        self._strangers: dict[socket.socket, None] = {}  # the oldest first
        self._lock = threading.Lock()
        self._refused = 0
        self._closed = False
        self._listener = _listen_at_gate(host, port)
        self._listener.settimeout(_POLL)
        self.host: str = self._listener.getsockname()[0]
        self.address = f"{self.host}:{port}"

    def open(self, purpose: bytes, handler: Handler) -> None:
        """Let callers with a purpose in: `handler` gets their connections, and closes them."""
        self._handlers[purpose] = handler
        if len(self._handlers) == 1:
            threading.Thread(target=self._accept, daemon=True, name="pullback-gate").start()

    def close(self) -> None:
        """Listen no more; connections that were let in stay."""
        self._closed = True
        _end_gate(self._listener)  # where the thread that accepts does not wake up, it looks soon
        self._listener.close()
        with self._lock:
            for connection in self._strangers:
                _end_gate(connection)

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, address = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # closed; or the caller has left, or there are too many files
                time.sleep(0.05)
                continue
            with self._lock:
                self._strangers[connection] = None
                if len(self._strangers) > _MOST_STRANGERS:
                    oldest = next(iter(self._strangers))
                    del self._strangers[oldest]
                    _end_gate(oldest)  # its thread then refuses it
            arguments = (connection, str(address[0]))
            threading.Thread(
                target=self._serve, args=arguments, daemon=True, name="pullback-gate"
            ).start()

    def _serve(self, connection: socket.socket, address: str) -> None:
        try:
            try:
                purpose = handshake_challenge(connection, self._secret)
            finally:
                with self._lock:
                    self._strangers.pop(connection, None)
            handler = self._handlers.get(purpose)
            if handler is None:
                raise Refused(f"there is nothing for {purpose!r}")
            handler(connection)
        except (Refused, OSError) as error:
            self._log(address, getattr(error, "strerror", None) or str(error))
            connection.close()

    def _log(self, address: str, why: str) -> None:
        with self._lock:
            self._refused += 1
            count = self._refused
        if count <= _MOST_LOGGED and not self._closed:
            _logger.warning("refused a connection from %s: %s", address, why)
        if count == _MOST_LOGGED:
            _logger.warning("further refused connections are not logged")


def _end_gate(connection: socket.socket) -> None:
    """Wake up the thread that waits for a socket."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _listen_at_gate(host: str, port: int) -> socket.socket:
    """Return a socket that listens at one address of this machine, never at all of them."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = _bound_gate(family, address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise _gate_address_taken(host, port) from None
        hint = (
            "Give an address of the machine of process 0. If others reach it under another "
            "address, set\nPULLBACK_LISTEN to its own."
        )
        raise _gate_error(f"cannot listen at {host}:{port} ({error})", hint) from None
    # Another program of this user may share the port.
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        listener.close()
        raise _gate_address_taken(host, port)
    listener.listen(512)
    return listener


def _bound_gate(family: int, address: tuple) -> socket.socket:
    """Return a socket at an address, which the launcher may have reserved for it."""
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _gate_address_taken(host: str, port: int) -> EngineError:
    hint = "Choose another port; and only one process may have process_id 0."
    return _gate_error(f"another program listens at {host}:{port}", hint)


def one_gate_address(host: str) -> str:
    """Return a host, unless it stands for all addresses of a machine."""
    try:
        every = ipaddress.ip_address(host).is_unspecified
    except ValueError:  # a name
        every = False
    if every:
        raise ArgumentError(
            f"initialize: process 0 must listen at one address, got {host}",
            hint="Give the address at which the other processes reach process 0.",
        )
    return host


def _gate_error(what: str, hint: str) -> EngineError:
    return EngineError(what, op="initialize", hint=hint)
