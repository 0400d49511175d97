"""Properties of the machine that compiled code depends on."""

from __future__ import annotations

import os
import platform
import sys

_SAMPLE = 64 * 1024
_CPU_LINES = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags", b"Features", b"CPU ")


def machine_processor() -> bytes:
    """Return the processor's model and instruction sets, on which code and rounding depend."""
    try:
        # The first core is enough: the kernel generates this text for each core that is read.
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first = file.read(8192).split(b"\n\n")[0]
    except OSError:
        first = b""
    lines = [line for line in first.splitlines() if line.startswith(_CPU_LINES)]
    if not lines:  # instruction sets are unknown on other systems: code stays on its machine
        lines = [part.encode() for part in (platform.processor(), platform.node())]
    return b"\n".join([sys.platform.encode(), platform.machine().encode(), *lines])


def machine_driver() -> bytes:
    """Return the version of the NVIDIA driver, if there is one."""
    try:
        with open("/proc/driver/nvidia/version", "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def machine_library(path: str | os.PathLike) -> bytes:
    """Return what identifies a build of a shared library: its size, beginning and end."""
    try:
        with open(path, "rb") as file:
            head = file.read(_SAMPLE)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _SAMPLE))
            return b"%d\n" % size + head + file.read(_SAMPLE)
    except OSError:
        return b"no library"
