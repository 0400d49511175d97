"""The elements that padding computes: ramps, statistics and odd reflections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.functions.arguments import (
    axis_slice_argument,
    checked_integer_argument,
    literal_argument,
)
from pullback.functions.data_types import astype
from pullback.functions.joining import concat
from pullback.functions.quantiles import median
from pullback.functions.reductions import max, min
from pullback.functions.rounding import floor, round
from pullback.functions.shape import spread_to_shape
from pullback.functions.statistics import mean
from pullback.functions.where_take import take, where
from pullback.graph.dtypes import bool_, float32, float64
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor


def padding_ramp_end(value: Any, x: Tensor) -> Tensor:
    """An end value of a ramp as a tensor of the dtype of `x`."""
    return literal_argument(0, x.dtype) if type(value) is int and value == 0 else as_tensor(value)


def padding_stat_length(value: Any) -> int | None:
    if value is None:
        return None
    found = checked_integer_argument("pad", value, "stat_length")
    if found < 1:
        raise ArgumentError(f"stat_length must be at least 1, got {found}", op="pad")
    return found


def padding_ramp_values(x: Tensor, axis: int, side: int, count: int, end: Tensor) -> Tensor:
    """`count` elements from an end value to the element at the edge, which is left out."""
    wide = x.dtype if x.dtype.is_inexact else float64
    wide = float32 if wide.bits == 16 else wide
    edge, end = (astype(v, wide) for v in (_edge_of_padding_values(x, axis, side), end))
    order = np.arange(count)[::-1] if side else np.arange(count)
    steps = literal_argument(_shaped_padding_values(order, x.ndim, axis), wide)
    made = end + (edge - end) / literal_argument(np.maximum(count, 1), wide) * steps
    return astype(made if x.dtype.is_inexact else floor(made), x.dtype)


def padding_statistic_values(
    mode: str, x: Tensor, axis: int, side: int, count: int, length: int | None
) -> Tensor:
    """`count` times the largest, smallest, mean or median element of those next to the edge."""
    n = x.shape[axis]
    size = n if length is None else np.minimum(length, n)
    near = x[axis_slice_argument(axis, slice(n - size, n) if side else slice(0, size))]
    found = _STATISTICS[mode](near, axis)
    if not x.dtype.is_inexact:
        found = astype(round(found) if found.dtype.is_inexact else found, x.dtype)
    return spread_to_shape(found, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _average_padding_values(f: Callable[..., Tensor], x: Tensor, axis: int) -> Tensor:
    return f(x if x.dtype.is_inexact else astype(x, float64), axis, True)


_STATISTICS: dict[str, Any] = {
    "maximum": lambda x, axis: max(x, axis, True), "minimum": lambda x, axis: min(x, axis, True),
    "mean": partial(_average_padding_values, mean),
    "median": partial(_average_padding_values, median),
}  # fmt: skip


def odd_padding_values(x: Tensor, axis: int, width: tuple[int, int], with_edge: bool) -> Tensor:
    """Mirror the elements at the points of the graph where it ends.

    The extension repeats after `period` elements, raised by twice the difference of the ends. An
    element is therefore `sign * x[index]` plus multiples of the first and the last element.
    """
    n = x.shape[axis]
    if n == 1 and not with_edge:  # there is no slope
        counts = [(*x.shape[:axis], c, *x.shape[axis + 1 :]) for c in width]
        return concat([spread_to_shape(x, counts[0]), x, spread_to_shape(x, counts[1])], axis=axis)
    first, last = _edge_of_padding_values(x, axis, 0), _edge_of_padding_values(x, axis, 1)
    period = 2 * n if with_edge else 2 * n - 2
    parts = []
    for place in (np.arange(-width[0], 0), np.arange(n, n + width[1])):
        turns, offset = np.divmod(place, period)
        back = offset >= n
        index = np.where(back, (2 * n - 1 if with_edge else 2 * n - 2) - offset, offset)
        picked = take(x, index, axis)
        mirrored = last + last - picked
        chosen = where(_mask_of_padding_values(back, x.ndim, axis), mirrored, picked)
        raised = literal_argument(_shaped_padding_values(2 * turns, x.ndim, axis), x.dtype) * (
            last - first
        )
        parts.append(
            where(_mask_of_padding_values(turns != 0, x.ndim, axis), chosen + raised, chosen)
        )
    return concat([parts[0], x, parts[1]], axis=axis)


def _edge_of_padding_values(x: Tensor, axis: int, side: int) -> Tensor:
    return x[axis_slice_argument(axis, slice(-1, None) if side else slice(0, 1))]


def _mask_of_padding_values(values: np.ndarray, rank: int, axis: int) -> Tensor:
    return literal_argument(_shaped_padding_values(values, rank, axis), bool_)


def _shaped_padding_values(values: np.ndarray, rank: int, axis: int) -> np.ndarray:
    return values.reshape((1,) * axis + (-1,) + (1,) * (rank - axis - 1))
