"""Maximum, minimum, clamp and relu."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pullback.graph import dtypes
from pullback.ops.elementwise.elementwise import Binary, Elementwise, ElementwiseShare
from pullback.ops.elementwise.functions import both, either, equal, greater, less, less_equal
from pullback.ops.prelude import Imported, Node, Type
from pullback.ops.samples import real


class BinaryExtremum(Binary, abstract=True):
    """One of two operands; NaN if either is, and then both gradients are 0, as that of relu. Equal
    operands share the gradient evenly."""

    kinds = "biuf"
    domains = ((-2.0, 2.0), (-1.7, 2.2))  # without ties
    commutative = True
    direction: ClassVar[str]  # how the result compares with the other operand

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Zeros are ordered by sign: which one NumPy takes depends on the processor, and operands
        may have been swapped."""
        keep = (x > y if self.direction == "GE" else x < y) | (x != x)
        if dtypes.dtype(x.dtype).is_float:
            keep |= (x == y) & (np.signbit(x) == (self.direction == "LE"))
        return np.where(keep, x, y)

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        return choose_maximum(b, self.direction, x, y)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        beats, loses = (greater, less) if self.direction == "GE" else (less, greater)
        return (
            lambda: ElementwiseShare(beats(x, y), equal(x, y)),
            lambda: ElementwiseShare(loses(x, y), equal(x, y)),
        )


class Maximum(BinaryExtremum):
    """The larger of two operands; NaN if either is. Equal operands share the gradient evenly."""

    ufunc, direction = np.maximum, "GE"


class Minimum(BinaryExtremum):
    """The smaller of two operands; NaN if either is. Equal operands share the gradient evenly."""

    ufunc, direction = np.minimum, "LE"


def choose_maximum(b: Any, direction: str, x: Any, y: Any) -> Any:
    """Select x where it compares with y in the given way or is NaN, else y; -0 is less than 0.
    XLA's own maximum and minimum lose NaN on CPU when they are fused into a reduction."""
    keep = b.compare(direction, x, y)
    if x.dtype.is_float:
        bits = [
            b.op(
                "stablehlo.bitcast_convert",
                v,
                out=v.type.with_dtype(dtypes.dtype(f"i{v.dtype.bits}")),
            )
            for v in (x, y)
        ]
        keep = b.select(b.compare("EQ", x, y), b.compare(direction, *bits), keep)
        keep = b.op("stablehlo.or", keep, b.compare("NE", x, x), out=keep.type)
    return b.select(keep, x, y)


class Clamp(Elementwise):
    """x clamped to the interval from lo to hi; hi where lo > hi.

    The gradient goes to the operand that is the result, and to x if that is equal to a bound.
    """

    kinds = "iuf"
    imported = Imported(("clamp",), taken=(1, 0, 2))

    def numpy(self, x: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(x, lo), hi)

    def lower(self, b: Any, out: Type, x: Any, lo: Any, hi: Any) -> Any:
        return b.op("stablehlo.clamp", lo, x, hi, out=out)

    def partials(self, out: Node, x: Node, lo: Node, hi: Node) -> tuple:
        return (
            lambda: both(less_equal(lo, x), less_equal(x, hi)),
            lambda: both(less(x, lo), less_equal(lo, hi)),
            lambda: either(greater(x, hi), greater(lo, hi)),
        )

    @classmethod
    def samples(cls) -> Any:
        x = real(3, 4)
        yield cls(), (x, np.float64(-0.9), np.float64(1.1))
        low, high = real(4, salt=1, low=-1.5, high=-0.3), real(3, 1, salt=2, low=0.1, high=1.5)
        yield cls(), (x, low, high)
        yield cls(), (real(5), np.float64(1.03), np.float64(-1.01))
        yield cls(), (real(0, 4), np.float64(-0.5), np.float64(0.5))
