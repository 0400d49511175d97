"""Activation functions that are products with a distribution function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.graph.dtypes import float32, float64
from pullback.ops.elementwise.error_functions import scaled_erfc, times_exp_minus_square
from pullback.ops.elementwise.exponential import Logistic
from pullback.ops.elementwise.functions import equal, guarded, less, where
from pullback.ops.elementwise.normal_functions import DENSITY, ROOT_HALF, NormalCdf, NormalPdf
from pullback.ops.elementwise.special_base import SharedFormula
from pullback.ops.prelude import Node, Type, constant_node, op_functions
from pullback.ops.traits import HasKernel

clamp, exp, absolute, reciprocal = op_functions("Clamp", "Exp", "Abs", "Reciprocal")
tanh, minimum = op_functions("Tanh", "Minimum")
CUBIC, STEEP = 0.044715, math.sqrt(8 / math.pi)  # of the exponent in GeluTanh
KERNEL_SIZE = 4096  # elements from which a kernel is better than what XLA fuses with others


def activation_kernel(b: Any, name: str, out: Type, *xs: Any) -> Any:
    """Call the kernel of an activation function; None for few elements and unknown dtypes."""
    known = (float32,) if name in ("gelu", "gelu_gradient") else (float32, float64)
    if out.dtype not in known or out.size < KERNEL_SIZE or any(x.shape != out.shape for x in xs):
        return None
    return b.kernel(name, *xs, out=out, dims=len(out.shape), flags=0)


class Silu(SharedFormula, HasKernel):
    """x times the logistic function of x; x at infinity, 0 at -infinity."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def kernel(self, b: Any, out: Type, x: Any) -> Any:
        return activation_kernel(b, "silu", out, x)

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


class Gelu(SharedFormula, HasKernel):
    """x times the normal distribution function of x; x at infinity, 0 at -infinity."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def kernel(self, b: Any, out: Type, x: Any) -> Any:
        return activation_kernel(b, "gelu", out, x)

    def expand(self, x: Node) -> Node:
        return where(equal(x, -np.inf), 0, x * NormalCdf()(x))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: GeluSlope()(x),)


class GeluSlope(SharedFormula):
    """The derivative of Gelu, by one exponential."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def expand(self, x: Node) -> Node:
        # Another bound than that of NormalCdf: XLA would share the exponential of
        # both, and keep it in memory from the forward to the backward pass.
        size = minimum(absolute(x), 50)
        factor = scaled_erfc(size * ROOT_HALF) * 0.5 - size * DENSITY
        tail = times_exp_minus_square(factor, size, 0.5)
        return where(less(x, 0), tail, 1 - tail)

    def partials(self, out: Node, x: Node) -> tuple:
        def slope() -> Node:
            density = NormalPdf()(x)  # 0 at infinity, so products with x are guarded
            return density * 2 - guarded(guarded(density, x), x)

        return (slope,)


class GeluTanh(SharedFormula, HasKernel):
    """An approximation of Gelu: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def kernel(self, b: Any, out: Type, x: Any) -> Any:
        return activation_kernel(b, "gelu_tanh", out, x)

    def expand(self, x: Node) -> Node:
        return where(equal(x, -np.inf), 0, x * Logistic()(gelu_activation_exponent(x)))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: GeluTanhSlope()(x),)


class GeluTanhSlope(SharedFormula):
    """The derivative of GeluTanh."""

    points = ((-3.0, -0.5, 0.0, 0.7, 2.0),)

    def expand(self, x: Node) -> Node:
        near = gelu_activation_range(x)
        u = gelu_activation_exponent(near)
        # The logistic function and its slope by one exponential and one quotient
        small = exp(-absolute(u))
        share = reciprocal(small + 1)
        rest = small * share
        return where(
            less(u, 0), rest, share
        ) + rest * share * near * gelu_activation_exponent_slope(near)

    def partials(self, out: Node, x: Node) -> tuple:
        def slope() -> Node:
            near = gelu_activation_range(x)
            u, d = gelu_activation_exponent(near), gelu_activation_exponent_slope(near)
            s = LogisticSlope()(u)  # of all products first: others overflow in f16
            steeper = d * 2 + near * near * (6 * CUBIC * STEEP)
            return s * steeper - s * d * d * near * tanh(u * 0.5)

        return (slope,)


def gelu_activation_range(x: Node) -> Node:
    """Return x within 30: beyond, the slope is 0 or 1 in every dtype, and cubes may overflow."""
    return clamp(x, *[constant_node(c, x.type.dtype) for c in (-30, 30)])


def gelu_activation_exponent(x: Node) -> Node:
    """Return twice the argument of the hyperbolic tangent in GeluTanh."""
    return x * (x * x * CUBIC + 1) * STEEP


def gelu_activation_exponent_slope(x: Node) -> Node:
    """Return the derivative of `gelu_activation_exponent`."""
    return (x * x * (3 * CUBIC) + 1) * STEEP
