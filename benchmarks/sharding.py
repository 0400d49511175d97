"""Measure what propagation adds to recording an op, in microseconds.

Recording caches the type of a result by the types of the operands, so propagation runs once in a
loop. `known types` is that case; in `new types` shapes are new every time; in `new rule` no op with
that rule was seen with such specs either. A function of several ops is measured per op. The last
line shows the cost for tensors without a mesh: the same code with propagation removed.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import pullback as pb
from pullback.ops.prelude import Op
from pullback.sharding import factors, propagate, spec

MESH = pb.DeviceMesh((2, 4), ("dp", "tp"))


def layer_norm(x: Any, y: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / pb.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


# Of a matrix x, split both ways, and a row y of as many columns, split too.
OPS: dict[str, Callable[[Any, Any], Any]] = {
    "tanh": lambda x, y: pb.tanh(x),
    "x + x": lambda x, y: x + x,
    "x + row": lambda x, y: x + y,
    "x.sum(0)": lambda x, y: x.sum(0),
    "x.max(1, keepdims)": lambda x, y: x.max(1, keepdims=True),
    "x.mean(0)": lambda x, y: x.mean(0),
    "x @ row": lambda x, y: x @ y,
    "x @ x.T": lambda x, y: x @ x.T,
    "tensordot": lambda x, y: pb.tensordot(x, x, ((0, 1), (0, 1))),
    "einsum": lambda x, y: pb.einsum("ij,j->i", x, y),
    "split dimension": lambda x, y: x.reshape(4, -1, x.shape[1]),
    "join dimensions": lambda x, y: x.reshape(-1),
    "x.T": lambda x, y: x.T,
    "x[:, None]": lambda x, y: x[:, None],
    "broadcast_to": lambda x, y: pb.broadcast_to(y, x.shape),
    "softmax": lambda x, y: pb.softmax(x, axis=-1),
    "log_softmax": lambda x, y: pb.log_softmax(x, axis=-1),
    "layer norm": layer_norm,
    "x[1:5]": lambda x, y: x[1:5],
    "take": lambda x, y: pb.take(x, PLACES, axis=0),
    "concat": lambda x, y: pb.concat([x, x]),
    "x.cumsum(0)": lambda x, y: x.cumsum(0),
}
ONE = pb.tensor(1.0)
PLACES = pb.tensor(np.array([3, 1, 2], np.int32))


def operands(shape: tuple[int, int], on: bool) -> tuple[Any, Any]:
    """A matrix and a row, on or off the mesh; they are not computed and take no memory."""
    x, y = pb.broadcast_to(ONE, shape), pb.broadcast_to(ONE, shape[1:])
    return (x.shard(MESH, pb.P("dp", "tp")), y.shard(MESH, pb.P("tp"))) if on else (x, y)


# No shape occurs twice; all sizes can be split.
SHAPES = ((8 * m, 8 * n) for m in itertools.count(1) for n in range(1, 9))


def recorded(made: Any, xs: tuple) -> int:
    """How many ops there are between operands and a result."""
    found, stack = {x._node for x in xs}, [made._node]
    while stack:
        n = stack.pop()
        if n not in found and n.inputs:
            found.add(n)
            stack += n.inputs
    return len(found) - len(xs)


def timed(f: Callable, xs: Sequence[tuple], forget: Callable[[], Any] | None = None) -> float:
    """Microseconds of this thread per recorded op; `forget` runs before each."""
    held = []
    start = time.thread_time()
    for x in xs:
        if forget:
            forget()
        held.append(f(*x))
    taken = time.thread_time() - start
    if forget:
        start = time.thread_time()
        for _ in xs:
            forget()
        taken -= time.thread_time() - start
    return taken / len(xs) / recorded(held[-1], xs[-1]) * 1e6


def known_types(f: Callable, on: bool, count: int) -> float:
    x = operands((8, 8), on)
    held = f(*x)  # keeps the op alive, as a program does
    taken = timed(f, [x] * count)
    del held
    return taken


def new_types(f: Callable, on: bool, count: int) -> float:
    return timed(f, [operands(shape, on) for shape in itertools.islice(SHAPES, count)])


def new_rules(f: Callable, on: bool, count: int) -> float:
    xs = [operands(shape, on) for shape in itertools.islice(SHAPES, count)]
    return timed(f, xs, forget_rules)


def forget_rules() -> None:
    """Clear all caches of propagation."""
    factors._FORMS.clear()
    for remembering in (factors.parse_factors, propagate._propagation_plan, spec.spec_on_mesh):
        remembering.cache_clear()


def bare(self: Op, types: tuple) -> Any:
    """`Op._derive_type` without shardings."""
    several = bool(types) and isinstance(types[0], tuple)
    plain = types if several else tuple([t.plain for t in types])
    return self.infer(*plain)


def cost_off_the_mesh(rounds: int) -> float:
    """The cost of checking whether operands are on a mesh; cached types skip the check."""
    x, add = operands((8, 8), on=False)[0]._node.type, pb.op("Add")
    whole = Op._derive_type
    least = [min(_repeated(f, add, x) for _ in range(rounds)) for f in (whole, bare)]
    return least[0] - least[1]


def _repeated(f: Callable, op: Op, x: Any, times: int = 2000) -> float:
    start = time.thread_time()
    for _ in range(times):
        f(op, (x, x))
    return (time.thread_time() - start) / times * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="the best counts")
    parser.add_argument("--count", type=int, default=40, help="applications in a round")
    given = parser.parse_args()
    pb.config(engine="reference")  # nothing is evaluated
    cases = {"known types": known_types, "new types": new_types, "new rule": new_rules}
    table = Table("op", *[f"{c}: off, on, added" for c in cases])
    gc.disable()
    for name, f in OPS.items():
        row = []
        for measure in cases.values():
            pairs = [(measure(f, False, given.count), measure(f, True, given.count))
                     for _ in range(given.rounds)]  # fmt: skip
            off, on = map(min, zip(*pairs, strict=True))
            row.append(f"{off:5.1f} {on:6.1f} {on - off:+6.1f}")
        table.add_row(name, *row)
        gc.collect()
    console = Console()
    console.print("microseconds to record an op, on and off a mesh", table, sep="\n")
    console.print(f"off the mesh, a type rule pays {cost_off_the_mesh(given.rounds):+.2f} us, once")


if __name__ == "__main__":
    main()
