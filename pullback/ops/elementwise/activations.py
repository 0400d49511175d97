"""Activation functions that are products with a distribution function."""

from __future__ import annotations

import math

import numpy as np

from pullback.ops.elementwise.exponential import Logistic
from pullback.ops.elementwise.functions import equal, guarded, less, where
from pullback.ops.elementwise.normal_functions import NormalCdf, NormalPdf
from pullback.ops.elementwise.special_base import SharedFormula
from pullback.ops.prelude import Node, constant, op_functions

clamp, exp, absolute, reciprocal = op_functions("Clamp", "Exp", "Abs", "Reciprocal")
(tanh,) = op_functions("Tanh")
CUBIC = 0.044715


class Silu(SharedFormula):
    """x times the logistic function of x; x at infinity, 0 at -infinity."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def expand(self, x: Node) -> Node:
        return where(equal(x, -np.inf), 0, x * Logistic()(x))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: SiluSlope()(x),)


class SiluSlope(SharedFormula):
    """The derivative of Silu."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def expand(self, x: Node) -> Node:
        left, small = less(x, 0), exp(-absolute(x))
        large = reciprocal(small + 1)
        small = small * large  # the logistic function of -|x|, and that of |x|
        here, there = where(left, small, large), where(left, large, small)
        return guarded(here, guarded(there, x) + 1)

    def partials(self, out: Node, x: Node) -> tuple:
        # the slope of the logistic function is 0 at infinity, so the products are guarded
        return (lambda: guarded(LogisticSlope()(x), 2 - guarded(x, tanh(x * 0.5))),)


class LogisticSlope(SharedFormula):
    """The derivative of the logistic function of real numbers, by one exponential."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def expand(self, x: Node) -> Node:
        small = exp(-absolute(x))
        return small / ((small + 1) * (small + 1))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: -(out * tanh(x * 0.5)),)


class Gelu(SharedFormula):
    """x times the normal distribution function of x; x at infinity, 0 at -infinity."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def expand(self, x: Node) -> Node:
        return where(equal(x, -np.inf), 0, x * NormalCdf()(x))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: NormalCdf()(x) + guarded(NormalPdf()(x), x),)


class GeluTanh(SharedFormula):
    """An approximation of Gelu: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def expand(self, x: Node) -> Node:
        return where(equal(x, -np.inf), 0, x * Logistic()(gelu_exponent(x)))

    def partials(self, out: Node, x: Node) -> tuple:
        def slope() -> Node:
            # beyond 100 the slope is 0 or 1 in every dtype, and cubes must not overflow
            near = clamp(x, *[constant(c, x.type.dtype) for c in (-100, 100)])
            u = gelu_exponent(near)
            change = near * (near * near * (3 * CUBIC) + 1) * math.sqrt(8 / math.pi)
            return Logistic()(u) + LogisticSlope()(u) * change

        return (slope,)


def gelu_exponent(x: Node) -> Node:
    """Return twice the argument of the hyperbolic tangent in GeluTanh."""
    return x * (x * x * CUBIC + 1) * math.sqrt(8 / math.pi)
