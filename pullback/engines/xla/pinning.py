"""Pinning the threads of XLA's pool, each to one core that the process may use.

After a pause, Linux often wakes threads that share an operation on the same core, and the operation
takes longer. `PULLBACK_PIN_THREADS=1` lets the pool's threads stay apart.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

_TASKS = "/proc/self/task"
_POOL = "tf_XLAEigen"  # the name of the threads that share the work of an operation
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def threads_to_pin() -> list[int]:
    """Return the threads of XLA's pools in this process, the oldest first; only Linux knows."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(_TASKS):
            with contextlib.suppress(OSError), open(f"{_TASKS}/{task}/comm") as file:
                if file.read().startswith(_POOL):
                    found.append(int(task))
    return sorted(found)


def pin_threads(threads: Iterable[int]) -> None:
    """Pin each thread to a core of the process's affinity mask; several share one if they must."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = cores_to_pin(sorted(os.sched_getaffinity(0)))
    for i, thread in enumerate(threads):
        with contextlib.suppress(OSError):  # it has ended, or a container forbids it
            os.sched_setaffinity(thread, {cores[i % len(cores)]})


def cores_to_pin(cores: list[int]) -> list[int]:
    """Return cores in the order in which to use them: first one of each physical core."""
    seen: dict[str, int] = {}
    ranks = {}
    for core in cores:
        siblings = _pinned_core_siblings(core)
        ranks[core] = seen.get(siblings, 0)
        seen[siblings] = ranks[core] + 1
    return sorted(cores, key=lambda core: (ranks[core], core))


def _pinned_core_siblings(core: int) -> str:
    """Return the logical cores of one physical core, as Linux writes them."""
    try:
        with open(_SIBLINGS.format(core)) as file:
            return file.read().strip()
    except OSError:
        return str(core)
