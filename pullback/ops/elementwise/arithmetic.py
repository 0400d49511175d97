"""Arithmetic: sums, products, quotients, remainders, absolute value and sign."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.ir.dtypes import DType, float32
from pullback.ops.base import Node, Type
from pullback.ops.elementwise.base import (
    Binary,
    Over,
    Unary,
    both,
    cast,
    differ,
    divided,
    either,
    equal,
    guarded,
    less,
    nonzero,
    not_equal,
    total,
    where,
    word,
)

real_part, conjugate = word("Real"), word("Conj")
rounded, is_finite = word("Round"), word("IsFinite")

UNEVEN = ((-2.0, 2.1), (-1.3, 1.7))  # domains in which no sample divides another


class Add(Binary):
    """Sum of two operands."""

    ufunc = np.add
    stablehlo = "add"
    linear: ClassVar[bool] = True
    commutative: ClassVar[bool] = True
    profile = "core-v1"

    def partials(self, out: Node, x: Node, y: Node) -> Sequence:
        return (1, 1)


class Sub(Binary):
    """Difference of two operands."""

    ufunc = np.subtract
    stablehlo = "subtract"
    linear: ClassVar[bool] = True
    profile = "core-v1"

    def partials(self, out: Node, x: Node, y: Node) -> Sequence:
        return (1, -1)


class Mul(Binary):
    """Product of two operands."""

    ufunc = np.multiply
    stablehlo = "multiply"
    commutative: ClassVar[bool] = True
    linear_in: ClassVar[tuple[int, ...]] = (0, 1)
    profile = "core-v1"

    def partials(self, out: Node, x: Node, y: Node) -> Sequence:
        return (y, x)


class Guarded(Binary, abstract=True):
    """What its plain form, `unguarded`, gives; but 0 where the first operand is 0."""

    kinds = "fc"
    singular = True

    @abstractmethod
    def unguarded(self) -> Binary:
        """The plain form."""

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(x == 0, np.zeros((), x.dtype), self.unguarded().numpy(x, y))

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        zero = b.full(out, 0)
        return b.select(b.compare("EQ", x, zero), zero, self.unguarded().lower(b, out, x, y))


class MulNoNan(Guarded):
    """x * y, but 0 where x is 0, whatever y is.

    A rule multiplies its cotangent by a partial derivative that may be infinite: where the
    cotangent is 0, as in the branch that `where` did not take, the product is 0 and not NaN.
    Its derivatives are those of a plain product, and 0 where x is 0 and y is not finite. A rule
    with infinite partials uses no plain products of them either, so this holds at any order.
    """

    def unguarded(self) -> Mul:
        return Mul()

    def partials(self, out: Node, x: Node, y: Node) -> Sequence:
        def finite() -> Node:
            return where(either(not_equal(x, 0), is_finite(y)), y, 0)

        return (finite, x)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        (x, y), (tx, ty) = xs, ts
        # the tangent of y may be infinite where x is 0: here x is the one that guards
        terms = [None if tx is None else guarded(tx, y), None if ty is None else guarded(x, ty)]
        return total(terms, out.type)


class Neg(Unary):
    """The operand with its sign changed."""

    ufunc = np.negative
    stablehlo = "negate"
    linear: ClassVar[bool] = True
    profile = "core-v1"

    def partials(self, out: Node, x: Node) -> Sequence:
        return (-1,)


class Square(Unary):
    """The operand times itself."""

    ufunc = np.square

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return b.op("stablehlo.multiply", x, x, out=out)

    def partials(self, out: Node, x: Node) -> Sequence:
        return (lambda: x * 2,)


class Div(Binary):
    """Quotient of two operands; of integers it is truncated.

    An integer divided by 0 gives -1 (all bits set), and the least integer by -1 itself, as in XLA.
    """

    stablehlo = "divide"
    singular = True
    linear_in: ClassVar[tuple[int, ...]] = (0,)
    profile = "core-v1"

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind not in "iu":
            return np.asarray(np.true_divide(x, y))
        divisor = np.where(y == 0, np.ones((), y.dtype), y)
        floored = np.floor_divide(x, divisor)
        inexact = (floored * divisor != x) & ((x < 0) != (divisor < 0))
        return np.where(y == 0, all_ones(x.dtype), floored + inexact.astype(x.dtype))

    def partials(self, out: Node, x: Node, y: Node) -> Sequence:
        # not -x / y**2: the square leaves its range long before the quotient does
        return (Over(1, y), lambda: Over(-out, y))


class DivNoNan(Guarded):
    """x / y, but 0 where x is 0, whatever y is: what MulNoNan is to a product."""

    domains = ((-2.0, 2.0), (0.5, 2.0))

    def unguarded(self) -> Div:
        return Div()

    def partials(self, out: Node, x: Node, y: Node) -> Sequence:
        def finite() -> Over:
            inside = either(not_equal(x, 0), is_finite(Reciprocal()(y)))
            return Over(1, where(inside, y, np.inf))

        return (finite, lambda: Over(-out, y))

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        (_, y), (tx, ty) = xs, ts
        # the tangent of y may be infinite where x is 0: here x is the one that guards
        terms = [
            None if tx is None else divided(tx, y),
            None if ty is None else divided(guarded(-out, ty), y),
        ]
        return total(terms, out.type)


class Reciprocal(Unary):
    """One divided by the operand."""

    kinds = "fc"
    singular = True

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(np.true_divide(np.ones((), x.dtype), x))

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return b.op("stablehlo.divide", b.full(out, 1), x, out=out)

    def partials(self, out: Node, x: Node) -> Sequence:
        return (lambda: -guarded(out, out),)


class Rem(Binary):
    """The remainder of truncated division: it has the sign of x. An integer modulo 0 is itself."""

    stablehlo = "remainder"
    kinds = "iuf"
    domains = UNEVEN
    singular = True

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind not in "iu":
            return np.asarray(np.fmod(x, y))
        return np.where(y == 0, x, np.fmod(x, np.where(y == 0, np.ones((), y.dtype), y)))

    def partials(self, out: Node, x: Node, y: Node) -> Sequence:
        return (1, lambda: -rounded((x - out) / y))


class FloorDiv(Binary):
    """Python's x // y: the quotient rounded down. An integer divided by 0 gives -1, as in Div."""

    kinds = "iuf"
    domains = UNEVEN
    half_as = float32

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind not in "iu":
            return np.asarray(np.floor_divide(x, y))
        divisor = np.where(y == 0, np.ones((), y.dtype), y)
        return np.where(y == 0, all_ones(x.dtype), np.floor_divide(x, divisor))

    def expand(self, x: Node, y: Node) -> Node:
        kind, rest = x.type.dtype.kind, Rem()(x, y)
        if kind == "u":
            return x / y
        below = signs_differ(rest, y)
        if kind == "i":
            quotient = x / y
            return where(both(below, not_equal(y, 0)), quotient - 1, quotient)
        quotient = rounded((x - rest) / y)  # x - rest is a multiple of y, up to its last bit
        return where(equal(y, 0), x / y, where(below, quotient - 1, quotient))


