"""The number of devices that the CPU is divided into, for programs on several devices."""

from __future__ import annotations

import os

from pullback.errors import ArgumentError


def cpu_device_count() -> int:
    """Return the number of virtual devices of the CPU."""
    given = os.environ.get("PULLBACK_CPU_DEVICES") or "1"
    if not given.strip().isdecimal() or int(given) < 1:
        raise ArgumentError(f"PULLBACK_CPU_DEVICES must be a positive integer, got {given!r}")
    return int(given)
