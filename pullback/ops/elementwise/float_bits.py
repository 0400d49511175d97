"""Ops on the bits of floats: signs and neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.graph import dtypes
from pullback.graph.dtypes import dtype
from pullback.ops.elementwise.elementwise import Binary, Unary, zero_elementwise_partials
from pullback.ops.elementwise.functions import both, either, equal, less, less_equal, where
from pullback.ops.elementwise.rounding_predicates import HARD
from pullback.ops.prelude import TABLE, Node, Type, constant_node, op_functions
from pullback.ops.samples import real

sign, is_nan = op_functions("Sign", "IsNan")
bits_and, bits_or, bits_not = op_functions("BitwiseAnd", "BitwiseOr", "BitwiseNot")


class CopySign(Binary):
    """The absolute value of x with the sign of y; -0.0 is negative. The gradient at 0 is 0."""

    ufunc = np.copysign
    kinds = "f"
    singular = True  # so that an infinite cotangent changes nothing at 0

    def expand(self, x: Node, y: Node) -> Node:
        minus = float_sign_mask(x)
        made = bits_or(
            bits_and(bits_of_float(x), bits_not(minus)), bits_and(bits_of_float(y), minus)
        )
        return TABLE["Bitcast"](x.type.dtype)(made)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (lambda: sign(x) * self(constant_node(1, y.type.dtype), y), None)


class NextAfter(Binary):
    """The next float after x towards y; y where they are equal."""

    kinds = "f"
    differentiable = False

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(x == y, y, np.nextafter(x, y))  # NumPy's of zeros in f16 is x

    def expand(self, x: Node, y: Node) -> Node:
        here, there = bits_of_float(x), bits_of_float(y)
        minus = float_sign_mask(x)
        rank, goal = ordered_float_bits(here, minus), ordered_float_bits(there, minus)
        moved = where(less(rank, goal), rank + 1, rank - 1)
        # a negative number that steps up to 0 becomes -0.0
        negative = either(less(moved, 0), both(less(here, 0), less_equal(moved, 0)))
        made = TABLE["Bitcast"](x.type.dtype)(where(negative, minus - moved, moved))
        made = where(equal(rank, goal), y, made)
        return where(either(is_nan(x), is_nan(y)), np.nan, made)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(2, 3), real(3, salt=1))
        ends = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0])
        for kind in (np.float64, np.float32, np.float16):
            yield cls(), (ends.astype(kind)[:, None], ends.astype(kind))


def bits_of_float(x: Node) -> Node:
    """Return the bits of floats as signed integers."""
    return TABLE["Bitcast"](dtype(f"i{x.type.dtype.bits}"))(x)


def float_sign_mask(x: Node) -> Node:
    """Return the integer with only the sign bit set."""
    width = x.type.dtype.bits
    return constant_node(-(2 ** (width - 1)), dtype(f"i{width}"))


def ordered_float_bits(pattern: Node, minus: Node) -> Node:
    """Return the bits of floats as integers in the floats' order; both zeros are 0."""
    return where(less(pattern, 0), minus - pattern, pattern)


class SignBit(Unary):
    """Whether the sign bit is set, also of -0.0 and NaN."""

    kinds = "iuf"
    predicate = True
    partials = zero_elementwise_partials

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x < 0 if x.dtype.kind in "iu" else np.signbit(x))

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        if x.dtype.is_float:
            signed = dtypes.dtype(f"i{x.dtype.bits}")
            x = b.op("stablehlo.bitcast_convert", x, out=Type(x.shape, signed))
        return b.compare("LT", x, b.full(x.type, 0))

    @classmethod
    def samples(cls) -> Any:
        for x in (HARD, -HARD.astype(np.float32), np.array([-3, 0, 3])):
            yield cls(), (x,)