class Mod(Binary):
    """Python's x % y: what x // y leaves; it has the sign of y. An integer modulo 0 is itself."""

    kinds = "iuf"
    domains = UNEVEN
    half_as = float32
    singular = True

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind not in "iu":
            return np.asarray(np.remainder(x, y))
        return np.where(y == 0, x, np.remainder(x, np.where(y == 0, np.ones((), y.dtype), y)))

    def expand(self, x: Node, y: Node) -> Node:
        rest = Rem()(x, y)
        return rest if x.type.dtype.kind == "u" else where(signs_differ(rest, y), rest + y, rest)

    def partials(self, out: Node, x: Node, y: Node) -> Sequence:
        return (1, lambda: -FloorDiv()(x, y))


class Abs(Unary):
    """The absolute value: real also for complex operands; its gradient at 0 is 0."""

    ufunc = np.abs
    instructions = ("abs",)

    def result(self, dtype: DType) -> DType:
        return dtype.real

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return x if x.dtype.kind == "u" else b.op("stablehlo.abs", x, out=out)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [cast(g, xs[0].type.dtype) * Sign()(xs[0])]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        (x,), (t,) = xs, ts
        if t is None:
            return None
        if x.type.dtype.is_complex:
            return real_part(guarded(conjugate(Sign()(x)), t))
        return guarded(Sign()(x), t)


class Sign(Unary):
    """-1, 0 or 1; x / |x| and 0 at 0 for complex operands."""

    ufunc = np.sign
    instructions = ("sign",)

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        if x.dtype.kind == "u":
            return b.op("stablehlo.minimum", x, b.full(out, 1), out=out)
        return b.op("stablehlo.sign", x, out=out)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [turn(g, out, xs[0])]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else turn(ts[0], out, xs[0])


def turn(t: Node, sign: Node, x: Node) -> Node | None:
    """The derivative of a complex sign: the part of t across x, over |x|. It is its own adjoint."""
    dtype = x.type.dtype
    if not dtype.is_complex:
        return None
    along = sign * cast(real_part(conjugate(sign) * t), dtype)
    return (t - along) / cast(nonzero(Abs()(x)), dtype)


def signs_differ(rest: Node, y: Node) -> Node:
    """Where a remainder of truncated division has to be moved by one divisor."""
    return both(not_equal(rest, 0), differ(less(rest, 0), less(y, 0)))


def all_ones(dtype: np.dtype) -> np.ndarray:
    return np.asarray(-1).astype(dtype)
