"""Samples of the gamma distribution, differentiable with respect to its shape.

The sampler is that of Marsaglia and Tsang (2000): a cubed normal number, accepted with a
probability of at least 95 %. Rounds repeat until every element has an accepted number. Each round
draws from its own streams, so an element's number does not depend on the other elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import bool_, dtype, float64, int32, int64, uint32
from pullback.ops.elementwise.base import check_elementwise_kind
from pullback.ops.elementwise.cast import Cast
from pullback.ops.parts import Begin
from pullback.ops.prelude import Node, Op, Type, batch_along
from pullback.ops.random.affine import LEAST
from pullback.ops.random.bits import (
    KEY,
    KEYS,
    beginning_of_bits,
    bits_per_key_rule,
    join_random_bits,
)
from pullback.ops.random.formulas import (
    ends_formula,
    exp_formula,
    log_formula,
    minus_log_formula,
    normal_formula,
    polynomial_formula,
)
from pullback.ops.random.gamma_slope import GammaSlope
from pullback.ops.random.stepwise import NUMPY, lifted
from pullback.ops.random.threefry import (
    check_threefry_key,
    check_threefry_part,
    check_threefry_size,
    hlo_blocks,
    numpy_blocks,
)
from pullback.ops.samples import positive

ROUNDS = 16  # all of them reject with a probability below 2**-64
HUGE = 1e290
# log(1 + y) - y + y**2 / 2 - y**3 / 3 is -y**4 times this, for |y| < 1/16
QUARTIC = [(-1) ** k / (k + 4) for k in range(14)]


class RandomGamma(Op):
    """Samples of the gamma distribution with shape a and scale 1, for each key u32[..., 2] and each
    element of a[..., *shape]; never 0, and NaN where a is not positive or subnormal.

    The derivative with respect to a is that of a quantile (implicit reparameterization): the
    samples themselves jump where an acceptance changes.
    """

    whole: tuple[int, ...] = ()  # the shape of which a part is drawn, as in PerKey
    kinds = "f"
    batch = batch_along

    def infer(self, key: Type, a: Type, *begin: Type) -> Type:
        check_threefry_key(key)
        check_threefry_part(key, begin, self.whole)
        check_elementwise_kind(a.dtype, self.kinds)
        outer = key.rank - 1
        check_threefry_size(self.whole or a.shape[outer:])
        if a.shape[:outer] != key.shape[:-1]:
            raise ShapeError(f"a must have shapes for each key, got {key} and {a}")
        return a

    def numpy(self, key: np.ndarray, a: np.ndarray, *begin: np.ndarray) -> np.ndarray:
        shape, wide = a.shape[key.ndim - 1 :], a.astype(np.float64)

        def blocks(stream: int) -> tuple[Any, Any]:
            return numpy_blocks(key, shape, stream, self.whole, *begin)

        d, c = _gamma_constants(NUMPY, wide)
        made, done = d, np.zeros(a.shape, bool)
        for i in range(ROUNDS):
            words = (*blocks(2 * i + 1), *blocks(2 * i + 2))
            made, done = _gamma_round(NUMPY, made, done, d, c, *words)
            if done.all():
                break
        made = _gamma_finished(NUMPY, made, wide, *blocks(0), LEAST[dtype(a.dtype)])
        return Cast(dtype(a.dtype)).numpy(np.asarray(made))

    def hlo(self, b: Any, out: Type, key: Any, a: Any, *begin: Any) -> Any:
        shape, wide = out.shape[len(key.shape) - 1 :], b.convert(a, float64)
        d, c = lifted(b, _gamma_constants, wide)

        def blocks(stream: Any) -> tuple[Any, Any]:
            return hlo_blocks(b, key, shape, stream, self.whole, *begin)

        def condition(i: Any, made: Any, done: Any) -> Any:
            rest = b.op("stablehlo.not", done, out=done.type)
            rest = b.reduce("or", rest, False, range(out.rank)) if out.rank else rest
            left = b.compare("LT", i, b.constant(ROUNDS, int32))
            return b.op("stablehlo.and", rest, left, out=left.type)

        def body(i: Any, made: Any, done: Any) -> list:
            streams = [lifted(b, lambda m, i, k=k: m.convert(i + i + k, uint32), i) for k in (1, 2)]
            words = (*blocks(streams[0]), *blocks(streams[1]))
            made, done = lifted(b, _gamma_round, made, done, d, c, *words)
            return [lifted(b, lambda m, i: i + 1, i), made, done]

        start = (b.constant(0, int32), d, b.full(out.with_dtype(bool_), False))
        made = b.loop(start, condition, body, stops=False)[1]
        finished = partial(_gamma_finished, least=LEAST[out.dtype])
        made = lifted(b, finished, made, wide, *blocks(0))
        return b.convert(made, out.dtype)

    def factors(self, key: Type, a: Type, *begin: Type) -> str:
        return bits_per_key_rule(key, begin, a.rank - key.rank + 1, like=1)

    def part(self, xs: Sequence[Node], out: Type, whole: Type, begin: Begin) -> Node:
        shapes = [t.shape[xs[0].type.rank - 1 :] for t in (out, whole)]
        if shapes[0] == shapes[1]:
            return self(*xs)
        return RandomGamma(shapes[1])(*xs, beginning_of_bits(xs[0], out, begin))

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


def _gamma_constants(m: Any, a: Any) -> tuple[Any, Any]:
    """Return d and c of Marsaglia and Tsang; a shape below 1 is first increased by 1."""
    a = m.where(
        a > 0.0, m.where(a < HUGE, a, 1.0), 1.0
    )  # `_gamma_finished` replaces invalid elements
    d = m.where(a < 1.0, a + 1.0, a) - 1 / 3
    return d, 1.0 / (m.sqrt(d) * 3.0)


def _gamma_round(
    m: Any, made: Any, done: Any, d: Any, c: Any, z0: Any, z1: Any, u0: Any, u1: Any
) -> tuple[Any, Any]:
    """Draw numbers for elements that have none yet, where this round accepts."""
    y = normal_formula(m, m.bitcast(join_random_bits(m, z0, z1), int64)) * c
    root = y + 1.0
    inside = root > 0.0
    root = m.where(inside, root, 1.0)
    square = y * y
    far = (log_formula(m, root) - y) + (square * 0.5 - square * y * (1 / 3))
    near = -(square * square * polynomial_formula(QUARTIC, y))
    excess = m.where(square < 1 / 256, near, far) * 3.0 * d
    accepted = inside & (_gamma_energy(m, u0, u1) + excess > 0.0)
    return m.where(accepted & ~done, root * root * root * d, made), accepted | done


def _gamma_finished(m: Any, made: Any, a: Any, u0: Any, u1: Any, least: float) -> Any:
    """Return the numbers for the given shapes from those for the increased ones."""
    small = m.where(a < 1.0, m.where(a > 0.0, a, 1.0), 1.0)
    made = m.where(
        a < 1.0,
        exp_formula(m, log_formula(m, made) - _gamma_energy(m, u0, u1) * (1.0 / small)),
        made,
    )
    made = m.where(made < least, least, made)
    made = m.where(a < HUGE, made, a)
    return m.where(a >= least, made, math.nan)


def _gamma_energy(m: Any, first: Any, second: Any) -> Any:
    """Return an exponential number, -log of a uniform one."""
    k = m.bitcast(join_random_bits(m, first, second), int64) & ((1 << 63) - 1)
    return minus_log_formula(m, *ends_formula(m, k, float64))
