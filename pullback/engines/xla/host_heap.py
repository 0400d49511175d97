"""The heap of the C library, which holds values on CPUs."""

from __future__ import annotations

import contextlib
import ctypes

from pullback.engines.environment import environment_variable
from pullback.engines.limits import physical_memory

_MOST = 256 << 20
# Parameters of mallopt in the C library of Linux
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def keep_freed_memory() -> None:
    """Keep memory that large values have freed for the next ones, up to `PULLBACK_KEEP_MEMORY`.

    By default, the C library returns memory beyond 32 MiB to the system whenever a value is freed,
    and each page of the next value is then mapped and cleared again, which often takes longer
    than computing it. Call this before XLA starts its threads: those that have arenas of their own
    return memory all the same.
    """
    kept = environment_variable("PULLBACK_KEEP_MEMORY", min(_MOST, physical_memory() // 16))
    if kept:
        kept = min(kept, (1 << 31) - 1)  # a C int
        with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_ARENA_MAX, 1)
            mallopt(_MMAP_THRESHOLD, kept)
            mallopt(_TRIM_THRESHOLD, kept)


def trim_host_heap() -> None:
    """Return freed memory to the system, which the C library of Linux would keep."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
