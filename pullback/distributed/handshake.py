"""How two processes prove to each other that they know the secret of their job.

The one that is called sends a random nonce. The caller replies with its own nonce, its purpose and
a keyed hash (HMAC-SHA256) of all three, and gets a keyed hash back. The secret itself is never
sent, and no reply is valid for a second connection.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import time

from pullback.distributed.environment import SECRET
from pullback.errors import ArgumentError

MEET, WORK = b"meet", b"work"  # what a caller wants: to be introduced, or to reach XLA's service
PATIENCE = 10.0  # seconds for a handshake, or for a message
_PROTOCOL = b"pullback meet 1\n"  # the first bytes that are sent: it names the version
_NONCE, _HASH, _PURPOSE = 32, 32, 4
_REFUSED = bytes(_HASH)
_SHORTEST = 16


class Refused(Exception):
    """The other side of a connection did not prove that it belongs to the job."""


class WrongSecret(Refused):
    """Process 0 says that this process has another secret."""


def new_handshake_secret() -> str:
    """Return a secret for one job."""
    return secrets.token_hex(32)


def handshake_secret() -> bytes:
    """Return the secret of the job, from the environment."""
    given = os.environ.get(SECRET, "")
    if len(given) < _SHORTEST:
        what = f"must have at least {_SHORTEST} characters" if given else "is not set"
        raise ArgumentError(
            f"initialize: {SECRET} {what}",
            hint="With it processes prove that they belong together: set it to the same random "
            "text for all,\nsuch as the output of `openssl rand -hex 32`. "
            "`python -m pullback.distributed` does so itself.",
        )
    return given.encode("utf-8", "surrogateescape")


def handshake_challenge(connection: socket.socket, secret: bytes) -> bytes:
    """Let a caller in: return its purpose, or raise `Refused`."""
    mine, end = secrets.token_bytes(_NONCE), time.monotonic() + PATIENCE
    connection.settimeout(PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(_PROTOCOL + mine)
    said = handshake_receive(connection, _PURPOSE + _NONCE + _HASH, end)
    purpose, theirs = said[:_PURPOSE], said[_PURPOSE:-_HASH]
    if not hmac.compare_digest(
        said[-_HASH:], _handshake_proof(secret, b"caller", purpose, mine, theirs)
    ):
        connection.sendall(_REFUSED)
        raise Refused("it does not know the secret of this job")
    connection.sendall(_handshake_proof(secret, b"called", purpose, mine, theirs))
    return purpose


def handshake_respond(
    connection: socket.socket, secret: bytes, purpose: bytes, timeout: float = PATIENCE
) -> None:
    """Call process 0: return when both sides have proved that they know the secret."""
    mine, end = secrets.token_bytes(_NONCE), time.monotonic() + timeout
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    said = handshake_receive(connection, len(_PROTOCOL) + _NONCE, end)
    theirs = said[len(_PROTOCOL) :]
    if not said.startswith(_PROTOCOL):
        raise Refused("another program listens there, or another version of pullback")
    connection.sendall(purpose + mine + _handshake_proof(secret, b"caller", purpose, theirs, mine))
    answer = handshake_receive(connection, _HASH, end)
    if answer == _REFUSED:
        raise WrongSecret
    if not hmac.compare_digest(answer, _handshake_proof(secret, b"called", purpose, theirs, mine)):
        raise Refused("what listens there does not know the secret of this job")


def handshake_receive(connection: socket.socket, size: int, end: float) -> bytes:
    """Return exactly `size` bytes, which must come before `end`."""
    said = b""
    while len(said) < size:
        left = end - time.monotonic()
        if left <= 0:
            raise Refused("it did not say enough in time")
        connection.settimeout(left)
        try:
            more = connection.recv(size - len(said))
        except TimeoutError:
            continue
        if not more:
            raise Refused("it left again")
        said += more
    return said


def _handshake_proof(
    secret: bytes, role: bytes, purpose: bytes, called: bytes, caller: bytes
) -> bytes:
    """Return the keyed hash that one side sends, which the other side's cannot be mistaken for."""
    return hmac.digest(secret, _PROTOCOL + role + purpose + called + caller, hashlib.sha256)
