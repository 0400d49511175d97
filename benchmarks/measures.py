"""What is measured in a process: seconds of a call, of the first call, of imports; peak memory."""

from __future__ import annotations

import ctypes
import gc
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Clock = Callable[[], float]
# Takes a function that makes a case, the library's name, the seconds to spend and a clock; returns
# samples.
Measure = Callable[[Callable[[], Any], str, float, Clock], list[float]]

SHORTEST_SAMPLE = 1e-3  # quicker calls are repeated within a sample
WARM_UP_CALLS = 3


def seconds_per_call(
    make: Callable[[], Any], library: str, seconds: float, clock: Clock
) -> list[float]:
    """Time calls in a steady state, for as long as asked and at least five times."""
    step = make().step
    count, start = 0, time.perf_counter()
    while count < WARM_UP_CALLS or time.perf_counter() - start < 0.3 * seconds:
        step()
        count += 1
    repeats = max(1, round(SHORTEST_SAMPLE / max(_time(step, 3, time.perf_counter), 1e-9)))
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < 5 or time.perf_counter() < end:
        samples.append(_time(step, repeats, clock))
    return samples


def _time(step: Callable[[], Any], repeats: int, clock: Clock) -> float:
    start = clock()
    for _ in range(repeats):
        step()
    return (clock() - start) / repeats


def seconds_to_make(
    make: Callable[[], Any], library: str, seconds: float, clock: Clock
) -> list[float]:
    """Time the making of a case, for cases that import a library."""
    return [_time(make, 1, clock)]


def seconds_of_first_call(
    make: Callable[[], Any], library: str, seconds: float, clock: Clock
) -> list[float]:
    """Time the first call: tracing, compiling and running once."""
    return [_time(make().step, 1, clock)]


def peak_bytes(make: Callable[[], Any], library: str, seconds: float, clock: Clock) -> list[float]:
    """Measure the most memory held during calls after the first ones, beyond the library's own.

    Libraries that load their compiler when they first compute, as pullback does, are loaded before,
    as those that load everything when they are imported.
    """
    module = importlib.import_module(library.split(".")[0])
    arrays = importlib.import_module("jax.numpy") if library == "jax" else module
    arrays.ones(1).sum().item()
    before = _status("VmRSS")
    step = make().step
    for _ in range(WARM_UP_CALLS):
        step()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what compiling left behind is not needed for a step
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again
    for _ in range(5):
        step()
    return [_status("VmHWM") - before]


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024.0 * int(line.split()[1])
    raise KeyError(name)
