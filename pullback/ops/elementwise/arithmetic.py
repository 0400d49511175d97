"""Arithmetic: sums, products, absolute value and sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import DType
from pullback.ops.elementwise.elementwise import Binary, Unary
from pullback.ops.elementwise.functions import cast, guarded, nonzero_function
from pullback.ops.prelude import CORE, Node, Parts, Type, op_functions

real_part, conjugate = op_functions("Real", "Conj")


class Add(Binary):
    """Sum of two operands."""

    ufunc, stablehlo = np.add, "add"
    linear = True
    commutative = True
    text = CORE

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (1, 1)


class Sub(Binary):
    """Difference of two operands."""

    ufunc, stablehlo = np.subtract, "subtract"
    linear = True
    text = CORE

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (1, -1)


class Mul(Binary):
    """Product of two operands."""

    ufunc, stablehlo = np.multiply, "multiply"
    commutative = True
    parts = Parts(linear_in=(0, 1))
    text = CORE

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (y, x)


class Neg(Unary):
    """The operand with its sign changed."""

    ufunc, stablehlo = np.negative, "negate"
    linear = True
    text = CORE

    def partials(self, out: Node, x: Node) -> tuple:
        return (-1,)


class Square(Unary):
    """The operand times itself."""

    ufunc = np.square

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return b.op("stablehlo.multiply", x, x, out=out)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: x * 2,)


class Abs(Unary):
    """The absolute value: real also for complex operands; its gradient at 0 is 0."""

    ufunc, stablehlo = np.abs, "abs"
    tabulated = True

    def result(self, dtype: DType) -> DType:
        return dtype.real

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return x if x.dtype.kind == "u" else b.op("stablehlo.abs", x, out=out)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [guarded(cast(g, xs[0].type.dtype), Sign()(xs[0]))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        (x,), (t,) = xs, ts
        if t is None:
            return None
        if x.type.dtype.is_complex:
            return real_part(guarded(conjugate(Sign()(x)), t))
        return guarded(Sign()(x), t)


class Sign(Unary):
    """-1, 0 or 1; x / |x| and 0 at 0 for complex operands."""

    stablehlo = "sign"
    tabulated = True

    def numpy(self, x: np.ndarray) -> np.ndarray:
        made = np.where(x == 0, np.zeros((), x.dtype), np.sign(x))
        if x.dtype.kind != "c":
            return made
        return np.where(np.isnan(x), complex(np.nan, np.nan), made).astype(x.dtype)

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        if x.dtype.kind == "u":
            return b.op("stablehlo.minimum", x, b.full(out, 1), out=out)
        made = b.op("stablehlo.sign", x, out=out)
        if b.literal or not x.dtype.is_inexact:
            return made
        zero = b.full(out, 0)
        return b.select(b.compare("EQ", x, zero), zero, made)  # XLA's sign of -0.0 is -0.0

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [arithmetic_sign_derivative(g, out, xs[0])]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else arithmetic_sign_derivative(ts[0], out, xs[0])


def arithmetic_sign_derivative(t: Node, sign: Node, x: Node) -> Node | None:
    """The derivative of a complex sign: the part of t across x, over |x|. It is its own adjoint."""
    dtype = x.type.dtype
    if not dtype.is_complex:
        return None
    along = sign * cast(real_part(conjugate(sign) * t), dtype)
    return (t - along) / cast(nonzero_function(Abs()(x)), dtype)
