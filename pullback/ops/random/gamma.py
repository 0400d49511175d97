"""Numbers from gamma distributions, and how they move with the distribution's shape.

The sampler is Marsaglia and Tsang's (2000): a cubed normal number, accepted 95 times in 100 or more
often. A number that was accepted stays; rounds go on until each element has one. Every round draws
from streams of its own, so an element's number does not depend on what the others needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import DType, bool_, dtype, float32, float64, int32, int64, uint32
from pullback.ops.elementwise.base import check_kind
from pullback.ops.prelude import Axis, Node, Op, Type, spread_all
from pullback.ops.random.affine import LEAST
from pullback.ops.random.bits import KEY, KEYS, beginning, joined, per_key
from pullback.ops.random.formulas import ends, exp, log, minus_log, normal, polynomial
from pullback.ops.random.gamma_slope import GammaSlope
from pullback.ops.random.stepwise import NUMPY, lifted
from pullback.ops.random.threefry import (
    CounterPart,
    check_key,
    check_part,
    check_size,
    hlo_blocks,
    numpy_blocks,
)
from pullback.ops.samples import positive

ROUNDS = 16  # the chance that none of them accepts is below 2**-64
HUGE = 1e290
# log(1 + y) - y + y**2 / 2 - y**3 / 3 is -y**4 times this, for |y| < 1/16
QUARTIC = [(-1) ** k / (k + 4) for k in range(14)]


class RandomGamma(Op):
    """A number from the gamma distribution of shape a and scale 1 for each key u32[..., 2] and
    each element of a[..., *shape]; never 0, and NaN where a is not positive.

    Its derivative by a is that of the quantile which the number is (implicit reparameterisation):
    the numbers themselves jump where a round is accepted at one a and not at the next.
    """

    whole: tuple[int, ...] = ()  # of which a part is made, as in PerKey
    kinds = "f"

    def infer(self, key: Type, a: Type, *begin: Type) -> Type:
        check_key(key)
        check_part(key, begin, self.whole)
        check_kind(a.dtype, self.kinds)
        outer = key.rank - 1
        check_size(self.whole or a.shape[outer:])
        if a.shape[:outer] != key.shape[:-1]:
            raise ShapeError(f"needs shapes for each key, got {key} and {a}")
        return a

    def numpy(self, key: np.ndarray, a: np.ndarray, *begin: np.ndarray) -> np.ndarray:
        shape = a.shape[key.ndim - 1 :]
        part = CounterPart(self.whole, *begin) if begin else None
        wide = a.astype(np.float64)
        d, c = _constants(NUMPY, wide)
        made, done = d, np.zeros(a.shape, bool)
        for i in range(ROUNDS):
            words = [w for k in (1, 2) for w in numpy_blocks(key, shape, 2 * i + k, part)]
            made, done = _round(NUMPY, made, done, d, c, *words)
            if done.all():
                break
        first, second = numpy_blocks(key, shape, 0, part)
        made = _finished(NUMPY, made, wide, first, second, LEAST[dtype(a.dtype)])
        return np.asarray(made).astype(_rounded_in(dtype(a.dtype)).numpy).astype(a.dtype)

    def hlo(self, b: Any, out: Type, key: Any, a: Any, *begin: Any) -> Any:
        shape = out.shape[len(key.shape) - 1 :]
        wide = b.convert(a, float64)
        d, c = lifted(b, _constants, wide)
        start = (b.constant(0, int32), key, d, c, d, b.full(out.with_dtype(bool_), False), *begin)
        types = tuple(x.type for x in start)

        def blocks(key: Any, stream: Any, begin: tuple) -> tuple:
            return hlo_blocks(
                b, key, shape, stream, CounterPart(self.whole, *begin) if begin else None
            )

        def more(i: Any, key: Any, d: Any, c: Any, made: Any, done: Any, *begin: Any) -> list:
            rest = b.op("stablehlo.not", done, out=done.type)
            rest = b.reduce("or", rest, False, range(out.rank)) if out.rank else rest
            left = b.compare("LT", i, b.constant(ROUNDS, int32))
            return [b.op("stablehlo.and", rest, left, out=left.type)]

        def body(i: Any, key: Any, d: Any, c: Any, made: Any, done: Any, *begin: Any) -> list:
            first = b.convert(b.op("stablehlo.add", i, i, out=i.type), uint32)
            words: list[Any] = []
            for k in (1, 2):
                at = b.op("stablehlo.add", first, b.constant(k, uint32), out=first.type)
                words += blocks(key, at, begin)
            made, done = lifted(b, _round, made, done, d, c, *words)
            i = b.op("stablehlo.add", i, b.constant(1, int32), out=i.type)
            return [i, key, d, c, made, done, *begin]

        regions = b.region(types, more), b.region(types, body)
        made = b.op("stablehlo.while", *start, out=types, regions=regions)[4]

        finished = partial(_finished, least=LEAST[out.dtype])
        made = lifted(b, finished, made, wide, *blocks(key, 0, begin))
        return b.convert(b.convert(made, _rounded_in(out.dtype)), out.dtype)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*spread_all(axis, xs, mapped))

    def factors(self, key: Type, a: Type, *begin: Type) -> str:
        return per_key(key, begin, a.rank - key.rank + 1, like=1)

    def part(
        self, xs: Sequence[Node], out: Type, whole: Type, begin: Callable[[int], Node]
    ) -> Node:
        shapes = [t.shape[xs[0].type.rank - 1 :] for t in (out, whole)]
        if shapes[0] == shapes[1]:
            return self(*xs)
        return RandomGamma(shapes[1])(*xs, beginning(xs[0], out, begin))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [None, g * GammaSlope()(xs[1], out), *[None] * len(xs[2:])]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[1] is None else ts[1] * GammaSlope()(xs[1], out)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (KEYS, positive(2, 3, 4))
        yield cls(), (KEY, np.array([1e-4, 0.02, 1.0, 1e3, 1e12, 1e300, np.inf, 0.0, -1.0, np.nan]))
        yield cls(), (KEY, positive(0, 3))
        yield cls((6, 5)), (KEY, positive(2, 3), np.array([4, 1]))


# -- the formulas ---------------------------------------------------------------------------------


def _constants(m: Any, a: Any) -> tuple[Any, Any]:
    """Marsaglia and Tsang's d and c; a shape below 1 is first raised by 1."""
    a = m.where(a > 0.0, m.where(a < HUGE, a, 1.0), 1.0)  # what has no number gets one quickly
    d = m.where(a < 1.0, a + 1.0, a) - 1 / 3
    return d, 1.0 / (m.sqrt(d) * 3.0)


