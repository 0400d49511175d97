"""Sorting on CPUs by integers that are in the same order as the elements, written as StableHLO.

XLA sorts single arrays of integers about five times as fast as anything that needs a comparison of
its own: floats with NaN, or elements together with their indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.graph.dtypes import bool_, int8, int16, int32, int64
from pullback.graph.types import Type
from pullback.ops.index.index_lowering import lower_gather_dims

SIGNED = {8: int8, 16: int16, 32: int32, 64: int64}


def sorts_by_integer_keys(b: Any, size: int) -> bool:
    """Whether a program sorts by integers: it is for CPUs, and 32 bits hold an index."""
    return b.platform == "cpu" and not b.neutral and 1 < size < 2**31


def integer_keys(b: Any, x: Any, equal_zeros: bool) -> Any:
    """Write signed integers in the order of the elements, with NaN last; -0.0 is equal to 0.0, or
    less."""
    if x.dtype is bool_:
        return b.convert(x, int8)
    if x.dtype.kind == "i":
        return x
    bits = b.op("stablehlo.bitcast_convert", x, out=Type(x.shape, SIGNED[x.dtype.bits]))
    least, largest = (getattr(np.iinfo(bits.dtype.numpy), name) for name in ("min", "max"))
    if x.dtype.kind == "u":
        return b.op("stablehlo.xor", bits, b.full(bits.type, least), out=bits.type)
    if equal_zeros:
        bits = b.select(b.compare("EQ", x, b.full(x.type, 0)), b.full(bits.type, 0), bits)
    return b.select(b.compare("NE", x, x), b.full(bits.type, largest), _flipped_keys(b, bits))


def _flipped_keys(b: Any, bits: Any) -> Any:
    """Write the bits of negative floats flipped, except the sign; twice, they are as before."""
    sign = _shifted_keys(b, bits, bits.dtype.bits - 1, "right_arithmetic")
    mask = _shifted_keys(b, sign, 1, "right_logical")
    return b.op("stablehlo.xor", bits, mask, out=bits.type)


def elements_of_integer_keys(b: Any, keys: Any, out: Type) -> Any:
    """Write the elements that have these keys, which may be wider than needed."""
    if out.dtype.kind in "bi":
        return b.convert(keys, out.dtype)
    keys = b.convert(keys, SIGNED[out.dtype.bits])
    if out.dtype.is_float:
        bits = _flipped_keys(b, keys)
    else:
        least = b.full(keys.type, np.iinfo(keys.dtype.numpy).min)
        bits = b.op("stablehlo.xor", keys, least, out=keys.type)
    return b.op("stablehlo.bitcast_convert", bits, out=out)


def sorted_by_integer_keys(b: Any, keys: Any, axis: int, descending: bool = False) -> Any:
    """Write integers in order."""

    def precedes(p: Any, q: Any) -> list:
        return [b.compare("GT" if descending else "LT", p, q)]

    one = Type((), keys.dtype)
    return b.op(
        "stablehlo.sort", keys, out=(keys.type,), regions=b.region([one, one], precedes),
        dimension=axis, is_stable=False,
    )[0]  # fmt: skip


def integer_key_indices(b: Any, x: Any, axis: int, descending: bool) -> Any:
    """Write the indices (i64) that put elements in order; equal ones keep theirs.

    A key of up to 32 bits and the index are the halves of one integer. Keys of 64 bits are sorted
    by their lower halves, then by their upper ones: the second sort keeps the order of the first
    where these are equal.
    """
    keys = integer_keys(b, x, equal_zeros=True)
    if descending:
        keys = b.op("stablehlo.not", keys, out=keys.type)
    wide = keys.dtype.bits == 64
    keys = b.convert(keys, int64)
    place = b.iota(keys.shape, int64, axis)
    half = _shifted_keys(b, keys, 32, "left")
    if wide:  # the sign of the lower half is a bit like the others
        half = b.op("stablehlo.xor", half, b.full(half.type, -(2**63)), out=half.type)
    order = _lower_half_of_integer_keys(
        b, sorted_by_integer_keys(b, _joined_keys(b, half, place), axis)
    )
    if not wide:
        return order
    upper = b.op("stablehlo.and", keys, b.full(keys.type, -(2**32)), out=keys.type)
    upper = take_in_integer_key_order(b, upper, order, axis)
    joined = _joined_keys(b, upper, place)
    return take_in_integer_key_order(
        b, order, _lower_half_of_integer_keys(b, sorted_by_integer_keys(b, joined, axis)), axis
    )


def _joined_keys(b: Any, upper: Any, lower: Any) -> Any:
    return b.op("stablehlo.or", upper, lower, out=upper.type)


def _lower_half_of_integer_keys(b: Any, x: Any) -> Any:
    return b.op("stablehlo.and", x, b.full(x.type, 2**32 - 1), out=x.type)


def take_in_integer_key_order(b: Any, x: Any, indices: Any, axis: int) -> Any:
    """Write the elements in the order that indices state."""
    others = [i for i in range(len(x.shape)) if i != axis]
    return lower_gather_dims(b, x.type, x, [indices], [axis], others)


def _shifted_keys(b: Any, x: Any, bits: int, kind: str) -> Any:
    return b.op(f"stablehlo.shift_{kind}", x, b.full(x.type, bits), out=x.type)
