"""The incomplete gamma functions, by quadrature over the smaller tail."""

from __future__ import annotations

import math

import numpy as np

from pullback.ops.elementwise.functions import both, either, equal, greater, guarded, less, where
from pullback.ops.elementwise.gamma_values import gamma_of_positive
from pullback.ops.elementwise.lgamma_digamma import Digamma, lgamma_stirling_rest
from pullback.ops.elementwise.quadrature import half_line_quadrature, quadrature_column
from pullback.ops.elementwise.series import log1p_minus_series
from pullback.ops.elementwise.special_base import SpecialFunction, special_base_array
from pullback.ops.prelude import TABLE, Node, broadcast_types, constant_node, op_functions

exp, expm1, log, log1p, sqrt = op_functions("Exp", "Expm1", "Log", "Log1p", "Sqrt")
power, minimum, maximum, reciprocal = op_functions("Pow", "Minimum", "Maximum", "Reciprocal")
gamma_slope, is_nan = op_functions("GammaSlope", "IsNan")
STEP = 1 / 16  # of the quadrature


class GammaInc(SpecialFunction):
    """The integral of t**(a-1) exp(-t) / gamma(a) from 0 to x: the gamma distribution function."""

    points = ((0.3, 1.5, 4.0, 30.0), (0.2, 2.5, 3.5, 28.0))

    def expand(self, a: Node, x: Node) -> Node:
        below, tail = gamma_tail(a, x)
        return incomplete_gamma_at_ends(a, x, where(below, tail, 1 - tail), lower=True)

    def partials(self, out: Node, a: Node, x: Node) -> tuple:
        return (lambda: incomplete_gamma_by_shape(a, x), lambda: GammaPdf()(a, x))


class GammaIncC(SpecialFunction):
    """1 - GammaInc(a, x), accurate also where it is small."""

    points = ((0.3, 1.5, 4.0, 30.0), (0.2, 2.5, 3.5, 28.0))

    def expand(self, a: Node, x: Node) -> Node:
        below, tail = gamma_tail(a, x)
        return incomplete_gamma_at_ends(a, x, where(below, 1 - tail, tail), lower=False)

    def partials(self, out: Node, a: Node, x: Node) -> tuple:
        return (lambda: -incomplete_gamma_by_shape(a, x), lambda: -GammaPdf()(a, x))


class GammaPdf(SpecialFunction):
    """x**(a-1) exp(-x) / gamma(a), the density of the gamma distribution."""

    points = ((0.3, 1.5, 4.0, 30.0), (0.2, 2.5, 3.5, 28.0))

    def expand(self, a: Node, x: Node) -> Node:
        made = incomplete_gamma_factor(a, x) / x
        at_zero = where(less(a, 1), np.inf, where(equal(a, 1), 1, constant_node(0, a.type.dtype)))
        return where(equal(x, 0), at_zero, where(equal(x, np.inf), 0, made))

    def partials(self, out: Node, a: Node, x: Node) -> tuple:
        return (lambda: guarded(out, log(x) - Digamma()(a)), lambda: guarded(out, (a - 1 - x) / x))


def gamma_tail(a: Node, x: Node) -> tuple[Node, Node]:
    """Return where x < a, and the smaller tail: below x there, above x elsewhere."""
    below = less(x, a)
    nodes, weights = map(special_base_array, half_line_quadrature(STEP))
    inner_a, inner_x = quadrature_column(a), quadrature_column(x)
    # each side is computed where it is used, and at x = a elsewhere
    left, right = minimum(inner_x, inner_a), maximum(inner_x, inner_a)
    scale = reciprocal((inner_a - left) + minimum(left, sqrt(left)))
    y = scale * nodes
    lower = exp(-(inner_a * y) - left * expm1(-y)) * scale
    scale = reciprocal((right - inner_a) / right + reciprocal(sqrt(right) + 1))
    v = scale * nodes
    upper = exp(inner_a * log1p(v / right) - v) / (right + v) * scale
    terms = where(quadrature_column(below), lower, upper) * weights
    total = TABLE["Sum"]((terms.type.rank - 1,), False)(terms)
    return below, incomplete_gamma_factor(a, x) * total


def incomplete_gamma_factor(a: Node, x: Node) -> Node:
    """Return x**a exp(-x) / gamma(a)."""
    large = maximum(a, 3)
    exponent = large * log1p_minus_series((x - large) / large) - lgamma_stirling_rest(large)
    far = exp(exponent) * sqrt(large * (0.5 / math.pi))
    small = minimum(a, 100)
    scale = gamma_of_positive(small)
    near = power(x, small) / scale * exp(-x)
    # where neither factor overflows, a power is more precise than a large exponent
    plain = both(less(a, 100), both(less(x, 700), less(exponent, -1)))
    tail = exp(log(x) * minimum(a, 3) - x) / scale
    below = where(less(x, 700), near, tail)
    return where(less(a, 3), below, where(plain, near, far))


def incomplete_gamma_at_ends(a: Node, x: Node, value: Node, lower: bool) -> Node:
    """Return the value inside the domain, and its limits at the ends."""
    none, all = (0.0, 1.0) if lower else (1.0, 0.0)
    value = where(either(equal(x, 0), equal(a, np.inf)), none, value)
    value = where(either(equal(a, 0), equal(x, np.inf)), all, value)
    undefined = either(either(less(a, 0), less(x, 0)), both(equal(a, x), equal(a + x, a)))
    return where(either(undefined, is_nan(a + x)), np.nan, value)


def incomplete_gamma_by_shape(a: Node, x: Node) -> Node:
    """Return the derivative of GammaInc with respect to a."""
    shape = broadcast_types(a.type, x.type)
    wide_a, wide_x = (v if v.type.shape == shape else TABLE["Broadcast"](shape)(v) for v in (a, x))
    inside = both(greater(wide_x, 0), less(wide_x, np.inf))
    slope = gamma_slope(wide_a, where(inside, wide_x, 1))
    return where(inside, -(GammaPdf()(a, x) * slope), 0)
