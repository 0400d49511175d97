"""Reductions that leave out NaN, which gets gradient 0."""

from __future__ import annotations

import math
from typing import Any

from pullback.errors import ArgumentError, ShapeError
from pullback.functions import reductions, statistics
from pullback.functions.arguments import (
    Tensor,
    argument_node,
    as_tensor,
    axes_argument,
    axis_argument,
    float_node,
    literal_argument,
)
from pullback.functions.comparisons import isnan
from pullback.functions.complex_parts import conj, real
from pullback.functions.composed import composed
from pullback.functions.cumulative import cumulative_prod, cumulative_sum
from pullback.functions.data_types import astype
from pullback.functions.masked_reductions import masked_for_reduction
from pullback.functions.shape import flatten
from pullback.functions.where_take import where as select
from pullback.graph.dtypes import DType, float32, int64
from pullback.lazy.record import record
from pullback.lazy.tensor import wrap
from pullback.ops.index.checked_index import CheckedIndex
from pullback.typing import ArrayLike, Axis, DTypeLike


def nan_reduction_operand(x: Tensor, fill: float) -> Tensor:
    """Replace NaN by a number that changes nothing; it gets no gradient."""
    return select(isnan(x), literal_argument(fill, x.dtype), x) if x.dtype.is_inexact else x


def count_without_nan(x: Tensor, axes: tuple[int, ...], keepdims: bool, dtype: DType) -> Tensor:
    """The number of elements over axes that are not NaN."""
    return astype(reductions.sum(~isnan(x), axis=axes, keepdims=keepdims), dtype)


