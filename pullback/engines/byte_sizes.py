"""Sizes in bytes, written as 4096, "500M" or "2 GiB"."""

from __future__ import annotations

import os

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def bytes_of(size: int | str) -> int:
    """Return the number of bytes; units are powers of 1024.

    >>> bytes_of("500M"), bytes_of("1.5 GiB"), bytes_of(4096)
    (524288000, 1610612736, 4096)
    """
    if isinstance(size, str):
        digits = size.strip().lower().removesuffix("b").removesuffix("i").rstrip()
        unit = digits[-1:] if digits[-1:] in _UNITS else ""
        count = float(digits.removesuffix(unit)) * _UNITS[unit]
    else:
        count = size
    if isinstance(size, bool) or count != count or not 0 <= count < 2**63:
        raise ValueError(f"a size in bytes must be a number, got {size!r}")
    return int(count)


def from_environment(name: str, default: int) -> int:
    """Return the size in an environment variable; log a warning if it cannot be read."""
    text = os.environ.get(name, "")
    if not text.strip():
        return default
    try:
        return bytes_of(text)
    except ValueError:
        import logging  # needed only here, and slow to load

        message = 'pullback: %s must be a size such as 4096 or "500M", got %r: the default is used'
        logging.getLogger("pullback").warning(message, name, text)
        return default
