"""The sinc function and its derivatives."""

from __future__ import annotations

import math

import numpy as np

from pullback.ops.elementwise.functions import equal, less, where
from pullback.ops.elementwise.series import horner_series
from pullback.ops.elementwise.sine_of_pi import cosine_of_pi, sine_of_pi
from pullback.ops.elementwise.spherical import SphericalOrder
from pullback.ops.prelude import Node, op_functions

(absolute,) = op_functions("Abs")


class Sinc(SphericalOrder):
    """The derivative of an order of sin(pi x) / (pi x), which is 1 at 0 and 0 at other integers."""

    points = ((-1.5, 0.0, 0.3, 2.7),)

    def expand(self, x: Node) -> Node:
        waves = (sine_of_pi(x), cosine_of_pi(x))
        made = waves[0] / (x * math.pi)
        for n in range(1, self.order + 1):
            wave = waves[n % 2] * (math.pi ** (n - 1) * (-1) ** (n // 2))
            made = (wave - made * n) / x
        made = where(less(absolute(x), 0.4 * (self.order + 1)), self._series(x), made)
        return where(equal(absolute(x), np.inf), 0, made)

    def _series(self, x: Node) -> Node:
        """Return the power series about 0."""
        n = self.order
        terms = [(-1) ** k * math.pi ** (2 * k) / ((2 * k + 1) * math.factorial(2 * k - n))
                 for k in range(-(-n // 2), 20 + n)]  # fmt: skip
        made = horner_series(terms, x * x)
        return made * x if n % 2 else made

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Sinc(self.order + 1)(x),)
