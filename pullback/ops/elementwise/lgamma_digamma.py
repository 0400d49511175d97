"""The logarithm of the gamma function and its derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.ops.elementwise.functions import equal, less, where
from pullback.ops.elementwise.power import IntegerPow
from pullback.ops.elementwise.series import RationalSeries, horner_series
from pullback.ops.elementwise.sine_of_pi import pi_from_integer
from pullback.ops.elementwise.special_base import SpecialFunction
from pullback.ops.prelude import Node, Text, Type, op_functions
from pullback.ops.samples import real

log, sin, tan, absolute, reciprocal = op_functions("Log", "Sin", "Tan", "Abs", "Reciprocal")
(maximum,) = op_functions("Maximum")
# lgamma(1 + s) / s for |s| <= 1/2, and lgamma(2 + s) / s for -1/2 <= s <= 1
LGAMMA_NEAR_1 = (
    -0.5772156649015329, 0.8224670334241132, -0.4006856343865406, 0.2705808084277935,
    -0.2073855510262953, 0.16955717699509998, -0.14404989701106719, 0.1255096697597847,
    -0.1113342530365414, 0.10009944506030896, -0.09095442301348973, 0.08335423437020126,
    -0.07692423568567124, 0.07142491150665906, -0.06678275881746833, 0.0626116167474043,
    -0.057737256640806416, 0.054501409023364235, -0.059850048562680856, 0.057003000096539545,
    -0.014509338086091672, 0.01333577663873192, -0.14497971020532596, 0.14011729595820724,
    0.1528715168258553, -0.14857260899606312, -0.22471180158915516, 0.21762817640022097,
)  # fmt: skip
LGAMMA_NEAR_2 = (
    0.42278433509846713, 0.3224670334241132, -0.06735230105319796, 0.020580808427787502,
    -0.007385551028687111, 0.0028905103306125996, -0.0011927539111748094, 0.0005096695270786523,
    -0.00022315476914202685, 9.945749459386184e-05, -4.4926118904862264e-05, 2.050723289467849e-05,
    -9.440199753274835e-06, 4.375472004777847e-06, -2.0371195482358996e-06, 9.511969731319312e-07,
    -4.5041997201473635e-07, 2.2102374422908605e-07, -1.0784595012220329e-07,
    4.4561979632842775e-08, -1.2394516911278076e-08, 1.6305432352127331e-09,
)  # fmt: skip
# What Stirling's formula for lgamma(z) leaves, times z, as a function of 1/z**2 for z >= 3
STIRLING_REST = RationalSeries(
    (
        0.08333333333333333, 1.190372601136737, 4.904304929810067, 6.687829743587257,
        2.55902464544678, 0.13367152539339597,
    ),
    (
        1.0, 14.317804546974166, 59.31939549976764, 82.10205291946137, 32.972253304143855,
        2.2233017975416103,
    ),
)  # fmt: skip
# digamma(z) / (z - zero), as a function of z - zero for 1 <= z <= 3
DIGAMMA_NEAR = RationalSeries(
    (
        0.9676722454476212, 1.2255666297255536, 0.5624317455268938, 0.11572284710662839,
        0.010516080035800807, 0.0003373596241202296, 1.0009252821564095e-06, -6.44945469682597e-09,
    ),
    (
        1.0, 1.72406494715307, 1.1029400183039932, 0.3331049278900659, 0.049310873346179555,
        0.003292147207394242, 7.326934599572805e-05,
    ),
)  # fmt: skip
DIGAMMA_ZERO = (1.4616321449683622, 9.549995429965697e-17)  # its leading digits and the rest
# (digamma(z) - log(z) + 1/(2 z)) z**2, as a function of 1/z**2 for z >= 3
DIGAMMA_FAR = RationalSeries(
    (
        -0.08333333333333333, -1.6484960869112197, -10.02860392358568, -22.230592481011186,
        -16.301506194753312, -2.425297299053679, 0.0535991200270893,
    ),
    (
        1.0, 19.881953042934615, 122.28382333971284, 278.0987324354707, 218.50809713200496,
        42.27142219678065,
    ),
)  # fmt: skip
# Bernoulli numbers B2, B4, ... of the asymptotic series
BERNOULLI = tuple(
    p / q
    for p, q in ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510))
)
LARGEST_ORDER = 120  # beyond it, coefficients are too large for f64
SHIFT = 10  # arguments are shifted this far to the right, where the series converge


class LgammaFamily(SpecialFunction, abstract=True):
    """Functions with poles at 0, -1, -2, ..."""

    points = ((0.4, 1.3, 2.7, 4.5, -0.3, -2.7),)


class Lgamma(LgammaFamily):
    """log |gamma(x)|."""

    def expand(self, x: Node) -> Node:
        left = less(x, 0)
        z = where(left, 1 - x, x)
        right = lgamma_of_positive(z)
        other = log(math.pi / absolute(sin(pi_from_integer(x) * math.pi))) - right
        return where(equal(x, -np.inf), np.inf, where(left, other, right))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Digamma()(x),)


class Digamma(LgammaFamily):
    """The derivative of log |gamma(x)|; NaN at negative integers, inf at -0.0 and -inf at 0.0."""

    def expand(self, x: Node) -> Node:
        left = less(x, 0)
        z = where(left, 1 - x, x)
        below = less(z, 1)
        y = where(below, z + 1, z)
        gap = maximum(y - DIGAMMA_ZERO[0], -1) - DIGAMMA_ZERO[1]  # XLA would add the constants
        square = reciprocal(y * y)
        far = log(y) - 0.5 / y + DIGAMMA_FAR.at(square) * square
        right = where(less(y, 3), DIGAMMA_NEAR.at(gap) * gap, far)
        right = where(below, right - reciprocal(z), right)
        offset = pi_from_integer(x)
        other = right - math.pi / tan(offset * math.pi)
        other = where(equal(offset, 0), np.nan, other)
        return where(left, other, where(equal(x, np.inf), np.inf, right))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Polygamma(1)(x),)


class Polygamma(LgammaFamily):
    """The derivative of order `order` (1 to 120) of Digamma."""

    order: int
    text = Text(("order",))

    def infer(self, x: Type) -> Type:
        if not 1 <= self.order <= LARGEST_ORDER:
            what = f"order must be between 1 and {LARGEST_ORDER}, got {self.order}"
            raise ArgumentError(what, hint="See Digamma." if self.order < 1 else None)
        return super().infer(x)

    def expand(self, x: Node) -> Node:
        n = self.order
        left = less(x, 0)
        z = where(left, 1 - x, x)
        steps = SHIFT + n
        inverse = reciprocal(z + steps)
        terms = [
            c * polygamma_factorial_ratio(2 * k + n - 1, 2 * k) for k, c in enumerate(BERNOULLI, 1)
        ]
        square = inverse * inverse
        series = horner_series(terms, square) * square + inverse * (math.factorial(n) / 2)
        right = (series + math.factorial(n - 1)) * IntegerPow(n)(inverse)
        for k in reversed(range(steps)):  # the smallest terms first
            right = right + math.factorial(n) * IntegerPow(-n - 1)(z + k)
        right, mirrored = (right, -right) if n % 2 else (-right, -right)
        turn = (
            horner_series(polygamma_cotangent(n), 1 / tan(pi_from_integer(x) * math.pi)) * math.pi
        )
        return where(left, mirrored - turn, right)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Polygamma(self.order + 1)(x),)

    @classmethod
    def samples(cls) -> Any:
        for order in (1, 2, 3):
            yield cls(order), (real(5, low=0.4, high=4.0),)
            yield cls(order), (np.array([-0.3, -1.4, 0.4]),)


def lgamma_of_positive(z: Node) -> Node:
    """Return log(gamma(z)) for z >= 0."""
    leading = (z - 0.5) * (log(z) - 1) + (math.log(2 * math.pi) - 1) / 2
    far = where(equal(z, np.inf), np.inf, leading + lgamma_stirling_rest(z))
    return where(less(z, 3), lgamma_near_zero(z), far)


def lgamma_near_zero(z: Node) -> Node:
    """Return log(gamma(z)) for 0 <= z <= 3."""
    below = less(z, 0.5)
    y = where(below, z + 1, z)
    first = horner_series(LGAMMA_NEAR_1, y - 1) * (y - 1)
    first = where(equal(y, 1), 0, first)  # not -0.0
    second = horner_series(LGAMMA_NEAR_2, y - 2) * (y - 2)
    made = where(less(y, 1.5), first, second)
    return where(below, made - log(z), made)


def lgamma_stirling_rest(z: Node) -> Node:
    """Return lgamma(z) - ((z - 1/2) log z - z + log(2 pi) / 2) for z >= 3."""
    inverse = reciprocal(z)
    return STIRLING_REST.at(inverse * inverse) * inverse


def polygamma_factorial_ratio(n: int, k: int) -> float:
    """n! / k!"""
    return math.factorial(n) / math.factorial(k)


def polygamma_cotangent(n: int) -> list[float]:
    """The derivative of order n of cot(pi x), as a polynomial in cot(pi x)."""
    made = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        made = made.deriv() * np.polynomial.Polynomial([-math.pi, 0.0, -math.pi])
    return made.coef.tolist()
