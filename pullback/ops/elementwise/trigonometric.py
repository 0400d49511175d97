"""Circular and hyperbolic functions and their inverses.

Formulas for complex operands keep the sign of a zero imaginary part (Kahan 1987), so that both
sides of a branch cut come out right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.graph.dtypes import float32, float64
from pullback.ops.elementwise.circular import circular
from pullback.ops.elementwise.complex_nonfinite import with_complex_nonfinite_limit
from pullback.ops.elementwise.complex_parts import Complex, Conj, Imag, Real
from pullback.ops.elementwise.elementwise import AnalyticElementwise
from pullback.ops.elementwise.functions import equal, greater, guarded, less, where
from pullback.ops.elementwise.series import horner_series
from pullback.ops.prelude import Node, Type, constant_node, op_functions
from pullback.ops.traits import HasKernel

exp, expm1, log, log1p = op_functions("Exp", "Expm1", "Log", "Log1p")
sqrt, rsqrt, reciprocal = op_functions("Sqrt", "Rsqrt", "Reciprocal")
absolute, atan2, with_sign = op_functions("Abs", "Atan2", "CopySign")
_KERNEL_SIZE = 256  # elements that are worth a call
# tanh(x) / x as a quotient of polynomials in x * x, for |x| <= 0.63
TANH_ABOVE = (
    1.0, 0.1281548360104272, 0.0027916192323125246, 7.347082947638535e-06,
)  # fmt: skip
TANH_BELOW = (
    1.0, 0.46148816934376036, 0.023287675680239792, 0.00020640369867081846,
)  # fmt: skip


class TrigonometricOp(AnalyticElementwise, HasKernel, abstract=True):
    """The sine or the cosine. XLA's own lose the sign of a zero imaginary part, and are slow on
    CPUs: those of f64 are computed one by one, and again for each element of a broadcast."""

    turns = "real"

    def kernel(self, b: Any, out: Type, x: Any) -> Any:
        if out.dtype is not float64 or out.size < _KERNEL_SIZE:
            return None
        return b.kernel(self.stablehlo, x, out=out)

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        own = out.dtype.is_complex or (out.dtype is float32 and b.platform == "cpu")
        return self.lower_expansion(b, x) if own and not b.literal else super().lower(b, out, x)


class Sin(TrigonometricOp):
    """The sine."""

    ufunc, stablehlo = np.sin, "sine"

    def expand(self, x: Node) -> Node:
        return trigonometric_over_i(Sinh(), x) if x.type.dtype.is_complex else circular(x, 0)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Cos()(x),)


class Cos(TrigonometricOp):
    """The cosine."""

    ufunc, stablehlo = np.cos, "cosine"

    def expand(self, x: Node) -> Node:
        if not x.type.dtype.is_complex:
            return circular(x, 1)
        return Cosh()(Complex()(-Imag()(x), Real()(x)))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: -Sin()(x),)


class Tan(AnalyticElementwise):
    """The tangent."""

    ufunc, stablehlo = np.tan, "tan"
    keeps = "real"
    domain = (-1.2, 1.2)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return with_complex_nonfinite_limit(super().numpy(x), x, "real")

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: out * out + 1,)


class Asin(AnalyticElementwise):
    """The inverse of the sine, in [-pi/2, pi/2]."""

    ufunc = np.arcsin
    domain = (-0.9, 0.9)
    singular = True

    def expand(self, x: Node) -> Node:
        if not x.type.dtype.is_complex:
            return atan2(x, sqrt((1 - x) * (1 + x)))
        left, right = sqrt(trigonometric_one_minus(x)), sqrt(trigonometric_one_plus(x))
        re, im = atan2(Real()(x), Real()(left * right)), Asinh()(Imag()(Conj()(left) * right))
        return Complex()(re, im)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: guarded(rsqrt(1 - x), rsqrt(1 + x)),)


class Acos(AnalyticElementwise):
    """The inverse of the cosine, in [0, pi]."""

    ufunc = np.arccos
    domain = (-0.9, 0.9)
    singular = True

    def expand(self, x: Node) -> Node:
        if not x.type.dtype.is_complex:
            return atan2(sqrt(1 - x), sqrt(1 + x)) * 2
        left, right = sqrt(trigonometric_one_minus(x)), sqrt(trigonometric_one_plus(x))
        re, im = atan2(Real()(left), Real()(right)) * 2, Asinh()(Imag()(Conj()(right) * left))
        return Complex()(re, im)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: -guarded(rsqrt(1 - x), rsqrt(1 + x)),)


class Atan(AnalyticElementwise):
    """The inverse of the tangent, in [-pi/2, pi/2]."""

    ufunc = np.arctan
    singular = True

    def expand(self, x: Node) -> Node:
        return trigonometric_over_i(Atanh(), x) if x.type.dtype.is_complex else atan2(x, 1)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: reciprocal(x * x + 1),)


class Sinh(AnalyticElementwise):
    """The hyperbolic sine."""

    ufunc = np.sinh
    singular = True
    turns = "imag"

    def expand(self, x: Node) -> Node:
        if x.type.dtype.is_complex:
            re, im = Real()(x), Imag()(x)
            return Complex()(
                trigonometric_scaled_by(Cos()(im), Sinh()(re)),
                trigonometric_scaled_by(Sin()(im), Cosh()(re)),
            )
        size = absolute(x)
        less_one, root = expm1(size), exp(size * 0.5)
        near = (less_one + less_one / (less_one + 1)) * 0.5
        # half of e ** size, where that itself would overflow
        return with_sign(where(less(size, 20), near, root * 0.5 * root), x)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Cosh()(x),)


class Cosh(AnalyticElementwise):
    """The hyperbolic cosine."""

    ufunc = np.cosh
    singular = True
    turns = "imag"

    def expand(self, x: Node) -> Node:
        if x.type.dtype.is_complex:
            re, im = Real()(x), Imag()(x)
            return Complex()(
                trigonometric_scaled_by(Cos()(im), Cosh()(re)),
                trigonometric_scaled_by(Sin()(im), Sinh()(re)),
            )
        size = absolute(x)
        root = exp(size * 0.5)  # its square may overflow where the result does not
        return root * 0.5 * root + exp(-size) * 0.5

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Sinh()(x),)


class Tanh(AnalyticElementwise):
    """The hyperbolic tangent."""

    ufunc, stablehlo = np.tanh, "tanh"
    keeps = "imag"

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return with_complex_nonfinite_limit(super().numpy(x), x, "imag")

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        own = out.dtype is float64 and not b.literal  # more precise than XLA's
        return self.lower_expansion(b, x) if own else super().lower(b, out, x)

    def expand(self, x: Node) -> Node:
        size, square = absolute(x), x * x
        near = x * (horner_series(TANH_ABOVE, square) / horner_series(TANH_BELOW, square))
        far = 1 - 2 / (exp(size * 2) + 1)
        return where(less(size, 0.625), near, with_sign(far, x))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: 1 - out * out,)


class Asinh(AnalyticElementwise):
    """The inverse of the hyperbolic sine."""

    ufunc = np.arcsinh
    singular = True

    def expand(self, x: Node) -> Node:
        if x.type.dtype.is_complex:
            return trigonometric_over_i(Asin(), x)
        size = absolute(x)
        square = size * size
        near = log1p(size + square / (1 + sqrt(square + 1)))
        return with_sign(where(is_trigonometric_huge(size), log(size) + math.log(2), near), x)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: rsqrt(x * x + 1),)


class Acosh(AnalyticElementwise):
    """The inverse of the hyperbolic cosine, not negative; NaN below 1."""

    ufunc = np.arccosh
    domain = (1.1, 4.0)
    singular = True

    def expand(self, x: Node) -> Node:
        left = sqrt(x - 1)
        if x.type.dtype.is_complex:
            right = sqrt(trigonometric_one_plus(x))
            re, im = Asinh()(Real()(Conj()(left) * right)), atan2(Imag()(left), Real()(right)) * 2
            return Complex()(re, im)
        near = log1p(x - 1 + left * sqrt(x + 1))
        return where(is_trigonometric_huge(x), log(x) + math.log(2), near)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: guarded(rsqrt(x - 1), rsqrt(x + 1)),)


class Atanh(AnalyticElementwise):
    """The inverse of the hyperbolic tangent."""

    ufunc = np.arctanh
    domain = (-0.9, 0.9)
    singular = True

    def expand(self, x: Node) -> Node:
        if not x.type.dtype.is_complex:
            return (log1p(x) - log1p(-x)) * 0.5
        re, im = Real()(x), Imag()(x)
        size = absolute(re)
        gap = 1 - size
        lift = with_sign(log1p(size * 4 / (gap * gap + im * im)), re)
        return Complex()(lift * 0.25, atan2(im * 2, gap * (1 + size) - im * im) * 0.5)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: reciprocal((1 - x) * (1 + x)),)


def trigonometric_scaled_by(direction: Node, size: Node) -> Node:
    """Return direction * size; where the direction is 0, a zero, even if the size overflowed."""
    one = constant_node(1, size.type.dtype)
    return direction * where(equal(direction, 0), with_sign(one, size), size)


def trigonometric_one_minus(z: Node) -> Node:
    """Return 1 - z; a plain subtraction would lose the sign of a zero imaginary part."""
    return Complex()(1 - Real()(z), -Imag()(z))


def trigonometric_one_plus(z: Node) -> Node:
    """Return 1 + z, with the sign of a zero imaginary part."""
    return Complex()(1 + Real()(z), Imag()(z))


def trigonometric_over_i(op: AnalyticElementwise, z: Node) -> Node:
    """Return op(i z) / i: a circular function from the hyperbolic one, or the reverse."""
    turned = op(Complex()(-Imag()(z), Real()(z)))
    return Complex()(Imag()(turned), -Real()(turned))


def is_trigonometric_huge(x: Node) -> Node:
    """Return where x * x + 1 rounds to x * x."""
    return greater(x, float(np.finfo(x.type.dtype.numpy).eps) ** -0.5)
