"""Distances between arrays in units of the last place."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np


def ulp_distance(x: np.ndarray, y: np.ndarray, scale: float | None = None) -> float:
    """The largest distance of two arrays in units of the last place; of integers, in ones.

    The unit is that of each element or, with a `scale`, that of a number of this size. It is
    infinite where one is NaN or infinite and the other is not.
    """
    if x.size == 0:
        return 0.0
    if x.dtype.kind == "c":
        return max(ulp_distance(x.real, y.real, scale), ulp_distance(x.imag, y.imag, scale))
    if x.dtype.kind in "biu":
        return float(np.max(np.abs(x.astype(object) - y.astype(object))))
    wide = x.astype(np.float64), y.astype(np.float64)
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    if not np.all(same | (np.isfinite(wide[0]) & np.isfinite(wide[1]))):
        return math.inf
    if scale is not None:
        with np.errstate(invalid="ignore"):  # equal infinities have no difference
            difference = np.abs(wide[0] - wide[1])
        return float(np.max(np.where(same, 0.0, difference)) / ulp_unit(scale, x.dtype))
    steps = np.abs(_ulp_ordered(x).astype(object) - _ulp_ordered(y).astype(object))
    return float(np.max(np.where(same, 0, steps)))


def ulp_unit(value: float, dtype: np.dtype) -> float:
    """The unit in the last place of a number of this size."""
    info = ml_dtypes.finfo(dtype)
    smallest = float(info.smallest_subnormal)
    if not math.isfinite(value) or value == 0:
        return smallest
    return max(smallest, float(info.eps) * 2.0 ** math.floor(math.log2(abs(value))))


def ulp_magnitude(array: np.ndarray) -> float:
    """The largest finite absolute value of an array of floats; 0 for other arrays."""
    if array.dtype.kind not in "fcV" or not array.size:
        return 0.0
    sizes = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    finite = sizes[np.isfinite(sizes)]
    return float(finite.max()) if finite.size else 0.0


def _ulp_ordered(x: np.ndarray) -> np.ndarray:
    """Floats as integers in the same order: neighbours differ by one, and the zeros are equal."""
    kind = np.dtype(f"i{x.dtype.itemsize}")
    bits = np.ascontiguousarray(x).view(kind).astype(np.int64)
    return np.where(bits < 0, np.iinfo(kind).min - bits, bits)
