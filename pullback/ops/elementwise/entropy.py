"""Logarithms of odds, and products with logarithms, as in entropies."""

from __future__ import annotations

import numpy as np

from pullback.ops.elementwise.elementwise import ElementwiseQuotient
from pullback.ops.elementwise.functions import (
    both,
    equal,
    greater,
    greater_equal,
    guarded,
    less,
    negated,
    where,
)
from pullback.ops.elementwise.series import log1p_minus_series
from pullback.ops.elementwise.special_base import SharedFormula
from pullback.ops.prelude import Node, constant_node, op_functions

log, log1p, atanh = op_functions("Log", "Log1p", "Atanh")
is_nan, is_finite, reciprocal = op_functions("IsNan", "IsFinite", "Reciprocal")


class XLogY(SharedFormula):
    """x log(y), but 0 where x is 0, unless y is NaN."""

    points = ((0.7, -1.3, 2.0, 0.4), (0.3, 1.5, 4.0, 0.9))

    def expand(self, x: Node, y: Node) -> Node:
        return entropy_times_unless_zero(x, log(y), y)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (lambda: log(y), ElementwiseQuotient(x, y))


class XLog1pY(SharedFormula):
    """x log(1 + y), but 0 where x is 0, unless y is NaN."""

    points = ((0.7, -1.3, 2.0, 0.4), (0.3, 1.5, -0.4, 0.9))

    def expand(self, x: Node, y: Node) -> Node:
        return entropy_times_unless_zero(x, log1p(y), y)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (lambda: log1p(y), lambda: ElementwiseQuotient(x, y + 1))


class RelEntr(SharedFormula):
    """x log(x / y) for positive x and y, 0 for x = 0 and y >= 0, infinite elsewhere."""

    points = ((0.7, 1.3, 2.0, 0.4), (0.3, 1.5, 2.1, 0.9))

    def expand(self, x: Node, y: Node) -> Node:
        inside = both(greater(x, 0), greater(y, 0))
        return entropy_outside_domain(inside, x, y, x * entropy_log_of_ratio(x, y), 0)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (lambda: entropy_log_of_ratio(x, y) + 1, ElementwiseQuotient(-x, y))


class KlDiv(SharedFormula):
    """x log(x / y) - x + y for positive x and y, y for x = 0 and y >= 0, infinite elsewhere."""

    points = ((0.7, 1.3, 2.0, 0.4), (0.3, 1.5, 2.1, 0.9))

    def expand(self, x: Node, y: Node) -> Node:
        inside = both(greater(x, 0), greater(y, 0))
        change = (y - x) / x
        close = both(greater(change, -0.5), less(change, 1))
        far = x * entropy_log_of_ratio(x, y) + (y - x)
        return entropy_outside_domain(
            inside, x, y, where(close, 0 - x * log1p_minus_series(change), far), y
        )

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (lambda: entropy_log_of_ratio(x, y), lambda: ElementwiseQuotient(y - x, y))


class Logit(SharedFormula):
    """log(x / (1 - x)), the inverse of the logistic function; NaN outside [0, 1]."""

    points = ((0.02, 0.3, 0.5, 0.62, 0.9),)

    def expand(self, x: Node) -> Node:
        centred = x * 2 - 1  # exact where it is used
        middle = both(greater(x, 0.3), less(x, 0.65))
        return where(middle, atanh(centred) * 2, log(x / (1 - x)))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: reciprocal(guarded(x, 1 - x)),)


def entropy_times_unless_zero(x: Node, factor: Node, y: Node) -> Node:
    """Return x * factor, but 0 where x is 0 and y is not NaN."""
    return where(both(equal(x, 0), negated(is_nan(y))), 0, x * factor)


def entropy_outside_domain(
    inside: Node, x: Node, y: Node, value: Node, at_zero: Node | float
) -> Node:
    """Return the value inside the domain, `at_zero` for x = 0 and y >= 0, infinity elsewhere."""
    boundary = both(equal(x, 0), greater_equal(y, 0))
    made = where(inside, value, where(boundary, at_zero, constant_node(np.inf, x.type.dtype)))
    return where(is_nan(x + y), np.nan, made)


def entropy_log_of_ratio(x: Node, y: Node) -> Node:
    """Return log(x / y), accurate where x is near y and where the quotient is not finite."""
    ratio = x / y
    near = log1p((x - y) / y)
    normal = both(greater(ratio, float(np.finfo(x.type.dtype.numpy).tiny)), is_finite(ratio))
    far = where(normal, log(ratio), log(x) - log(y))
    return where(both(greater(ratio, 0.5), less(ratio, 2)), near, far)
