"""Print what a layer, an element or a parameter costs in programs of growing size.

    python -m benchmarks.scaling                 # all curves
    python -m benchmarks.scaling --only layers

Cost per unit should fall, as the fixed part is shared, and then stay the same, except where arrays
outgrow a cache of the processor.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

import pullback as pb
from benchmarks.measures import seconds_of_first_call, seconds_per_call
from benchmarks.workload import Case
from benchmarks.workloads import adam, dispatch, elementwise, softmax, transformer
from benchmarks.workloads.transformer_arrays import Sizes, transformer_arrays

LAYERS = (1, 2, 4, 8, 16, 32, 64)
ELEMENTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
PARAMETERS = (1, 3, 10, 30, 100, 300, 1000)


class Clock:
    """Seconds of a case, as the options ask for them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.now = time.process_time if options.cpu_time else time.perf_counter
        self.reduce = min if options.best else statistics.median
        self.seconds = options.seconds

    def call(self, make: Callable[[], Case]) -> float:
        return self.reduce(seconds_per_call(make, "pullback", self.seconds, self.now))

    def first(self, make: Callable[[], Case]) -> float:
        return seconds_of_first_call(make, "pullback", self.seconds, self.now)[0]


def layers(clock: Clock) -> Table:
    """Training steps of a transformer, by the number of its layers."""
    table = Table(title="transformer of width 64, 4 x 32 tokens: a training step, per layer")
    for title in ("layers", "first call, ms", "compiled, us", "not compiled by hand, us"):
        table.add_column(title, justify="right")
    for n in LAYERS:
        arrays = transformer_arrays(Sizes(64, 4, n, 128, 4, 32))
        pb.clear_cache()
        compiled = partial(transformer.with_pullback, arrays)
        undecorated = partial(transformer.with_pullback, arrays, compiled=False)
        costs = 1e3 * clock.first(compiled), 1e6 * clock.call(compiled)
        add(table, n, [*costs, 1e6 * clock.call(undecorated)])
    return table


def elements(clock: Clock) -> Table:
    """Functions of arrays, by the number of elements."""
    table = Table(title="compiled functions of large arrays: ns per element")
    titles = ("elements", "tanh(sin x exp -x^2), gradient", "softmax, rows of 100", "Adam")
    for title in titles:
        table.add_column(title, justify="right")
    rng = np.random.default_rng(0)
    for n in ELEMENTS:
        x, gradient = (rng.normal(size=n).astype(np.float32) for _ in range(2))
        makes = (
            partial(elementwise.with_pullback, x),
            partial(softmax.with_pullback, x.reshape(-1, 100)),
            partial(adam.with_pullback, [[x], [gradient]]),
        )
        add(table, n, [1e9 * clock.call(make) for make in makes])
    return table


def parameters(clock: Clock) -> Table:
    """Functions of trees, by the number of small arrays in them."""
    table = Table(title="trees of arrays with 8 elements: us per array")
    titles = ("arrays", "compiled call", "compiled Adam", "Adam, not compiled by hand", "stack")
    for title in titles:
        table.add_column(title, justify="right")
    for n in PARAMETERS:
        arrays = [np.full(8, i, np.float32) for i in range(n)]
        makes = (
            partial(dispatch.tree_pullback, {f"p{i:04}": x for i, x in enumerate(arrays)}),
            partial(adam.with_pullback, [arrays, arrays]),
            partial(adam.with_pullback, [arrays, arrays], compiled=False),
            partial(stacked, arrays),
        )
        add(table, n, [1e6 * clock.call(make) for make in makes])
    return table


def stacked(arrays: list[np.ndarray]) -> Case:
    tensors = [pb.tensor(x) for x in arrays]
    return Case(lambda: pb.wait(pb.stack(tensors)), lambda: pb.stack(tensors))


def add(table: Table, n: int, costs: Iterable[float]) -> None:
    """A row of costs per unit."""
    table.add_row(f"{n:,}", *[f"{cost / n:.3g}" for cost in costs])


CURVES = {"layers": layers, "elements": elements, "parameters": parameters}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=CURVES, default=list(CURVES))
    parser.add_argument("--seconds", type=float, default=0.5, help="time to measure each point")
    parser.add_argument("--cpu-time", action="store_true", help="CPU time of all threads")
    parser.add_argument("--best", action="store_true", help="the best sample, not the median")
    options = parser.parse_args()
    for name in options.only:
        Console().print(CURVES[name](Clock(options)))


if __name__ == "__main__":
    main()
