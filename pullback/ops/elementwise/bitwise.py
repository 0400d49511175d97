"""Bitwise ops on integers and bools. None has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.ops.elementwise.elementwise import Binary, Unary
from pullback.ops.prelude import Imported, Type
from pullback.ops.samples import boolean_samples, integer_samples


class Bitwise(Binary, abstract=True):
    """Combines two operands bit by bit."""

    kinds = "biu"
    imported = Imported(last=True)  # bools are read as logic
    commutative = True
    differentiable = False

    @classmethod
    def samples(cls) -> Any:
        yield (
            cls(),
            (integer_samples(2, 5, low=-90, high=90), integer_samples(5, low=-90, high=90, salt=1)),
        )
        yield cls(), (boolean_samples(6), boolean_samples(6, salt=1))
        for dtype in (np.uint8, np.int16, np.uint64):
            yield (
                cls(),
                (integer_samples(4).astype(dtype), integer_samples(4, salt=1).astype(dtype)),
            )


class BitwiseAnd(Bitwise):
    """The bits that are set in both."""

    ufunc, stablehlo = np.bitwise_and, "and"


class BitwiseOr(Bitwise):
    """The bits that are set in either."""

    ufunc, stablehlo = np.bitwise_or, "or"


class BitwiseXor(Bitwise):
    """The bits that are set in exactly one of them."""

    ufunc, stablehlo = np.bitwise_xor, "xor"


class BitwiseNot(Unary):
    """The bits that are not set."""

    ufunc, stablehlo = np.invert, "not"
    kinds = "biu"
    imported = Imported(last=True)  # bools are read as logic
    differentiable = False

    @classmethod
    def samples(cls) -> Any:
        for x in (
            integer_samples(5, low=-90, high=90),
            boolean_samples(4),
            integer_samples(3).astype(np.uint16),
        ):
            yield cls(), (x,)


class Shift(Binary, abstract=True):
    """Shifts the bits of x by y; y is read as unsigned, and may be the width or more."""

    kinds = "iu"
    differentiable = False

    @classmethod
    def samples(cls) -> Any:
        for name in ("int8", "int32", "int64", "uint8", "uint64"):
            dtype = np.dtype(name)
            bits = 8 * dtype.itemsize
            x = np.array([[5], [-7], [100]]).astype(dtype)
            yield cls(), (x, np.array([0, 1, 3, bits - 1, bits, bits + 1, -1]).astype(dtype))


def _shift_in_width(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where y is less than the width of x, and y with 0 elsewhere."""
    fits = (y >= 0) & (y < 8 * x.dtype.itemsize)
    return fits, np.where(fits, y, np.zeros((), y.dtype))


class ShiftLeft(Shift):
    """x * 2**y: zeros are shifted in; the result is 0 for y >= width."""

    stablehlo = "shift_left"

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        fits, places = _shift_in_width(x, y)
        return np.where(fits, np.left_shift(x, places), np.zeros((), x.dtype))


class ShiftRight(Shift):
    """x // 2**y: the sign bit is shifted in (0 if unsigned), also for y >= width."""

    imported = Imported(("shift_right_arithmetic", "shift_right_logical"))

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        fits, places = _shift_in_width(x, y)
        beyond = np.where(x < 0, np.asarray(-1), np.asarray(0)).astype(x.dtype)
        return np.where(fits, np.right_shift(x, places), beyond)

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        way = "arithmetic" if x.dtype.kind == "i" else "logical"
        return b.op(f"stablehlo.shift_right_{way}", x, y, out=out)


class PopulationCount(Unary):
    """The number of bits that are set."""

    stablehlo = "popcnt"
    kinds = "iu"
    differentiable = False

    def numpy(self, x: np.ndarray) -> np.ndarray:
        # the bits of a negative number, not of its absolute value as in np.bitwise_count
        return np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (integer_samples(6, low=-90, high=90),)
        for dtype in (np.int8, np.uint8, np.uint16, np.int32, np.uint64):
            yield cls(), (np.array([0, 1, -1, 77, 2**7 - 1]).astype(dtype),)
