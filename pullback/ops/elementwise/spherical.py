"""Quotients that are regular at 0: sinc, spherical Bessel functions, (exp(x) - 1) / x."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.ops.elementwise.functions import equal, less, where
from pullback.ops.elementwise.power import IntegerPow
from pullback.ops.elementwise.special_base import SpecialFunction
from pullback.ops.prelude import Node, Text, constant_node, op_functions

exp, expm1, sin, cos, absolute = op_functions("Exp", "Expm1", "Sin", "Cos", "Abs")


class SphericalOrder(SpecialFunction, abstract=True):
    """A function whose derivatives are functions of other orders."""

    order: int
    text = Text(("order",))

    @classmethod
    def samples(cls) -> Any:
        for order in (0, 2):
            yield cls(order), tuple([np.array(p) for p in cls.points])


class SphericalJ(SphericalOrder):
    """The spherical Bessel function of the first kind."""

    points = ((-1.5, 0.0, 0.3, 2.7, 11.0),)

    def expand(self, x: Node) -> Node:
        n = self.order
        first = sin(x) / x
        second = (first - cos(x)) / x
        made = first if n == 0 else second
        for k in range(1, n):
            first, second = second, second * (2 * k + 1) / x - first
            made = second
        made = where(less(absolute(x), n + 1), spherical_series(n, x), made)
        return where(equal(absolute(x), np.inf), 0, made)

    def partials(self, out: Node, x: Node) -> tuple:
        n = self.order
        if n == 0:
            return (lambda: -SphericalJ(1)(x),)

        def slope() -> Node:
            below, above = SphericalJ(n - 1)(x), SphericalJ(n + 1)(x)
            return below * (n / (2 * n + 1)) - above * ((n + 1) / (2 * n + 1))

        return (slope,)


class ExpRel(SphericalOrder):
    """The integral of t**order exp(x t) over t from 0 to 1; (exp(x) - 1) / x for order 0."""

    points = ((-4.5, -0.5, 0.0, 0.3, 2.7, 11.0),)

    def expand(self, x: Node) -> Node:
        far = expm1(x) / x
        for k in range(1, self.order + 1):
            far = (exp(x) - far * k) / x
        near = where(less(x, 0), self._left(x), self._right(x))
        made = where(less(absolute(x), self.order + 2), near, far)
        return where(equal(x, np.inf), np.inf, made)

    def _right(self, x: Node) -> Node:
        """Return the power series, whose terms are positive for x > 0."""
        terms = [1 / (math.factorial(j) * (j + self.order + 1)) for j in range(40)]
        made = constant_node(0, x.type.dtype)
        for c in reversed(terms):
            made = made * x + c
        return made

    def _left(self, x: Node) -> Node:
        """Return exp(x) times a series whose terms are positive for x < 0."""
        made = constant_node(1, x.type.dtype)
        for j in reversed(range(1, 40)):
            made = made * -x / (self.order + 1 + j) + 1
        return made * exp(x) / (self.order + 1)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: ExpRel(self.order + 1)(x),)


def spherical_series(order: int, x: Node) -> Node:
    """Return the power series of SphericalJ."""
    term = x * x * -0.5
    made = constant_node(1, x.type.dtype)
    for k in reversed(range(1, 20 + order)):
        made = made * term / (k * (2 * order + 2 * k + 1)) + 1
    double_factorial = math.prod(range(1, 2 * order + 2, 2))
    return made * IntegerPow(order)(x) / double_factorial if order else made
