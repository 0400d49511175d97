"""The beta function, its logarithm and binomial coefficients."""

from __future__ import annotations

import math

import numpy as np

from pullback.ops.elementwise.functions import (
    both,
    either,
    equal,
    greater,
    greater_equal,
    guarded,
    less,
    where,
)
from pullback.ops.elementwise.gamma_values import (
    Gamma,
    gamma_of_positive,
    gamma_value_at_next,
    gamma_value_sign,
    is_pole_of_gamma_value,
)
from pullback.ops.elementwise.lgamma_digamma import (
    DIGAMMA_FAR,
    Digamma,
    Lgamma,
    Polygamma,
    lgamma_near_zero,
    lgamma_stirling_rest,
)
from pullback.ops.elementwise.special_base import SpecialFunction, special_together
from pullback.ops.prelude import Node, op_functions

exp, log, log1p, absolute = op_functions("Exp", "Log", "Log1p", "Abs")
maximum, minimum, reciprocal = op_functions("Maximum", "Minimum", "Reciprocal")
floor, rounded = op_functions("Floor", "Round")
is_infinite, is_finite = op_functions("IsInf", "IsFinite")


class BetaLn(SpecialFunction):
    """log |beta(x, y)|, also where the gamma function overflows."""

    points = ((0.4, 1.3, 4.5, 30.0), (0.7, 5.0, 6.5, 0.8))

    def expand(self, x: Node, y: Node) -> Node:
        logs = special_together(Lgamma(), x, y, x + y)
        plain = logs[0] + logs[1] - logs[2]
        positive = both(greater(x, 0), greater(y, 0))
        plain = where(is_pole_of_gamma_value(x + y), -np.inf, plain)
        plain = where(either(is_pole_of_gamma_value(x), is_pole_of_gamma_value(y)), np.inf, plain)
        low, high = minimum(x, y), maximum(x, y)
        made = where(both(positive, greater_equal(high, 3)), log_beta_of_positive(low, high), plain)
        return where(both(positive, is_infinite(high)), -np.inf, made)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (lambda: -DigammaDifference()(x, y), lambda: -DigammaDifference()(y, x))


class Beta(SpecialFunction):
    """The beta function, gamma(x) gamma(y) / gamma(x + y)."""

    points = ((0.4, 1.3, 4.5, 30.0, -1.5), (0.7, 5.0, 6.5, 0.8, 2.2))

    def expand(self, x: Node, y: Node) -> Node:
        total = x + y
        lost = lost_in_beta_sum(x, y, total) * log(absolute(total))  # about digamma(total)
        values = special_together(Gamma(), x, y, total)
        product = values[0] / values[2] * values[1] * (1 - lost)
        small = less(maximum(maximum(absolute(x), absolute(y)), absolute(total)), 165)
        sign = gamma_value_sign(x) * gamma_value_sign(y) * gamma_value_sign(total)
        made = where(small, product, sign * exp(BetaLn()(x, y)))
        made = where(is_pole_of_gamma_value(total), 0, made)
        return where(either(is_pole_of_gamma_value(x), is_pole_of_gamma_value(y)), np.inf, made)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (
            lambda: -guarded(out, DigammaDifference()(x, y)),
            lambda: -guarded(out, DigammaDifference()(y, x)),
        )


class DigammaDifference(SpecialFunction):
    """digamma(x + y) - digamma(x), without cancellation for large positive x and y."""

    points = ((0.4, 1.3, 4.5, 30.0, 8.0), (0.7, 5.0, 6.5, 0.8, -2.5))

    def expand(self, x: Node, y: Node) -> Node:
        total = x + y
        steps = beta_digamma_steps(x, total, y)
        moved = less(minimum(x, total), 3)
        start, end = where(moved, x + 3, x), where(moved, total + 3, total)
        low, high = reciprocal(start * start), reciprocal(end * end)
        # the rests at both ends are subtracted only once they are small
        rest = DIGAMMA_FAR.at(high) * high - DIGAMMA_FAR.at(low) * low
        far = log1p(y / start) + y / (start * end) * 0.5 + rest
        positive = both(greater(x, 0), greater(total, 0))
        right = where(moved, steps + far, far)
        left = special_together(Digamma(), total, x)
        return where(positive, right, left[0] - left[1])

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        trigamma = Polygamma(1)
        return (lambda: trigamma(x + y) - trigamma(x), lambda: trigamma(x + y))


class Binom(SpecialFunction):
    """The binomial coefficient x over y, of real numbers; rounded if both are integers."""

    points = ((5.0, 7.3, 2.5, 30.0, -2.5), (2.0, 3.1, 1.5, 4.5, 1.2))

    def expand(self, x: Node, y: Node) -> Node:
        rest = x - y
        lost = lost_in_beta_sum(x, -y, rest) * log(absolute(rest) + 1)  # about digamma(rest + 1)
        above, below, chosen = special_together(gamma_value_at_next, x, rest, y)
        product = above / below / chosen * (1 - lost)
        small = less(maximum(absolute(x), maximum(absolute(y), absolute(rest))), 165)
        sign = gamma_value_sign(x + 1) * gamma_value_sign(y + 1) * gamma_value_sign(rest + 1)
        large = sign * exp(-BetaLn()(rest + 1, y + 1)) / absolute(x + 1)
        made = where(small, product, large)
        whole = both(equal(x, floor(x)), equal(y, floor(y)))
        made = where(both(whole, less(absolute(made), 2.0**52)), rounded(made), made)
        vanishes = either(is_pole_of_gamma_value(rest + 1), is_pole_of_gamma_value(y + 1))
        made = where(vanishes, 0, made)
        return where(is_pole_of_gamma_value(x + 1), np.nan, made)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        rest = x - y
        return (
            lambda: guarded(out, DigammaDifference()(rest + 1, y)),
            lambda: guarded(out, DigammaDifference()(y + 1, rest - y)),
        )


def beta_of_positive(x: Node, y: Node) -> Node:
    """Return beta(x, y) for positive x and y whose sum is less than 165."""
    total = x + y
    lost = lost_in_beta_sum(x, y, total) * log(total)  # about digamma(total)
    values = special_together(gamma_of_positive, x, y, total)
    return values[0] / values[2] * values[1] * (1 - lost)


def log_beta_of_positive(low: Node, high: Node) -> Node:
    """Return log(beta(low, high)) for 0 < low <= high and high >= 3."""
    total = low + high
    ratio = low / high
    corrections = lgamma_stirling_rest(high) - lgamma_stirling_rest(total)
    # lgamma(high) - lgamma(total), without its largest terms, which cancel
    change = corrections - (total - 0.5) * log1p(ratio) - low * (log(high) - 1)
    mixed = lgamma_near_zero(minimum(low, 3)) + change
    share = low / total
    leading = (low - 0.5) * log(share) - high * log1p(ratio)
    constant = 0.5 * math.log(2 * math.pi) + corrections + lgamma_stirling_rest(maximum(low, 3))
    return where(less(low, 3), mixed, leading - 0.5 * log(high) + constant)


def lost_in_beta_sum(x: Node, y: Node, total: Node) -> Node:
    """Return what rounding took from x + y; 0 where it is not finite."""
    part = total - x
    lost = (x - (total - part)) + (y - part)
    return where(is_finite(lost), lost, 0)


def beta_digamma_steps(x: Node, total: Node, y: Node) -> Node:
    """Return digamma(total) - digamma(x) less the same three steps to the right."""
    made = y / (x * total)
    for k in (1, 2):
        made = made + y / ((x + k) * (total + k))
    return made