@composed
def nansum(
    x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False,
    *, initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Sum over axes (all of them by default), with NaN counted as 0; the arguments are those of
    `sum`.

    >>> pb.nansum([1.0, pb.nan, 2.0]).item()
    3.0
    """
    x = nan_reduction_operand(as_tensor(x), 0)
    return reductions.sum(x, axis, dtype, keepdims, initial=initial, where=where)


@composed
def nanprod(
    x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False,
    *, initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Product over axes (all of them by default), with NaN counted as 1; the arguments are those of
    `prod`.

    >>> pb.nanprod([3.0, pb.nan, 2.0]).item()
    6.0
    """
    x = nan_reduction_operand(as_tensor(x), 1)
    return reductions.prod(x, axis, dtype, keepdims, initial=initial, where=where)


@composed
def nancumsum(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Return the cumulative sum along an axis, or of the flattened tensor, with NaN counted as 0.

    >>> pb.nancumsum([1.0, pb.nan, 2.0]).tolist()
    [1.0, 1.0, 3.0]
    """
    x, axis = _nan_axis("nancumsum", x, axis)
    return cumulative_sum(nan_reduction_operand(x, 0), axis=axis, dtype=dtype)


@composed
def nancumprod(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Return the cumulative product along an axis, or of the flattened tensor, with NaN counted
    as 1.

    >>> pb.nancumprod([3.0, pb.nan, 2.0]).tolist()
    [3.0, 3.0, 6.0]
    """
    x, axis = _nan_axis("nancumprod", x, axis)
    return cumulative_prod(nan_reduction_operand(x, 1), axis=axis, dtype=dtype)


def _nan_axis(op: str, x: ArrayLike, axis: int | None) -> tuple[Tensor, int]:
    x = as_tensor(x)
    return (flatten(x), 0) if axis is None else (x, axis_argument(op, axis, x.ndim))


@composed
def nanmean(
    x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False,
    *, where: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Mean over axes of the elements that are not NaN; NaN where there is none. Only elements where
    the mask `where` is true count.

    >>> pb.nanmean([[1.0, pb.nan], [3.0, 4.0]], axis=1).tolist()
    [1.0, 3.5]
    """
    x = _masked_by_nan("nanmean", _nan_float_tensor(x, dtype), where)
    axes = axes_argument("nanmean", axis, x.ndim)
    wide = _nan_widened(x)
    total = reductions.sum(nan_reduction_operand(wide, 0), axis=axes, keepdims=keepdims)
    return astype(total / count_without_nan(x, axes, keepdims, wide.dtype.real), x.dtype)


@composed
def nanvar(
    x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, ddof: float = 0.0,
    keepdims: bool = False, *, correction: float | None = None, where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Variance over axes of the elements that are not NaN: the sum of squared deviations over
    their number less `ddof` (or `correction`); NaN where that is not positive.

    Only elements where the mask `where` is true count. `mean` is the mean, with reduced axes kept,
    if it is known already.

    >>> pb.nanvar([1.0, pb.nan, 3.0]).item(), pb.nanvar([1.0, pb.nan, 3.0], ddof=1).item()
    (1.0, 2.0)
    """
    x = _masked_by_nan("nanvar", _nan_float_tensor(x, dtype), where)
    axes = axes_argument("nanvar", axis, x.ndim)
    wide, kind = _nan_widened(x), x.dtype.real
    count = count_without_nan(x, axes, True, wide.dtype.real)
    # A count of 0 gives NaN at the end; here it must not reach the gradients of other slices.
    if mean is None:
        mean = reductions.sum(
            nan_reduction_operand(wide, 0), axis=axes, keepdims=True
        ) / count.clip(1)
    gap = select(isnan(x), literal_argument(0, wide.dtype), wide - astype(mean, wide.dtype))
    squares = real(gap * conj(gap)) if wide.dtype.is_complex else gap * gap
    left = count - (ddof if correction is None else correction)
    total = reductions.sum(squares, axis=axes, keepdims=True)
    result = select(
        left > 0, total / select(left > 0, left, 1), literal_argument(math.nan, total.dtype)
    )
    if not keepdims:
        result = result.reshape([n for i, n in enumerate(result.shape) if i not in axes])
    return astype(result, kind)


@composed
def nanstd(
    x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, ddof: float = 0.0,
    keepdims: bool = False, *, correction: float | None = None, where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Standard deviation over axes of the elements that are not NaN; its gradient at 0 is 0. The
    arguments are those of `nanvar`.

    >>> pb.nanstd([1.0, pb.nan, 3.0]).item()
    1.0
    """
    variance = nanvar(x, axis, dtype, ddof, keepdims, correction=correction, where=where, mean=mean)
    return statistics.statistics_root(variance)


def _masked_by_nan(op: str, x: Tensor, where: ArrayLike | None) -> Tensor:
    """The elements where a mask is true, and NaN elsewhere."""
    return x if where is None else wrap(masked_for_reduction(op, argument_node(x), where, math.nan))


def _nan_float_tensor(x: ArrayLike, dtype: DTypeLike | None) -> Tensor:
    return wrap(float_node(x)) if dtype is None else astype(x, dtype)


def _nan_widened(x: Tensor) -> Tensor:
    """The elements in the dtype of the computation: sums of halves are rounded too early."""
    return astype(x, float32) if x.dtype.bits == 16 else x


@composed
def nanmax(
    x: ArrayLike, axis: Axis = None, keepdims: bool = False,
    *, initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Largest element over axes that is not NaN; NaN where there is none. Equal elements share the
    gradient.

    `initial` is the least that the result can be; it is needed with a mask `where`.

    >>> pb.nanmax([[1.0, pb.nan], [3.0, 4.0]], axis=1).tolist()
    [1.0, 4.0]
    """
    options = {"keepdims": keepdims, "initial": initial, "where": where}
    return _nan_extremum("nanmax", reductions.max, as_tensor(x), axis, -math.inf, options)


@composed
def nanmin(
    x: ArrayLike, axis: Axis = None, keepdims: bool = False,
    *, initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Smallest element over axes that is not NaN; NaN where there is none. Equal elements share
    the gradient.

    `initial` is the most that the result can be; it is needed with a mask `where`.

    >>> pb.nanmin([[1.0, pb.nan], [3.0, 4.0]], axis=1).tolist()
    [1.0, 3.0]
    """
    options = {"keepdims": keepdims, "initial": initial, "where": where}
    return _nan_extremum("nanmin", reductions.min, as_tensor(x), axis, math.inf, options)


def _nan_extremum(
    op: str, extremum: Any, x: Tensor, axis: Axis, fill: float, options: dict[str, Any]
) -> Tensor:
    if not x.dtype.is_inexact:
        return extremum(x, axis=axis, **options)
    if options["initial"] is not None or options["where"] is not None:
        return extremum(nan_reduction_operand(x, fill), axis=axis, **options)
    keepdims = options["keepdims"]
    axes = axes_argument(op, axis, x.ndim)
    if not math.prod(x.shape[i] for i in axes):
        raise ShapeError(f"there is no element over axes {axes} of {x._node.type}", op=op)
    none = reductions.all(isnan(x), axis=axes, keepdims=keepdims)
    found = extremum(nan_reduction_operand(x, fill), axis=axes, keepdims=keepdims)
    return select(none, literal_argument(math.nan, x.dtype), found)


@composed
def nanargmax(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the largest element that is not NaN, along an axis or in the flattened
    tensor; a slice of NaN alone is an error.

    >>> pb.nanargmax([pb.nan, 1.0, 3.0]).item()
    2
    """
    return _nan_arg("nanargmax", reductions.argmax, as_tensor(x), axis, keepdims, -math.inf)


@composed
def nanargmin(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the smallest element that is not NaN, along an axis or in the flattened
    tensor; a slice of NaN alone is an error.

    >>> pb.nanargmin([pb.nan, 1.0, 3.0]).item()
    1
    """
    return _nan_arg("nanargmin", reductions.argmin, as_tensor(x), axis, keepdims, math.inf)


def _nan_arg(op: str, arg: Any, x: Tensor, axis: int | None, keepdims: bool, fill: float) -> Tensor:
    if not x.dtype.is_inexact:
        return arg(x, axis=axis, keepdims=keepdims)
    if x.dtype.is_complex:
        raise ArgumentError(f"needs real elements, got {x._node.type}", op=op)
    size = x.size if axis is None else x.shape[axis_argument(op, axis, x.ndim)]
    found = arg(nan_reduction_operand(x, fill), axis=axis, keepdims=keepdims)
    if not size:
        return found
    # Among infinities of the fill's sign, NaN that was replaced may come first: ask again.
    reached = nan_reduction_operand(x, -fill) == literal_argument(fill, x.dtype)
    order = astype(~reached if fill > 0 else reached, int64)
    tie = arg(order, axis=axis, keepdims=keepdims)
    present = reductions.any(~isnan(x) & ~reached, axis=axis, keepdims=keepdims)
    found = select(present, found, tie)
    none = reductions.all(isnan(x), axis=axis, keepdims=keepdims)
    checked = CheckedIndex(size, "every element of a slice is NaN, so none is the extremum")
    return record(checked, (argument_node(select(none, literal_argument(-1, int64), found)),))


__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod",
    "nanstd", "nansum", "nanvar",
]  # fmt: skip
