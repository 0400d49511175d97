"""The exponential integrals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.ops.elementwise.functions import equal, less, where
from pullback.ops.elementwise.quadrature import half_line_quadrature, quadrature_column
from pullback.ops.elementwise.series import horner_series
from pullback.ops.elementwise.special_base import SpecialFunction, special_base_array
from pullback.ops.prelude import TABLE, Node, Text, op_functions

exp, log, log1p, absolute = op_functions("Exp", "Log", "Log1p", "Abs")
maximum, minimum = op_functions("Maximum", "Minimum")
NEAR = 0.7  # below it, series are used
FAR = 40.0  # above it, the asymptotic series is exact


class ExpIntegral(SpecialFunction):
    """The integral of exp(-x t) / t**order over t from 1 to infinity; NaN for x < 0."""

    order: int
    text = Text(("order",))
    points = ((0.2, 0.5, 1.5, 20.0),)

    def expand(self, x: Node) -> Node:
        made = where(less(x, NEAR), self._near(x), self._far(maximum(x, NEAR)))
        at_zero = 1 / (self.order - 1) if self.order > 1 else np.inf
        made = where(equal(x, 0), at_zero, where(equal(x, np.inf), 0, made))
        return where(less(x, 0), np.nan, made)

    def _near(self, x: Node) -> Node:
        terms = [(-1) ** k / ((k + 1) * math.factorial(k + 1)) for k in range(18)]
        made = x * horner_series(terms, x) - (log(x) + np.euler_gamma)
        for n in range(1, self.order):
            made = (exp(-x) - x * made) / n
        return made

    def _far(self, x: Node) -> Node:
        """Integrate over u = t - 1."""
        nodes, weights = map(special_base_array, half_line_quadrature(1 / 8))
        y = quadrature_column(x)
        scale = 1 / (y + self.order / 10)
        u = scale * nodes
        terms = exp(-(y * u) - log1p(u) * self.order) * (scale * weights)
        return exp(-x) * TABLE["Sum"]((terms.type.rank - 1,), False)(terms)

    def partials(self, out: Node, x: Node) -> tuple:
        if self.order == 1:
            return (lambda: -(exp(-x) / x),)
        return (lambda: -ExpIntegral(self.order - 1)(x),)

    @classmethod
    def samples(cls) -> Any:
        yield cls(2), tuple([np.array(p) for p in cls.points])


class ExpIntegralEi(SpecialFunction):
    """The integral of exp(t) / t from minus infinity to x, as a principal value for x > 0."""

    points = ((-3.0, -0.2, 0.3, 5.0, 60.0),)

    def expand(self, x: Node) -> Node:
        size = absolute(x)
        made = where(less(size, FAR), self._near(minimum(size, FAR)), self._far(maximum(size, FAR)))
        made = where(equal(x, 0), -np.inf, where(equal(size, np.inf), np.inf, made))
        return where(less(x, 0), -ExpIntegral(1)(size), made)

    def _near(self, x: Node) -> Node:
        terms = [1 / ((k + 1) * math.factorial(k + 1)) for k in range(115)]
        return log(x) + np.euler_gamma + x * horner_series(terms, x)

    def _far(self, x: Node) -> Node:
        """Sum the asymptotic series; factors of the exponential overflow later than it does."""
        t, half = 1 / x, exp(minimum(x, 800) * 0.5)
        return half * (horner_series([math.factorial(k) for k in range(40)], t) * t) * half

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: where(equal(x, np.inf), np.inf, exp(x) / x),)
