"""The truncated normal distribution, with bounds arbitrarily far from 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import float64
from pullback.graph.types import show
from pullback.ops.elementwise.base import Elementwise
from pullback.ops.prelude import Node, Type, broadcast_types, op_functions
from pullback.ops.random.formulas import exp, log, mills, quantile
from pullback.ops.random.stepwise import NUMPY, lifted
from pullback.ops.samples import real, unit

exponential, erfc = op_functions("Exp", "Erfc")
FAR = 1e150  # larger numbers have infinite squares


class NormalBetween(Elementwise):
    """The quantile at u in (0, 1) of the normal distribution truncated to [low, high], all in f64;
    NaN where low > high.

    Probabilities are fractions of the tail beyond the bound nearest to 0, so that nothing
    underflows, and the smaller of the two tails at the result is inverted.
    """

    kinds = ""
    cheap = False

    def infer(self, *xs: Type) -> Type:
        if any(x.dtype is not float64 for x in xs):
            raise DTypeError(f"operands must be f64, got {show(xs)}", code="E2005")
        return Type(broadcast_types(*xs), float64)

    def numpy(self, u: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.asarray(_between(NUMPY, *np.broadcast_arrays(u, low, high)))

    def lower(self, b: Any, out: Type, *xs: Any) -> Any:
        return lifted(b, _between, *xs)

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
        u = (unit(6) + 1) / 2
        yield cls(), (u, np.array(-2.0), np.array(2.0))
        yield cls(), (u, real(2, 1, low=-4, high=-1), real(6, low=0.5, high=3))
        yield cls(), (u[0], np.array(1.5), np.array(4.0))
        yield cls(), (u[:0], np.array(1.5), np.array(4.0))


def _between(m: Any, u: Any, low: Any, high: Any) -> Any:
    mirrored = low + high < 0.0  # makes the bound further from 0 the upper one
    a = m.where(mirrored, -high, low)
    b = m.where(mirrored, -low, high)
    from_top = m.where(mirrored, u, 1.0 - u)
    across = a < 0.0  # 0 lies between the bounds
    base = _limited(m, m.where(across, 0.0, a))
    opposite = _limited(m, m.where(across, -a, 0.0))
    top = _limited(m, b)
    whole = 1.0 / mills(base)  # all probabilities are fractions of the tail beyond the base
    beyond = _tail(m, base, top) * whole
    before = m.where(across, _tail(m, base, opposite) * whole, 1.0)
    inside = (2.0 - before) - beyond
    upper, lower = beyond + from_top * inside, before + (1.0 - from_top) * inside
    left = upper > 1.0
    energy = -log(m, m.where(left, lower, upper))
    y = base + quantile(m, base, m.where(energy > 1e-18, energy, 1e-18))
    x = m.where(left, -y, y)
    x = m.where(mirrored, -x, x)
    x = m.where(x < low, low, x)
    return m.where(low <= high, m.where(x > high, high, x), math.nan)


def _limited(m: Any, x: Any) -> Any:
    return m.where(x < FAR, x, FAR)


def _tail(m: Any, base: Any, x: Any) -> Any:
    """Return the normal tail beyond x >= base, divided by the density at base."""
    return exp(m, (base - x) * (base + x) * 0.5) * mills(x)
