"""Sizes in bytes, written as 4096, "500M" or "2 GiB"."""

from __future__ import annotations

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


def show_bytes(size: int) -> str:
    """Format a number of bytes: `1.5 MiB`."""
    for power, name in enumerate(("TiB", "GiB", "MiB", "KiB")):
        unit = 1 << (40 - 10 * power)
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
