"""Signatures of saved programs: Ed25519, by the optional package cryptography."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback.errors import ArgumentError, EngineError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    PrivateKey = Ed25519PrivateKey | bytes
    PublicKey = Ed25519PublicKey | bytes

# At the end of a signed file: this mark, the public key, and the signature of all before
_MARK = b"\nsigned\n"
_KEY, _SIGNATURE = 32, 64
_LENGTH = len(_MARK) + _KEY + _SIGNATURE


def signature_of(content: bytes, key: PrivateKey) -> bytes:
    """Return the bytes to append to the content of a file."""
    ed25519 = _signature_module("save")
    if isinstance(key, bytes) and len(key) == _KEY:
        key = ed25519.Ed25519PrivateKey.from_private_bytes(key)
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise _wrong_signature_key("save", "key", "an Ed25519PrivateKey", key)
    return _MARK + key.public_key().public_bytes_raw() + key.sign(content)


def split_off_signature(data: bytes) -> tuple[bytes, bytes]:
    """Return the content of a file, and its signature: empty if it has none."""
    start = len(data) - _LENGTH
    if start < 0 or not data.startswith(_MARK, start):
        return data, b""
    return data[:start], data[start:]


def signature_problem(content: bytes, signature: bytes, trusted: Sequence[PublicKey]) -> str | None:
    """Return why a file is not to be trusted; None if one of the keys has signed it."""
    ed25519 = _signature_module("load_compiled")
    keys = [_public_signature_key(ed25519, key) for key in trusted]
    if not keys:
        raise ArgumentError("load_compiled: trusted must contain at least one public key")
    if not signature:
        return "it is not signed"
    owner = signature[len(_MARK) : len(_MARK) + _KEY]
    known = next((key for key in keys if key.public_bytes_raw() == owner), None)
    if known is None:
        return "it is signed with a key that is not trusted"
    from cryptography.exceptions import InvalidSignature  # optional

    try:
        known.verify(signature[-_SIGNATURE:], content)
    except InvalidSignature:
        return "its signature is wrong: it was changed after it was signed"
    return None


def _public_signature_key(ed25519: Any, key: Any) -> Any:
    if isinstance(key, bytes) and len(key) == _KEY:
        return ed25519.Ed25519PublicKey.from_public_bytes(key)
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise _wrong_signature_key("load_compiled", "trusted", "Ed25519PublicKeys", key)
    return key


def _signature_module(op: str) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # optional
    except ImportError:
        raise EngineError(
            f"{op}: signatures need the package cryptography",
            hint="Install it with `pip install pullback[sign]`.",
        ) from None
    return ed25519


def _wrong_signature_key(op: str, name: str, wanted: str, got: Any) -> ArgumentError:
    kind = f"{len(got)} bytes" if isinstance(got, bytes) else type(got).__name__
    hint = "See cryptography.hazmat.primitives.asymmetric.ed25519."
    return ArgumentError(f"{op}: {name} must be {wanted}, or 32 raw bytes, got {kind}", hint=hint)
