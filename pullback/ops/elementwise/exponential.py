"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import float32, float64
from pullback.ops.elementwise.complex_parts import Complex, Imag, Real
from pullback.ops.elementwise.elementwise import AnalyticElementwise, Binary, ElementwiseQuotient
from pullback.ops.elementwise.functions import both, equal, greater, less, where
from pullback.ops.elementwise.series import horner_series
from pullback.ops.prelude import CORE, Node, Type, op_functions

reciprocal, absolute, maximum, is_infinite = op_functions("Reciprocal", "Abs", "Maximum", "IsInf")


class Exp(AnalyticElementwise):
    """e ** x."""

    ufunc, stablehlo = np.exp, "exponential"
    singular = True
    turns = keeps = "imag"
    text = CORE

    def partials(self, out: Node, x: Node) -> tuple:
        return (out,)


class Exp2(AnalyticElementwise):
    """2 ** x."""

    ufunc = np.exp2
    singular = True
    tabulated = False  # Exp is, in which it expands

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        if out.dtype.is_complex:
            return super().lower(b, out, x)
        return b.op("stablehlo.power", b.full(out, 2), x, out=out)

    def expand(self, x: Node) -> Node:
        return Exp()(scaled_exponential(x, math.log(2)))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: out * math.log(2),)


class Expm1(AnalyticElementwise):
    """e ** x - 1, exact near 0."""

    ufunc, stablehlo = np.expm1, "exponential_minus_one"
    singular = True
    turns = keeps = "imag"

    def numpy(self, x: np.ndarray) -> np.ndarray:
        made = np.asarray(np.expm1(x))
        if x.dtype.kind != "c":
            return made
        made.real += 0.0  # of -0.0 it is 0.0
        far = np.asarray(np.exp(x))  # NumPy's expm1 of infinity is NaN in its imaginary part
        far.real -= 1
        return np.where(np.isfinite(x), made, far)

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        own = not (out.dtype.is_complex or b.literal)  # more precise than XLA's
        return self.lower_expansion(b, x) if own else super().lower(b, out, x)

    def expand(self, x: Node) -> Node:
        count = 17 if x.type.dtype is float64 else 10
        near = horner_series([1 / math.factorial(k) for k in range(1, count)], x) * x
        return where(less(absolute(x), 0.7), near, Exp()(x) - 1)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: Exp()(x),)  # out + 1 would lose its digits for negative x


class Log(AnalyticElementwise):
    """The natural logarithm."""

    ufunc, stablehlo = np.log, "log"
    domain = (0.1, 4.0)
    singular = True
    text = CORE

    def partials(self, out: Node, x: Node) -> tuple:
        return (ElementwiseQuotient(1, x),)


class LogarithmToBase(AnalyticElementwise, abstract=True):
    """The logarithm to another base."""

    base: ClassVar[int]
    domain = (0.1, 4.0)
    singular = True

    def expand(self, x: Node) -> Node:
        return scaled_exponential(Log()(x), 1 / math.log(self.base))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: reciprocal(x * math.log(self.base)),)


class Log2(LogarithmToBase):
    """The logarithm to base 2."""

    ufunc, base = np.log2, 2


class Log10(LogarithmToBase):
    """The logarithm to base 10."""

    ufunc, base = np.log10, 10


class Log1p(AnalyticElementwise):
    """log(1 + x), exact near 0."""

    ufunc, stablehlo = np.log1p, "log_plus_one"
    domain = (-0.9, 3.0)
    singular = True

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        # XLA's loses 7 of the last bits in f64
        own = out.dtype is float64 and not b.literal
        return self.lower_expansion(b, x) if own else super().lower(b, out, x)

    def expand(self, x: Node) -> Node:
        near = maximum(x + 1, 0)  # XLA would simplify (x + 1) - 1
        rest = where(both(greater(near, 0), less(near, np.inf)), (x - (near - 1)) / near, 0)
        made = where(equal(near, 1), x, Log()(near) + rest)
        return where(less(x, -1), np.nan, made)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: reciprocal(x + 1),)


class Logistic(AnalyticElementwise):
    """1 / (1 + e ** -x), the sigmoid."""

    stablehlo = "logistic"
    turns = keeps = "imag"

    def numpy(self, x: np.ndarray) -> np.ndarray:
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        left = wide.real < 0
        small = np.exp(np.where(left, wide, -wide))  # at most 1
        return np.where(left, small / (1 + small), 1 / (1 + small)).astype(x.dtype)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: out * (1 - out),)


class LogAddExp(Binary):
    """log(e ** x + e ** y), without overflow; of equal infinities it is the same infinity."""

    ufunc = np.logaddexp
    kinds = "f"
    half_as = float32

    def expand(self, x: Node, y: Node) -> Node:
        return maximum(x, y) + Log1p()(Exp()(-absolute(exponential_argument_difference(x, y))))

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        gap = exponential_argument_difference(x, y)
        return (lambda: Logistic()(gap), lambda: Logistic()(-gap))


def scaled_exponential(x: Node, factor: float) -> Node:
    """Multiply by a real number, part by part: an infinite part must not make the other NaN."""
    if not x.type.dtype.is_complex:
        return x * factor
    return Complex()(Real()(x) * factor, Imag()(x) * factor)


def exponential_argument_difference(x: Node, y: Node) -> Node:
    """Return x - y, and 0 for equal infinities."""
    return where(both(equal(x, y), is_infinite(x)), 0, x - y)
