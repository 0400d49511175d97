"""The incomplete beta function, by quadrature over the smaller tail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.ops.elementwise.beta_functions import (
    DigammaDifference,
    beta_of_positive,
    log_beta_of_positive,
)
from pullback.ops.elementwise.functions import (
    both,
    either,
    equal,
    greater,
    greater_equal,
    guarded,
    less,
    negated,
    where,
)
from pullback.ops.elementwise.lgamma_digamma import lgamma_stirling_rest
from pullback.ops.elementwise.quadrature import half_line_quadrature, quadrature_column
from pullback.ops.elementwise.series import log1p_minus_series
from pullback.ops.elementwise.special_base import (
    SpecialComposite,
    SpecialFunction,
    special_base_array,
)
from pullback.ops.prelude import TABLE, Node, Text, op_functions

exp, expm1, log, log1p, sqrt = op_functions("Exp", "Expm1", "Log", "Log1p", "Sqrt")
power, minimum, maximum, reciprocal = op_functions("Pow", "Minimum", "Maximum", "Reciprocal")
is_nan, is_infinite, stop_gradient = op_functions("IsNan", "IsInf", "StopGradient")
STEP = 1 / 8  # of the quadrature
POINTS = ((0.3, 1.5, 4.0, 30.0), (0.7, 2.5, 0.6, 20.0), (0.2, 0.6, 0.7, 0.55))


class BetaInc(SpecialFunction):
    """The integral of t**(a-1) (1-t)**(b-1) / beta(a, b) from 0 to x, the distribution function."""

    points = POINTS

    def expand(self, a: Node, b: Node, x: Node) -> Node:
        side = BetaSide(a, b, x)
        tail = side.integral(None) * beta_factor(a, b, x)
        return beta_at_ends(a, b, x, where(side.below, tail, 1 - tail))

    def partials(self, out: Node, a: Node, b: Node, x: Node) -> tuple:
        return (
            lambda: BetaIncSlope(0)(a, b, x),
            lambda: BetaIncSlope(1)(a, b, x),
            lambda: BetaPdf()(a, b, x),
        )


class BetaIncSlope(SpecialComposite):
    """The derivative of BetaInc with respect to a or b (`operand` is 0 or 1), 0 at x = 0 and 1."""

    operand: int
    text = Text(("operand",))
    points = POINTS

    def formula(self, a: Node, b: Node, x: Node) -> Node:
        inside = both(greater(x, 0), less(x, 1))
        y = where(inside, x, 0.5)
        side = BetaSide(a, b, y)
        tail = side.integral(self.operand) * (BetaPdf()(a, b, y) * (y * (1 - y)))
        return where(inside, where(side.below, tail, -tail), 0)

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), tuple([np.array(p) for p in cls.points])


class BetaPdf(SpecialFunction):
    """x**(a-1) (1-x)**(b-1) / beta(a, b), the density of the beta distribution."""

    points = POINTS

    def expand(self, a: Node, b: Node, x: Node) -> Node:
        made = beta_factor(a, b, x) / (x * (1 - x))
        for edge, shape, other in ((0, a, b), (1, b, a)):
            limit = where(less(shape, 1), np.inf, where(equal(shape, 1), other, 0))
            made = where(equal(x, edge), limit, made)
        return made

    def partials(self, out: Node, a: Node, b: Node, x: Node) -> tuple:
        return (
            lambda: guarded(out, log(x) + DigammaDifference()(a, b)),
            lambda: guarded(out, log1p(-x) + DigammaDifference()(b, a)),
            lambda: guarded(out, (a - 1) / x - (b - 1) / (1 - x)),
        )


class BetaSide:
    """The tail to integrate over: below x where x is below the mean, else its mirror image."""

    def __init__(self, a: Node, b: Node, x: Node) -> None:
        rest = 1 - x
        self.below = less(x * b, rest * a)
        self.a, self.b = where(self.below, a, b), where(self.below, b, a)
        self.x, self.rest = where(self.below, x, rest), where(self.below, rest, x)

    def integral(self, operand: int | None) -> Node:
        """Return the integral of t**(a-1) (1-t)**(b-1) up to x, with t = x exp(-y), divided by
        x**a (1-x)**b; of the derivative of the logarithm of the density, if an operand is given."""
        a, b, x, rest = (quadrature_column(v) for v in (self.a, self.b, self.x, self.rest))
        nodes, weights = map(special_base_array, half_line_quadrature(STEP))
        odds = x / rest
        spread = minimum(a, sqrt(b * x) / rest)
        scale = stop_gradient(reciprocal(maximum(a - b * odds, 0) + spread))
        y = scale * nodes
        gap = expm1(-y)
        terms = exp((b - 1) * log1p(-(odds * gap)) - a * y) * (scale * weights) / rest
        if operand is not None:
            # the first parameter of this side is the other one where it is mirrored
            first = log(x) - y + DigammaDifference()(a, b)
            second = log(rest) + log1p(-(odds * gap)) + DigammaDifference()(b, a)
            forward, mirrored = (first, second) if operand == 0 else (second, first)
            terms = terms * where(quadrature_column(self.below), forward, mirrored)
        return TABLE["Sum"]((terms.type.rank - 1,), False)(terms)


def beta_factor(a: Node, b: Node, x: Node) -> Node:
    """Return x**a (1-x)**b / beta(a, b)."""
    rest = 1 - x
    low, high = minimum(a, b), maximum(a, b)
    p, q = maximum(a, 3), maximum(b, 3)
    shift = q * x - p * rest
    exponent = p * log1p_minus_series(shift / p) + q * log1p_minus_series(-(shift / q))
    corrections = lgamma_stirling_rest(p + q) - lgamma_stirling_rest(p) - lgamma_stirling_rest(q)
    far = exp(exponent + corrections) * sqrt(p / (p + q) * q * (0.5 / math.pi))
    logs = a * log(x) + b * log1p(-x)
    middle = exp(logs - log_beta_of_positive(low, maximum(high, 3)))
    lost = (1 - maximum(rest, 0)) - x  # XLA would simplify 1 - (1 - x)
    near = power(x, a) * power(rest, b) * (1 + b * lost / rest) / beta_of_positive(a, b)
    # where neither factor overflows, powers are more precise than a large exponent
    far = where(both(less(a + b, 160), less(exponent, -1)), near, far)
    made = where(less(high, 100), near, middle)
    return where(greater_equal(low, 3), far, made)


def beta_at_ends(a: Node, b: Node, x: Node, value: Node) -> Node:
    """Return the value inside the domain, and its limits at the ends."""
    value = where(either(equal(x, 0), either(equal(b, 0), equal(a, np.inf))), 0, value)
    value = where(either(equal(x, 1), either(equal(a, 0), equal(b, np.inf))), 1, value)
    value = where(both(equal(x, 0), greater(b, 0)), 0, value)
    inside = both(both(greater_equal(a, 0), greater_equal(b, 0)),
                  both(greater_equal(x, 0), greater_equal(1, x)))  # fmt: skip
    same = both(equal(a, b), either(equal(a, 0), is_infinite(a)))
    return where(either(same, negated(inside)), np.nan, value)
