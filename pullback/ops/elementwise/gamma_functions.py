"""The logarithm of the gamma function and its derivatives, computed in f64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.dtypes import DType, float64
from pullback.ops.elementwise.base import Transcendental
from pullback.ops.elementwise.error_functions import error_function_by_element, horner_series
from pullback.ops.elementwise.functions import both, either, equal, less, where
from pullback.ops.elementwise.power import IntegerPow
from pullback.ops.prelude import Node, Text, Type, op_functions
from pullback.ops.samples import real

log, sin, tan, absolute = op_functions("Log", "Sin", "Tan", "Abs")
reciprocal, rounded = op_functions("Reciprocal", "Round")
# Bernoulli numbers B2, B4, ... of the asymptotic series
BERNOULLI = tuple(
    p / q
    for p, q in ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510))
)
_LARGEST_ORDER = 120  # beyond it, coefficients are too large for f64
SHIFT = 10  # arguments are shifted this far to the right, where the series converge


class GammaFamily(Transcendental, abstract=True):
    """Functions with poles at 0, -1, -2, ...; f32 has too few digits for their sums."""

    domain = (0.3, 5.0)
    singular = True

    def computed_in(self, dtype: DType) -> DType:
        return float64

    @classmethod
    def samples(cls) -> Any:
        yield from super().samples()
        yield cls(), (np.array([-0.3, -1.4, -2.7, 0.4]),)


def log_gamma(x: float) -> float:
    pole = math.isinf(x) or (x <= 0 and x == math.floor(x))
    return math.inf if pole else math.lgamma(x)


class Lgamma(GammaFamily):
    """log |gamma(x)|."""

    ufunc = error_function_by_element(log_gamma)

    def expand(self, x: Node) -> Node:
        left, z = reflected_for_gamma(x)
        small = less(z, SHIFT)
        start, y = where(small, z, 1), where(small, z + SHIFT, z)
        product = start
        for k in range(1, SHIFT):
            product = product * (start + k)
        terms = [c / (2 * k * (2 * k - 1)) for k, c in enumerate(BERNOULLI, 1)]
        series = horner_series(terms, reciprocal(y * y)) / y
        stirling = (y - 0.5) * (log(y) - 1) + (math.log(2 * math.pi) - 1) / 2 + series
        right = where(small, stirling - log(product), stirling)
        right = where(either(equal(z, 1), equal(z, 2)), 0, right)
        other = math.log(math.pi) - log(absolute(sin(from_integer(x) * math.pi))) - right
        return where(equal(x, -np.inf), np.inf, where(left, other, right))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Digamma()(x),)


class Digamma(GammaFamily):
    """The derivative of log |gamma(x)|; NaN at negative integers, inf at -0.0 and -inf at 0.0."""

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return polygamma(0, x.astype(np.float64)).astype(x.dtype)

    def expand(self, x: Node) -> Node:
        left, z = reflected_for_gamma(x)
        y = z + SHIFT
        terms = [-c / (2 * k) for k, c in enumerate(BERNOULLI, 1)]
        square = reciprocal(y * y)
        right = log(y) - 0.5 / y + horner_series(terms, square) * square
        for k in range(SHIFT):
            right = right - reciprocal(z + k)
        offset = from_integer(x)
        other = right - math.pi / tan(offset * math.pi)
        other = where(both(equal(offset, 0), less(x, 0)), np.nan, other)
        return where(left, other, right)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Polygamma(1)(x),)


class Polygamma(GammaFamily):
    """The derivative of order `order` (1 to 120) of Digamma."""

    order: int
    text = Text(("order",))

    def infer(self, x: Type) -> Type:
        if not 1 <= self.order <= _LARGEST_ORDER:
            what = f"order must be between 1 and {_LARGEST_ORDER}, got {self.order}"
            raise ArgumentError(what, hint="See Digamma." if self.order < 1 else None)
        return super().infer(x)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return polygamma(self.order, x.astype(np.float64)).astype(x.dtype)

    def expand(self, x: Node) -> Node:
        n = self.order
        left, z = reflected_for_gamma(x)
        steps = SHIFT + n
        y = z + steps
        inverse = reciprocal(y)
        powers = IntegerPow(n)(inverse)
        terms = [c * factorial_ratio(2 * k + n - 1, 2 * k) for k, c in enumerate(BERNOULLI, 1)]
        square = inverse * inverse
        series = horner_series(terms, square) * square + inverse * (math.factorial(n) / 2)
        right = (series + math.factorial(n - 1)) * powers
        for k in range(steps):
            right = right + IntegerPow(-n - 1)(z + k) * math.factorial(n)
        right, mirrored = (right, -right) if n % 2 else (-right, -right)
        turn = horner_series(cotangent_derivative(n), 1 / tan(from_integer(x) * math.pi)) * math.pi
        return where(left, mirrored - turn, right)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Polygamma(self.order + 1)(x),)

    @classmethod
    def samples(cls) -> Any:
        for order in (1, 2, 3):
            yield cls(order), (real(5, low=0.4, high=4.0),)
            yield cls(order), (np.array([-0.3, -1.4, 0.4]),)


def reflected_for_gamma(x: Node) -> tuple[Node, Node]:
    """Return where x < 1/2, and x reflected to the right of it."""
    left = less(x, 0.5)
    return left, where(left, 1 - x, x)


def from_integer(x: Node) -> Node:
    """Return x minus the nearest integer: circular functions of pi x change at most their sign."""
    return where(equal(x, 0), x, x - rounded(x))  # at -0.0 the pole has the other sign


def factorial_ratio(n: int, k: int) -> float:
    """n! / k!"""
    return math.factorial(n) / math.factorial(k)


def cotangent_derivative(n: int) -> list[float]:
    """The derivative of order n of cot(pi x), as a polynomial in cot(pi x)."""
    made = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        made = made.deriv() * np.polynomial.Polynomial([-math.pi, 0.0, -math.pi])
    return made.coef.tolist()


def polygamma(n: int, x: np.ndarray) -> np.ndarray:
    """Compute the polygamma function by recurrence and the Euler-Maclaurin sum."""
    left = x < 0.5
    z = np.where(left, 1 - x, x)
    total = np.zeros_like(z)
    for _ in range(40):
        total += math.factorial(n) * z ** -(n + 1.0)
        z = z + 1
    total += math.factorial(n) / (2 * z ** (n + 1.0))
    total += -np.log(z) if n == 0 else math.factorial(n - 1) / z**n
    for k, c in enumerate(BERNOULLI[:5], 1):
        total += c * factorial_ratio(2 * k + n - 1, 2 * k) / z ** (2.0 * k + n)
    right = (-1) ** (n + 1) * total
    offset = np.where(x == 0, x, x - np.rint(x))
    cotangent = 1 / np.tan(np.pi * offset)
    *rest, first = cotangent_derivative(n)
    turn = np.full_like(x, first)
    for c in reversed(rest):
        turn = turn * cotangent + c
    other = (-1) ** n * right - np.pi * turn
    if n == 0:
        other = np.where((offset == 0) & (x < 0), np.nan, other)
    return np.where(left, other, right)
