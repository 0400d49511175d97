"""Long training loops in three styles: nothing compiles after the first step, memory stays flat.

Run as a script for 20,000 steps of each style (`make long`);
`tests/lazy/test_memory.py` runs fewer.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 8)).astype(np.float32)
Y = RNG.normal(size=(16, 1)).astype(np.float32)
START = {
    "w1": RNG.normal(0, 0.3, (8, 8)).astype(np.float32), "b1": np.zeros(8, np.float32),
    "w2": RNG.normal(0, 0.3, (8, 1)).astype(np.float32), "b2": np.zeros(1, np.float32),
}  # fmt: skip


def loss_of(params: Any, x: Any, y: Any) -> Any:
    hidden = pb.tanh(x @ params["w1"] + params["b1"])
    return ((hidden @ params["w2"] + params["b2"] - y) ** 2).mean()


def functional(read_every: int) -> Callable[[int], float | None]:
    """value_and_grad and an optimizer in functional form."""
    x, y = pb.tensor(X), pb.tensor(Y)
    rule = pb.optim.adam(1e-2)
    params: Any = {k: pb.tensor(v) for k, v in START.items()}
    state = rule.init(params)
    loss = None  # held from step to step, as a loop's variable is

    def step(i: int) -> float | None:
        nonlocal params, state, loss
        loss, grads = pb.value_and_grad(loss_of)(params, x, y)
        params, state = rule.update(grads, state, params)
        del grads
        return loss.item() if i % read_every == 0 else None

    return step


def imperative(read_every: int) -> Callable[[int], float | None]:
    """Leaves that require a gradient, backward() and an optimizer."""
    x, y = pb.tensor(X), pb.tensor(Y)
    params = {k: pb.tensor(v, requires_grad=True) for k, v in START.items()}
    optimizer = pb.optim.Adam(params, learning_rate=1e-2)

    def step(i: int) -> float | None:
        optimizer.zero_grad()
        loss = loss_of(params, x, y)
        loss.backward()
        optimizer.step()
        return loss.item() if i % read_every == 0 else None

    return step


STYLES: dict[str, Callable[[], Callable[[int], float | None]]] = {
    "functional": lambda: functional(1),
    "backward() with an optimizer": lambda: imperative(1),
    "loss read every hundredth step": lambda: functional(100),
}


@dataclass
class Report:
    """What a loop did after its first full step."""

    steps: int
    compiles: int
    programs: int
    traced: int  # bytes of Python memory more at the end than after the first fifth
    resident: int  # bytes of the process, likewise
    nodes: int  # nodes more, likewise
    first: float
    last: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.steps} steps, {self.seconds / self.steps * 1e3:.2f} ms each; "
            f"{self.compiles} compiles and {self.programs} programs after the first; "
            f"Python memory {self.traced:+d} B, resident {self.resident / 2**20:+.1f} MiB, "
            f"live nodes {self.nodes:+d}; loss {self.first:.4f} -> {self.last:.4f}"
        )


def resident() -> int:
    """The resident size of this process in bytes."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:  # not on Linux
        return 0


def live_nodes() -> int:
    gc.collect()
    return pb.engine_info().live_nodes


def run(style: str, steps: int) -> Report:
    """Run a loop, and compare its end with its first fifth."""
    step = STYLES[style]()
    first = last = step(0)
    every = 100 if "hundredth" in style else 1
    step(1)  # a root: what was pending of the first step has run
    compiles, programs = pb.cache_info().compiles, pb.engine_info().programs_run
    began = time.perf_counter()
    tracemalloc.start()
    try:
        mark = max(steps // 5 // every * every, every)
        for i in range(2, mark + 1):
            step(i)
        nodes, size = live_nodes(), resident()
        traced, _ = tracemalloc.get_traced_memory()
        end = max((steps - 1) // every * every, mark)
        for i in range(mark + 1, end + 1):
            last = step(i)
        more_nodes, more_size = live_nodes() - nodes, resident() - size
        more_traced = tracemalloc.get_traced_memory()[0] - traced
    finally:
        tracemalloc.stop()
    assert first is not None and last is not None  # both steps are among those that read
    return Report(
        end + 1, pb.cache_info().compiles - compiles, pb.engine_info().programs_run - programs,
        more_traced, more_size, more_nodes, first, last, time.perf_counter() - began,
    )  # fmt: skip


# What swings without growing: host arrays that XLA lets go in batches, and the allocator's pools.
TRACED_SWING = 128 * 1024
RESIDENT_SWING = 8 * 2**20


def problems(report: Report) -> list[str]:
    """What must not happen in a loop, and did."""
    found = []
    if report.compiles:
        causes = "; ".join(map(str, pb.cache_info().causes[-report.compiles :]))
        found.append(f"{report.compiles} compiles after the first full step: {causes}")
    if abs(report.programs - report.steps) > 2:
        found.append(f"{report.programs} programs for {report.steps} steps")
    if report.traced > TRACED_SWING:
        found.append(f"Python memory grew by {report.traced} bytes")
    if report.resident > RESIDENT_SWING:
        found.append(f"the process grew by {report.resident} bytes")
    if report.nodes:
        found.append(f"live nodes changed by {report.nodes}")
    if not report.last < report.first:
        found.append(f"the loss went from {report.first} to {report.last}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    steps = parser.parse_args().steps
    failed = False
    for style in STYLES:
        report = run(style, steps)
        print(f"{style}: {report}", flush=True)
        for problem in problems(report):
            failed = True
            print(f"  WRONG: {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
