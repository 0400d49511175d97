"""Integrals of sines and cosines: sine and cosine integrals, and those of Fresnel.

Near 0 they are power series. Elsewhere the part that oscillates is split off: what is left are two
integrals of decaying functions, which a quadrature computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.graph.dtypes import float64
from pullback.ops.elementwise.functions import equal, less, where
from pullback.ops.elementwise.quadrature import half_line_quadrature, quadrature_column
from pullback.ops.elementwise.series import horner_series
from pullback.ops.elementwise.sine_of_pi import cosine_of_pi, sine_of_pi
from pullback.ops.elementwise.special_base import SpecialFunction, special_base_array
from pullback.ops.prelude import TABLE, Node, Text, op_functions

exp, log, sin, cos = op_functions("Exp", "Log", "Sin", "Cos")
absolute, maximum, minimum, floor = op_functions("Abs", "Maximum", "Minimum", "Floor")
NEAR = 3.0  # below it, the series of Si and Ci are used
SHORT = 1.5  # below it, those of Fresnel's integrals


class SineIntegral(SpecialFunction):
    """The integral of sin(t) / t from 0 to x."""

    points = ((-4.0, 0.5, 2.0, 20.0),)

    def expand(self, x: Node) -> Node:
        size = absolute(x)
        near = minimum(size, NEAR)
        terms = [(-1) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(14)]
        series = near * horner_series(terms, near * near)
        y = minimum(maximum(size, NEAR), 1e300)
        f, g = _oscillating_auxiliary(y)
        far = math.pi / 2 - (f * cos(y) + g * sin(y))
        made = where(less(size, NEAR), series, where(equal(size, np.inf), math.pi / 2, far))
        return where(equal(x, x), where(less(x, 0), -made, made), np.nan)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: TABLE["SphericalJ"](0)(x),)


class CosineIntegral(SpecialFunction):
    """Euler's constant, plus log(abs(x)), plus the integral of (cos(t) - 1) / t from 0 to x."""

    points = ((-0.1, 0.5, 2.0, 20.0),)

    def expand(self, x: Node) -> Node:
        size = absolute(x)
        near = minimum(size, NEAR)
        terms = [(-1) ** k / (2 * k * math.factorial(2 * k)) for k in range(1, 15)]
        square = near * near
        series = log(near) + np.euler_gamma + square * horner_series(terms, square)
        y = minimum(maximum(size, NEAR), 1e300)
        f, g = _oscillating_auxiliary(y)
        far = where(equal(size, np.inf), 0, f * sin(y) - g * cos(y))
        return where(less(size, NEAR), series, where(equal(x, x), far, np.nan))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: where(equal(absolute(x), np.inf), 0, cos(x) / x),)


class FresnelIntegral(SpecialFunction):
    """The integral of sin(pi t**2 / 2), or with `cosine` of cos(pi t**2 / 2), from 0 to x."""

    cosine: bool = False
    text = Text(("cosine",))
    points = ((-2.0, 0.5, 1.0, 3.5),)

    def expand(self, x: Node) -> Node:
        size = absolute(x)
        near = minimum(size, SHORT)
        square = near * near
        series = near * horner_series(_fresnel_series(self.cosine), square * square)
        if not self.cosine:
            series = series * square
        y = minimum(maximum(size, SHORT), 1e100)
        f, g = _fresnel_auxiliary(y)
        c, s = _fresnel_turns(y)
        far = f * s - g * c if self.cosine else -(f * c + g * s)
        far = where(equal(size, np.inf), 0, far) + 0.5
        made = where(less(size, SHORT), series, far)
        return where(equal(x, x), where(less(x, 0), -made, made), np.nan)

    def partials(self, out: Node, x: Node) -> tuple:
        def slope() -> Node:
            made = _fresnel_turns(where(less(absolute(x), np.inf), x, np.nan))
            return made[0] if self.cosine else made[1]

        return (slope,)

    @classmethod
    def samples(cls) -> Any:
        yield from [(cls(c), (np.array(cls.points[0]),)) for c in (False, True)]


def _fresnel_series(cosine: bool) -> list[float]:
    """Return the coefficients in powers of x**4, after the factor x or x**3."""
    first = 0 if cosine else 1
    half = math.pi / 2
    return [
        (-1) ** k * half ** (2 * k + first)
        / (math.factorial(2 * k + first) * (4 * k + 2 * first + 1))
        for k in range(20)
    ]  # fmt: skip


def _fresnel_turns(x: Node) -> tuple[Node, Node]:
    """Return the cosine and sine of pi x**2 / 2.

    Of the square of x = n + r, with a whole number n, only the remainder by 4 counts. That of
    n (2 r) is exact for the first bits of r.
    """
    n = floor(absolute(x))
    r = absolute(x) - n
    parts = 2.0 ** (26 if x.type.dtype is float64 else 11)
    first = floor(r * parts) * (1 / parts)
    low = _fresnel_modulo_4(n)
    turns = _fresnel_modulo_4(n * (first * 2)) + (
        _fresnel_modulo_4(low * low) + (n * ((r - first) * 2) + r * r)
    )
    turns = turns * 0.5
    return cosine_of_pi(turns), sine_of_pi(turns)


def _fresnel_modulo_4(x: Node) -> Node:
    return x - floor(x * 0.25) * 4


def _oscillating_integrals(
    x: Node, scale: Node, f: Callable[[Node], tuple[Node, Node]]
) -> tuple[Node, Node]:
    """Return the integrals of two functions from 0 to infinity that decay on a scale."""
    nodes, weights = map(special_base_array, half_line_quadrature(1 / 16))
    size = quadrature_column(scale)
    made = []
    for terms in f(size * nodes):
        total = terms * (size * weights)
        made.append(TABLE["Sum"]((total.type.rank - 1,), False)(total))
    return made[0], made[1]


def _oscillating_auxiliary(x: Node) -> tuple[Node, Node]:
    """Return the integrals of exp(-x t) / (1 + t**2), and of t times it."""

    def terms(t: Node) -> tuple[Node, Node]:
        decay = exp(-(quadrature_column(x) * t)) / (t * t + 1)
        return decay, t * decay

    return _oscillating_integrals(x, 1 / x, terms)


def _fresnel_auxiliary(x: Node) -> tuple[Node, Node]:
    """Return the integrals of exp(-pi x**2 u**2 / 2) / (1 + u**4), and of u**2 times it, with the
    factor sqrt(2) / pi."""

    def terms(u: Node) -> tuple[Node, Node]:
        square = u * u
        z = quadrature_column(x)
        decay = exp(-(z * z * square) * (math.pi / 2)) / (square * square + 1)
        decay = decay * (math.sqrt(2) / math.pi)
        return decay, decay * square

    return _oscillating_integrals(x, 1 / x, terms)
