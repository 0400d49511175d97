"""Samples of the gamma distribution, differentiable with respect to its shape.

The sampler is that of Marsaglia and Tsang (2000): a cubed normal number, accepted with a
probability of at least 95 %. Rounds repeat until every element has an accepted number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import bool_, dtype, float64, int64
from pullback.ops.elementwise.cast import Cast
from pullback.ops.prelude import Node, Type
from pullback.ops.random.between import LEAST
from pullback.ops.random.bits import KEY, KEYS, join_random_bits
from pullback.ops.random.gamma_slope import GammaSlope, LogGammaSlope
from pullback.ops.random.rejection import (
    Blocks,
    RejectionSampler,
    State,
    hlo_rejection_rounds,
    numpy_rejection_rounds,
    rejection_energy_formula,
    rejection_parameter,
    rejection_streams,
)
from pullback.ops.random.sampler_formulas import (
    normal_formula,
    sampler_exp_formula,
    sampler_log_formula,
    sampler_polynomial_formula,
)
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise
from pullback.ops.samples import positive

ROUNDS = 16  # all of them reject with a probability below 2**-64
HUGE = 1e290
# log(1 + y) - y + y**2 / 2 - y**3 / 3 is -y**4 times this, for |y| < 1/16
QUARTIC = [(-1) ** k / (k + 4) for k in range(14)]


class RandomGamma(RejectionSampler):
    """Samples of the gamma distribution with shape a and scale 1, for each key u32[..., 2] and each
    element of a[..., *shape]; never 0, and NaN where a is not positive or subnormal.

    The derivative with respect to a is that of a quantile (implicit reparameterization): the
    samples themselves jump where an acceptance changes.
    """

    whole: tuple[int, ...] = ()

    def numpy_draw(self, blocks: Blocks, *parameters: np.ndarray) -> np.ndarray:
        (a,) = parameters
        wide = a.astype(np.float64)
        d, c = _random_gamma_constants(NUMPY, wide)

        def step(i: int, made: Any, done: Any) -> State:
            words = (*blocks(2 * i + 1), *blocks(2 * i + 2))
            return _gamma_round(NUMPY, made, done, d, c, *words)

        made = numpy_rejection_rounds(step, (d, np.zeros(a.shape, bool)), ROUNDS)[0]
        made = self.finished(NUMPY, made, wide, *blocks(0), least=LEAST[dtype(a.dtype)])
        return Cast(dtype(a.dtype)).numpy(np.asarray(made))

    def hlo_draw(self, b: Any, out: Type, blocks: Blocks, *parameters: Any) -> Any:
        wide = b.convert(parameters[0], float64)
        d, c = lifted_stepwise(b, _random_gamma_constants, wide)

        def step(i: Any, made: Any, done: Any) -> State:
            first, second = rejection_streams(b, i)
            return lifted_stepwise(
                b, _gamma_round, made, done, d, c, *blocks(first), *blocks(second)
            )

        start = (d, b.full(out.with_dtype(bool_), False))
        made = hlo_rejection_rounds(b, step, start, ROUNDS)[0]
        finished = partial(self.finished, least=LEAST[out.dtype])
        made = lifted_stepwise(b, finished, made, wide, *blocks(0), unbounded=self.unbounded)
        return b.convert(made, out.dtype)

    unbounded: ClassVar[bool] = False  # whether numbers may exceed the limit of `stepwise`

    def finished(self, m: Any, made: Any, a: Any, u0: Any, u1: Any, least: float) -> Any:
        """Return the numbers for the given shapes from those for the increased ones."""
        shrunk = sampler_exp_formula(m, _random_gamma_shrunk(m, made, a, u0, u1))
        made = m.where(a < 1.0, shrunk, made)
        made = m.where(made < least, least, made)
        made = m.where(a < HUGE, made, a)
        return m.where(a >= least, made, math.nan)

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


class RandomLogGamma(RandomGamma):
    """Logarithms of the samples of RandomGamma in f64, also of those that are too small for it."""

    whole: tuple[int, ...] = ()
    kinds = ""  # `result` checks them
    unbounded: ClassVar[bool] = True

    def result(self, parameter: Type) -> Type:
        return rejection_parameter(parameter)

    def finished(self, m: Any, made: Any, a: Any, u0: Any, u1: Any, least: float) -> Any:
        large = sampler_log_formula(m, m.where(a < HUGE, made, m.where(a < math.inf, a, 1.0)))
        made = m.where(a < 1.0, _random_gamma_shrunk(m, made, a, u0, u1), large)
        return m.where(a >= least, m.where(a < math.inf, made, a), math.nan)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [None, g * LogGammaSlope()(xs[1], out), *[None] * len(xs[2:])]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[1] is None else ts[1] * LogGammaSlope()(xs[1], out)

    @classmethod
    def samples(cls) -> Any:
        hard = np.array([1e-306, 1e-4, 0.02, 1.0, 1e3, 1e12, 1e300, np.inf, 0.0, -1.0, np.nan])
        yield cls(), (KEYS[:1, 0], np.stack([hard]))
        yield cls((6, 5)), (KEY, positive(2, 3), np.array([4, 1]))


def _random_gamma_constants(m: Any, a: Any) -> tuple[Any, Any]:
    """Return d and c of Marsaglia and Tsang; a shape below 1 is first increased by 1."""
    a = m.where(a > 0.0, m.where(a < HUGE, a, 1.0), 1.0)  # `finished` replaces invalid elements
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
    far = (sampler_log_formula(m, root) - y) + (square * 0.5 - square * y * (1 / 3))
    near = -(square * square * sampler_polynomial_formula(QUARTIC, y))
    excess = m.where(square < 1 / 256, near, far) * 3.0 * d
    accepted = inside & (rejection_energy_formula(m, u0, u1) + excess > 0.0)
    return m.where(accepted & ~done, root * root * root * d, made), accepted | done


def _random_gamma_shrunk(m: Any, made: Any, a: Any, u0: Any, u1: Any) -> Any:
    """Return the logarithms of numbers for shapes below 1 from numbers for the increased ones."""
    small = m.where(a < 1.0, m.where(a > 0.0, a, 1.0), 1.0)
    return sampler_log_formula(m, made) - rejection_energy_formula(m, u0, u1) * (1.0 / small)
