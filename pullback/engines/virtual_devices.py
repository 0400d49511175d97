"""The number of devices that the CPU is divided into, for programs on several devices."""

from __future__ import annotations

from pullback.engines.environment import environment_variable


def cpu_device_count() -> int:
    """Return the number of virtual devices of the CPU."""
    return environment_variable("PULLBACK_CPU_DEVICES", 1)
