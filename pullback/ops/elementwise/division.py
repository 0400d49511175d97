"""Quotients and remainders."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.graph.dtypes import float32
from pullback.ops.elementwise.elementwise import (
    Binary,
    ElementwiseQuotient,
    Unary,
    zero_elementwise_partials,
)
from pullback.ops.elementwise.functions import both, differ, equal, guarded, less, not_equal, where
from pullback.ops.prelude import CORE, Imported, Node, Type, constant_node, op_functions

rounded, with_sign = op_functions("Round", "CopySign")

UNEVEN = ((-2.0, 2.1), (-1.3, 1.7))  # domains in which no sample divides another


class Div(Binary):
    """Quotient of two operands; that of integers is truncated.

    An integer divided by 0 gives -1 (all bits set), and the least integer by -1 itself, as in XLA.
    """

    singular = True
    half_as = float32
    text = CORE
    imported = Imported(("divide",))

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind not in "iu":
            return np.asarray(np.true_divide(x, y))
        divisor = _nonzero_divisor(y)
        floored = np.floor_divide(x, divisor)
        inexact = (floored * divisor != x) & ((x < 0) != (divisor < 0))
        return np.where(y == 0, quotient_all_bits_set(x.dtype), floored + inexact.astype(x.dtype))

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        return b.divide(x, y)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        # not -x / y**2: the square leaves its range long before the quotient does
        return (ElementwiseQuotient(1, y), lambda: ElementwiseQuotient(-out, y))


class Reciprocal(Unary):
    """One divided by the operand."""

    kinds = "fc"
    singular = True

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(np.true_divide(np.ones((), x.dtype), x))

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return b.op("stablehlo.divide", b.full(out, 1), x, out=out)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: -guarded(out, out),)


class Rem(Binary):
    """The remainder of truncated division: it has the sign of x. An integer modulo 0 is itself."""

    stablehlo = "remainder"
    kinds = "iuf"
    domains = UNEVEN
    singular = True

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _divided(np.fmod, x, y, x)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (1, lambda: -rounded((x - out) / y))


class FloorDiv(Binary):
    """Python's x // y: the quotient rounded down. An integer divided by 0 gives -1, as in Div."""

    kinds = "iuf"
    domains = UNEVEN
    half_as = float32
    partials = zero_elementwise_partials

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _divided(np.floor_divide, x, y, quotient_all_bits_set(x.dtype))

    def expand(self, x: Node, y: Node) -> Node:
        kind, rest = x.type.dtype.kind, Rem()(x, y)
        if kind == "u":
            return x / y
        below = division_signs_differ(rest, y)
        if kind == "i":
            quotient = x / y
            return where(both(below, not_equal(y, 0)), quotient - 1, quotient)
        quotient = rounded((x - rest) / y)  # x - rest is a multiple of y, up to its last bit
        quotient = where(below, quotient - 1, quotient)
        zero = with_sign(constant_node(0, x.type.dtype), x / y)
        return where(equal(y, 0), x / y, where(equal(quotient, 0), zero, quotient))


class Mod(Binary):
    """Python's x % y: what x // y leaves; it has the sign of y. An integer modulo 0 is itself."""

    kinds = "iuf"
    domains = UNEVEN
    half_as = float32
    singular = True

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _divided(np.remainder, x, y, x)

    def expand(self, x: Node, y: Node) -> Node:
        kind, rest = x.type.dtype.kind, Rem()(x, y)
        if kind == "u":
            return rest
        made = where(division_signs_differ(rest, y), rest + y, rest)
        return where(equal(made, 0), with_sign(made, y), made) if kind == "f" else made

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (1, lambda: -FloorDiv()(x, y))


def division_signs_differ(rest: Node, y: Node) -> Node:
    """Return where the remainder of truncated division must be corrected by one divisor."""
    return both(not_equal(rest, 0), differ(less(rest, 0), less(y, 0)))


def reciprocal_or_zero(x: Node) -> Node:
    """Return 1 / x, or 0 where x is 0."""
    zero = equal(x, 0)
    one = constant_node(1, x.type.dtype)
    return where(zero, 0, one / where(zero, one, x))


def _divided(ufunc: np.ufunc, x: np.ndarray, y: np.ndarray, at_zero: np.ndarray) -> np.ndarray:
    """Apply a division; `at_zero` is the result of integers where y is 0."""
    if x.dtype.kind not in "iu":
        return np.asarray(ufunc(x, y))
    return np.where(y == 0, at_zero, ufunc(x, _nonzero_divisor(y)))


def _nonzero_divisor(y: np.ndarray) -> np.ndarray:
    """Return divisors for NumPy, which warns about 0; callers replace the quotients there."""
    return np.where(y == 0, np.ones((), y.dtype), y)


def quotient_all_bits_set(dtype: np.dtype) -> np.ndarray:
    """Return the integer with all bits set."""
    return np.asarray(-1).astype(dtype)