def _round(
    m: Any, made: Any, done: Any, d: Any, c: Any, z0: Any, z1: Any, u0: Any, u1: Any
) -> tuple[Any, Any]:
    """Numbers for those that have none yet, where this round accepts."""
    y = normal(m, m.bitcast(joined(m, z0, z1), int64)) * c
    root = y + 1.0
    inside = root > 0.0
    root = m.where(inside, root, 1.0)
    square = y * y
    far = (log(m, root) - y) + (square * 0.5 - square * y * (1 / 3))
    near = -(square * square * polynomial(QUARTIC, y))
    excess = m.where(square < 1 / 256, near, far) * 3.0 * d
    accepted = inside & (_energy(m, u0, u1) + excess > 0.0)
    return m.where(accepted & ~done, root * root * root * d, made), accepted | done


def _finished(m: Any, made: Any, a: Any, u0: Any, u1: Any, least: float) -> Any:
    """The numbers for the shapes that were given, from those for the raised ones."""
    small = m.where(a < 1.0, m.where(a > 0.0, a, 1.0), 1.0)
    made = m.where(a < 1.0, exp(m, log(m, made) - _energy(m, u0, u1) * (1.0 / small)), made)
    made = m.where(made < least, least, made)
    made = m.where(a < HUGE, made, a)
    return m.where(a > 0.0, made, math.nan)


def _energy(m: Any, first: Any, second: Any) -> Any:
    """An exponential number, -log of a uniform one."""
    k = m.bitcast(joined(m, first, second), int64) & ((1 << 63) - 1)
    return minus_log(m, *ends(m, k, float64))


def _rounded_in(wanted: DType) -> DType:
    """The first of two roundings: XLA may take f64 to 16 bits in one step or in two."""
    return float32 if wanted.bits == 16 else wanted
