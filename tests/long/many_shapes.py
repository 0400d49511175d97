"""One gradient at many shapes: the programs in memory stay within their bound.

Run as a script for 1,000 shapes (`make long`); `tests/lazy/test_program_cache.py` runs fewer.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from typing import Any

import numpy as np

import pullback as pb
from pullback.engines.xla.host_heap import trim_host_heap

# What grows beside the programs: types and ops of every shape, causes; while a program is compiled,
# the compiler's own memory.
KEPT, WORK = 8 * 2**20, 32 * 2**20
WARM = 10


def resident() -> int:
    with open("/proc/self/status") as status:
        return next(int(s.split()[1]) for s in status if s.startswith("VmRSS")) * 1024


def gradient(rows: int) -> None:
    """Loss and gradient of a small network at one shape: one program."""
    x = pb.tensor(np.ones((rows, 8), np.float32))
    params = [pb.tensor(np.full((8, 8), 0.1, np.float32)) for _ in range(2)]

    def loss(params: Any) -> Any:
        h = x
        for w in params:
            h = pb.tanh(h @ w)
        return (h**2).mean()

    pb.evaluate(*pb.value_and_grad(loss)(params))


def run(shapes: int, bound: int) -> dict[str, float]:
    """Every shape once, and the newest and the oldest again."""
    with pb.config(cache_bytes=bound):
        for rows in range(1, WARM + 1):
            gradient(rows)
        gc.collect()
        trim_host_heap()
        start, peak, began = resident(), 0, time.perf_counter()
        for rows in range(WARM + 1, shapes + 1):
            gradient(rows)
            peak = max(peak, resident() - start)
        gc.collect()
        trim_host_heap()
        kept, info = resident() - start, pb.cache_info()
        gradient(shapes)
        newest = pb.cache_info()
        gradient(1)
        oldest = pb.cache_info()
    return {
        "shapes": shapes, "bound": bound, "peak": peak, "kept": kept,
        "memory_bytes": info.memory_bytes, "programs": info.programs, "compiles": info.compiles,
        "disk_hits": info.disk_hits, "disk_bytes": info.disk_bytes,
        "newest_misses": newest.misses - info.misses,
        "oldest_compiles": oldest.compiles - newest.compiles,
        "oldest_hits": oldest.disk_hits - newest.disk_hits,
        "seconds": time.perf_counter() - began,
    }  # fmt: skip


def problems(report: dict[str, float]) -> list[str]:
    """What must not happen, and did."""
    found = []
    if report["memory_bytes"] > report["bound"]:
        found.append("the programs in memory are estimated to be beyond the bound")
    if report["kept"] > report["bound"] + KEPT or report["peak"] > report["bound"] + WORK:
        found.append(f"the process grew by {report['kept']}, at most {report['peak']} bytes")
    if report["newest_misses"]:
        found.append("the program used last was not in memory")
    if report["oldest_compiles"] or report["oldest_hits"] != 1:
        found.append("the program used first was not loaded from disk")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=1000)
    parser.add_argument("--bound", type=int, default=64 * 2**20)
    options = parser.parse_args()
    report = run(options.shapes, options.bound)
    print(report)
    wrong = problems(report)
    for problem in wrong:
        print(f"  WRONG: {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
