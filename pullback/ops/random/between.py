"""Numbers in an interval, which rounding does not leave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import DType, bfloat16, float16, float32, float64
from pullback.graph.types import show_types
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.elementwise.functions import cast
from pullback.ops.prelude import Node, Type, broadcast_types, op_functions
from pullback.ops.random.sampler_formulas import (
    quantile_formula,
    sampler_exp_formula,
    sampler_log_formula,
    sampler_mills_formula,
)
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise, stepwise_sibling
from pullback.ops.random.weighted_choice import Arrival
from pullback.ops.samples import real, unit_samples

exponential, erfc = op_functions("Exp", "Erfc")
FAR = 1e150  # larger numbers have infinite squares
# The spacing of numbers of a dtype within f32 (f64 for f64), in units of the last bit; and the
# smallest spacing.
SPACING = {float16: 1 << 13, bfloat16: 1 << 16, float32: 1, float64: 1}
LEAST = {float16: 2.0**-24, bfloat16: 2.0**-126, float32: 2.0**-126, float64: 2.0**-1022}


class Between(Elementwise):
    """low + u (high - low) for u in [0, 1), in [low, high) even after rounding to `dtype`.

    Operands are f64 if `dtype` is f64, else f32.
    """

    dtype: DType
    kinds = ""  # of the operands: `infer` checks them

    def infer(self, *xs: Type) -> Type:
        wide = float64 if self.dtype is float64 else float32
        if any(x.dtype is not wide for x in xs):
            raise DTypeError(f"operands for {self.dtype} must be {wide}, got {show_types(xs)}")
        return Type(broadcast_types(*xs), self.dtype)

    def numpy(self, u: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.asarray(self._formula(NUMPY, u, low, high))

    def hlo(self, b: Any, out: Type, *xs: Any) -> Any:
        return lifted_stepwise(b, self._formula, *b.broadcast_all(xs, out.shape), unbounded=True)

    def _formula(self, m: Any, u: Any, low: Any, high: Any) -> Any:
        y = u * (high - low) + low
        first, last = self._first(m, low), -self._first(m, -high, strict=True)
        y = m.where(y > last, last, y)
        return m.convert(m.where(y < first, first, y), self.dtype)

    def _first(self, m: Any, x: Any, strict: bool = False) -> Any:
        """Return the least number of the result's dtype that is at least x, or above x (strict)."""
        step, least = SPACING[self.dtype], LEAST[self.dtype]
        bits, mask = m.bitcast(x, stepwise_sibling(x, "i")), -step
        if not strict:
            bits = m.where(x > 0.0, bits + (step - 1), bits)
            return m.bitcast(bits & mask, stepwise_sibling(x, "f"))
        found = m.bitcast(m.where(x < 0.0, bits - 1, bits + step) & mask, stepwise_sibling(x, "f"))
        above = x + least
        return m.where(found > above, found, above)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        g, partials = cast(g, xs[0].type.dtype), self.partials(out, *xs)
        return [g * d() if n else None for d, n in zip(partials, need, strict=True)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        t = super().jvp(out, xs, ts)
        return None if t is None else cast(t, self.dtype)

    def partials(self, out: Node, u: Node, low: Node, high: Node) -> tuple:
        return (lambda: high - low, lambda: 1 - u, lambda: u)

    @classmethod
    def samples(cls) -> Any:
        u = (unit_samples(3, 4) + 1) / 2
        yield cls(float64), (u, real(4), np.array(2.5))
        yield cls(float64), (u[0], np.array(-3.0), np.array([0.0, 1e-5, 1.0, 7.0]))
        yield cls(float64), (u[:0], real(4), np.array(2.5))


class NormalBetween(Elementwise):
    """The quantile at u in (0, 1) of the normal distribution truncated to [low, high], all in f64;
    NaN where low > high.

    Probabilities are fractions of the tail beyond the bound nearest to 0, so that nothing
    underflows, and the smaller of the two tails at the result is inverted.
    """

    kinds = ""
    cheap = False
    infer = Arrival.infer  # type: ignore[assignment]

    def numpy(self, u: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.asarray(_between_formula(NUMPY, *np.broadcast_arrays(u, low, high)))

    def lower(self, b: Any, out: Type, *xs: Any) -> Any:
        return lifted_stepwise(b, _between_formula, *xs)

    def partials(self, out: Node, u: Node, low: Node, high: Node) -> tuple:
        def density(x: Node) -> Node:
            """Return the density at x divided by that at the result; 0 for an infinite x."""
            return exponential((out - x) * (out + x) * 0.5)

        def whole() -> Node:
            mass = erfc(low * math.sqrt(0.5)) - erfc(high * math.sqrt(0.5))
            return mass * exponential(out * out * 0.5) * math.sqrt(math.pi / 2)

        return (whole, lambda: (1 - u) * density(low), lambda: u * density(high))

    @classmethod
    def samples(cls) -> Any:
        u = (unit_samples(6) + 1) / 2
        yield cls(), (u, np.array(-2.0), np.array(2.0))
        yield cls(), (u, real(2, 1, low=-4, high=-1), real(6, low=0.5, high=3))
        yield cls(), (u[0], np.array(1.5), np.array(4.0))
        yield cls(), (u[:0], np.array(1.5), np.array(4.0))


def _between_formula(m: Any, u: Any, low: Any, high: Any) -> Any:
    mirrored = low + high < 0.0  # makes the bound further from 0 the upper one
    a = m.where(mirrored, -high, low)
    b = m.where(mirrored, -low, high)
    from_top = m.where(mirrored, u, 1.0 - u)
    across = a < 0.0  # 0 lies between the bounds
    base = _between_limited(m, m.where(across, 0.0, a))
    opposite = _between_limited(m, m.where(across, -a, 0.0))
    top = _between_limited(m, b)
    whole = 1.0 / sampler_mills_formula(
        base
    )  # all probabilities are fractions of the tail beyond the base
    beyond = _between_tail(m, base, top) * whole
    before = m.where(across, _between_tail(m, base, opposite) * whole, 1.0)
    inside = (2.0 - before) - beyond
    upper, lower = beyond + from_top * inside, before + (1.0 - from_top) * inside
    left = upper > 1.0
    energy = -sampler_log_formula(m, m.where(left, lower, upper))
    y = base + quantile_formula(m, base, m.where(energy > 1e-18, energy, 1e-18))
    x = m.where(left, -y, y)
    x = m.where(mirrored, -x, x)
    x = m.where(x < low, low, x)
    return m.where(low <= high, m.where(x > high, high, x), math.nan)


def _between_limited(m: Any, x: Any) -> Any:
    return m.where(x < FAR, x, FAR)


def _between_tail(m: Any, base: Any, x: Any) -> Any:
    """Return the normal tail beyond x >= base, divided by the density at base."""
    return sampler_exp_formula(m, (base - x) * (base + x) * 0.5) * sampler_mills_formula(x)
