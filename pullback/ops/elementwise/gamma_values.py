"""The gamma function itself."""

from __future__ import annotations

import math

import numpy as np

from pullback.ops.elementwise.functions import both, equal, guarded, less, less_equal, where
from pullback.ops.elementwise.lgamma_digamma import (
    LGAMMA_NEAR_2,
    Digamma,
    LgammaFamily,
    lgamma_stirling_rest,
)
from pullback.ops.elementwise.series import exp_series, horner_series
from pullback.ops.elementwise.sine_of_pi import (
    cosine_of_pi,
    is_odd_of_pi,
    pi_from_integer,
    sine_of_pi,
)
from pullback.ops.prelude import Node, constant_node, op_functions

exp, power, absolute, floor = op_functions("Exp", "Pow", "Abs", "Floor")
maximum, minimum = op_functions("Maximum", "Minimum")


class Gamma(LgammaFamily):
    """The gamma function; NaN at negative integers, inf at 0.0 and -inf at -0.0."""

    def expand(self, x: Node) -> Node:
        left = less(x, 0)
        right = gamma_of_positive(absolute(x))
        other = -math.pi / (x * sine_of_pi(x) * right)
        other = where(equal(pi_from_integer(x), 0), np.nan, other)
        return where(left, other, where(equal(x, 0), 1 / x, right))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: guarded(out, Digamma()(x)),)


class Rgamma(LgammaFamily):
    """1 / gamma(x), which is 0 at 0 and at negative integers, and nowhere infinite on the right."""

    def expand(self, x: Node) -> Node:
        made = gamma_of_positive(maximum(x, 1 - x))
        return where(less(x, 0.5), sine_of_pi(x) * made * (1 / math.pi), 1 / made)

    def partials(self, out: Node, x: Node) -> tuple:
        def slope() -> Node:
            z = minimum(x, 0.5)  # the reflected side, where digamma has poles and the value zeros
            other = cosine_of_pi(z) - sine_of_pi(z) * (1 / math.pi) * Digamma()(1 - z)
            right = -guarded(out, Digamma()(maximum(x, 0.5)))
            return where(less(x, 0.5), other * Gamma()(1 - z), right)

        return (slope,)


def gamma_of_positive(z: Node) -> Node:
    """Return gamma(z) for z > 0."""
    # one or two steps of the recurrence lead to [1.5, 3]
    steps = where(less(z, 0.5), z * (z + 1), where(less(z, 1.5), z, 1))
    offset = where(less(z, 0.5), z, where(less(z, 1.5), z - 1, minimum(z, 3) - 2))
    near = exp(horner_series(LGAMMA_NEAR_2, offset) * offset) / steps
    y = minimum(maximum(z, 3), 200)
    root = power(y, (y - 0.5) * 0.5)  # its square may overflow where the result does not
    # XLA would make one exponential out of two
    rest = exp_series(lgamma_stirling_rest(y), math.sqrt(2 * math.pi))
    far = root * (exp(-y) * rest) * root
    return where(less(z, 3), near, where(equal(z, z), far, z))


def gamma_value_at_next(x: Node) -> Node:
    """Return gamma(x + 1), without rounding x + 1 where x is large."""
    near = less(absolute(x), 1)
    value = Gamma()(where(near, x + 1, x))
    return where(near, value, value * x)


def is_pole_of_gamma_value(x: Node) -> Node:
    """Return where x is 0 or a negative integer."""
    return both(less_equal(x, 0), equal(x, floor(x)))


def gamma_value_sign(x: Node) -> Node:
    """Return the sign of gamma(x), 1 or -1."""
    return where(both(less(x, 0), is_odd_of_pi(floor(x))), -1, constant_node(1, x.type.dtype))
