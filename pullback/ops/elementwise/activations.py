"""Activation functions that are products with a distribution function."""

from __future__ import annotations

import math

import numpy as np

from pullback.ops.elementwise.exponential import Logistic
from pullback.ops.elementwise.functions import equal, guarded, where
from pullback.ops.elementwise.normal_functions import NormalCdf, NormalPdf
from pullback.ops.elementwise.special_base import SharedFormula
from pullback.ops.prelude import Node, constant, op_functions

(clamp,) = op_functions("Clamp")
CUBIC = 0.044715


class Silu(SharedFormula):
    """x times the logistic function of x; x at infinity, 0 at -infinity."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def expand(self, x: Node) -> Node:
        return where(equal(x, -np.inf), 0, x * Logistic()(x))

    def partials(self, out: Node, x: Node) -> tuple:
        # one factor is 0 at each infinity, so the products are guarded
        return (lambda: guarded(Logistic()(x), guarded(Logistic()(-x), x) + 1),)


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
            return Logistic()(u) * (Logistic()(-u) * change + 1)

        return (slope,)


def gelu_exponent(x: Node) -> Node:
    """Return twice the argument of the hyperbolic tangent in GeluTanh."""
    return x * (x * x * CUBIC + 1) * math.sqrt(8 / math.pi)
