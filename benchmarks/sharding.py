"""What propagation adds to recording an op, measured side by side and printed in microseconds.

Recording asks an op for its result's type, which is remembered by the operands' types: in a loop
propagation runs once. `remembered` is that case, `again` the one where an op was forgotten in the
meantime and its rule was not, `first` the one where no op of that rule has seen such types before.
The last lines say what tensors on no mesh pay: the same code with propagation cut out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import pullback as pb
from pullback.ops.base import Op
from pullback.sharding import propagate

MESH = pb.DeviceMesh((2, 4), ("dp", "tp"))
OPS: dict[str, Callable[[Any], Any]] = {
    "x + y": lambda x: x + x,
    "tanh": pb.tanh,
    "x @ y": lambda x: x @ x,
    "x.sum(0)": lambda x: x.sum(0),
    "reshape": lambda x: x.reshape(4, 2, 8),
    "x.T": lambda x: x.T,
    "softmax": lambda x: pb.softmax(x, axis=-1),
    "x[1:5]": lambda x: x[1:5],
    "concat": lambda x: pb.concat([x, x]),
}


def matrix() -> Any:
    return pb.tensor(np.ones((8, 8), np.float32))


def timed(f: Callable[[], Any], times: int) -> float:
    """Microseconds per call."""
    start = time.perf_counter()
    for _ in range(times):
        f()
    return (time.perf_counter() - start) / times * 1e6


def remembered(f: Callable, x: Any) -> float:
    held = f(x)  # keeps the op alive, as a program does that was compiled
    try:
        return timed(lambda: f(x), 200)
    finally:
        del held


def forgotten(f: Callable, x: Any, rules: bool) -> float:
    """Recording when the op does not remember; `rules`: nor does anything else."""

    def once() -> Any:
        made = f(x)
        made._node.op.inferred.clear()
        if rules:
            propagate._plan.cache_clear()
        return made

    def clearing() -> None:
        held._node.op.inferred.clear()
        if rules:
            propagate._plan.cache_clear()

    held = f(x)
    return timed(once, 50) - timed(clearing, 50)


def bare(self: Op, types: tuple) -> Any:
    """`Op._derive_type` without shardings."""
    several = bool(types) and isinstance(types[0], tuple)
    axes = types[0].varying if types and not several else ()
    plain = types if several else tuple([t.plain for t in types])
    return self.over_axes(axes, self._checked_type(plain))


def cost_off_the_mesh(rounds: int) -> float:
    """What a type rule pays for asking whether operands are on a mesh; when types are
    remembered, it is not asked at all."""
    x, add = matrix()._node.type, pb.op("Add")
    whole = Op._derive_type
    differences = []
    for _ in range(rounds):
        found = [timed(lambda f=f: f(add, (x, x)), 2000) for f in (whole, bare)]  # type: ignore[misc]
        differences.append(found[0] - found[1])
    return statistics.median(differences)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    pb.config(engine="reference")  # nothing is evaluated
    plain, sharded = matrix(), matrix().shard(MESH, pb.P("dp", "tp"))
    cases: dict[str, Callable[[Callable, Any], float]] = {
        "remembered": remembered,
        "again": lambda f, x: forgotten(f, x, False),
        "first": lambda f, x: forgotten(f, x, True),
    }
    table = Table("op", *[f"{c}: off, on, added" for c in cases])
    for name, f in OPS.items():
        row = []
        for measure in cases.values():
            pairs = [(measure(f, plain), measure(f, sharded)) for _ in range(rounds)]
            off, on = (statistics.median(column) for column in zip(*pairs, strict=True))
            row.append(f"{off:5.1f} {on:6.1f} {statistics.median(b - a for a, b in pairs):+6.1f}")
        table.add_row(name, *row)
    console = Console()
    console.print("microseconds to record an op, on and off a mesh", table, sep="\n")
    console.print(f"off the mesh, a type rule pays {cost_off_the_mesh(rounds):+.2f} us, once")


if __name__ == "__main__":
    main()
