"""Medians, quantiles and percentiles.

In the sorted order, NaN is last. A quantile lies at a position among the numbers of a slice,
usually between two of them, which `quantile_positions` computes in f64.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions import reductions
from pullback.functions.along_axis import take_along_axis
from pullback.functions.arguments import (
    Tensor,
    argument_node,
    as_tensor,
    axes_argument,
    float_node,
    literal_argument,
)
from pullback.functions.averages import weights_along
from pullback.functions.comparisons import isfinite, isnan
from pullback.functions.composed import composed
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.data_types import astype
from pullback.functions.known_values import known_values
from pullback.functions.quantile_positions import (
    INDEX,
    POSITION,
    quantile_position_neighbours,
    quantile_position_within,
)
from pullback.functions.shape import moveaxis, reshaped_to, spread_to_shape
from pullback.functions.sorting import argsort, sort
from pullback.functions.where_take import take, where
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import bool_, float64, int64
from pullback.lazy.hooks import hooks
from pullback.lazy.record import record
from pullback.lazy.tensor import wrap
from pullback.ops.index.along_axis import TakeAlongAxis
from pullback.ops.sort.order_statistics import OrderStatistics
from pullback.typing import ArrayLike, Axis

Method: TypeAlias = Literal[
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
]  # fmt: skip


@composed
def quantile(
    x: ArrayLike, q: ArrayLike, axis: Axis = None, method: Method = "linear",
    keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the quantiles over axes (all of them by default): the dimensions of `q`, which is
    from 0 to 1, come first. A slice with a NaN gives NaN.

    The methods are those of NumPy; only "inverted_cdf" takes weights.

    >>> pb.quantile([1.0, 2.0, 4.0], [0.25, 0.5]).tolist()
    [1.5, 2.0]
    """
    return _quantile("quantile", x, q, 1, axis, method, keepdims, weights, False)


@composed
def percentile(
    x: ArrayLike, q: ArrayLike, axis: Axis = None, method: Method = "linear",
    keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return `quantile(x, q / 100, ...)`: `q` is from 0 to 100.

    >>> pb.percentile([1.0, 2.0, 4.0], 50).item()
    2.0
    """
    return _quantile("percentile", x, q, 100, axis, method, keepdims, weights, False)


@composed
def nanquantile(
    x: ArrayLike, q: ArrayLike, axis: Axis = None, method: Method = "linear",
    keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the quantiles over axes of the elements that are not NaN; NaN where there is none.

    >>> pb.nanquantile([1.0, pb.nan, 2.0], 0.5).item()
    1.5
    """
    return _quantile("nanquantile", x, q, 1, axis, method, keepdims, weights, True)


@composed
def nanpercentile(
    x: ArrayLike, q: ArrayLike, axis: Axis = None, method: Method = "linear",
    keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return `nanquantile(x, q / 100, ...)`: `q` is from 0 to 100.

    >>> pb.nanpercentile([1.0, pb.nan, 2.0], 50).item()
    1.5
    """
    return _quantile("nanpercentile", x, q, 100, axis, method, keepdims, weights, True)


@composed
def median(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the median over axes (all of them by default): the middle element, or the mean of the
    two in the middle, which share the gradient. A slice with a NaN gives NaN.

    >>> pb.median([[1.0, 5.0, 3.0], [4.0, 2.0, 2.0]], axis=1).tolist()
    [3.0, 2.0]
    """
    return _median("median", x, axis, keepdims, False)


@composed
def nanmedian(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the median over axes of the elements that are not NaN; NaN where there is none.

    >>> pb.nanmedian([1.0, pb.nan, 2.0]).item()
    1.5
    """
    return _median("nanmedian", x, axis, keepdims, True)


def _median(op: str, x: ArrayLike, axis: Axis, keepdims: bool, skip: bool) -> Tensor:
    x = wrap(float_node(x))
    axes = axes_argument(op, axis, x.ndim)
    if not math.prod(x.shape[i] for i in axes):
        return _placed_quantiles(
            _quantile_slices(x, axes).sum(-1, keepdims=True) * math.nan, (), x, axes, keepdims
        )
    values = _quantile_slices(x, axes)
    xp, n = _quantile_counts(values, skip)
    low, high = (xp.maximum(xp.floor((n - i) * 0.5), 0.0) for i in (1, 0))
    below, above = _in_quantile_order(values, low, high)
    middle = (below + above) * 0.5
    return _placed_quantiles(_quantile_or_nan(middle, values, skip), (), x, axes, keepdims)


def _quantile(
    op: str, x: ArrayLike, q: ArrayLike, scale: int, axis: Axis, method: str, keepdims: bool,
    weights: ArrayLike | None, skip: bool,
) -> Tensor:  # fmt: skip
    if method not in INDEX and method not in POSITION:
        names = ", ".join([*INDEX, *POSITION])
        raise ArgumentError(f"method must be one of {names}, got {shown_argument(method)}", op=op)
    x = as_tensor(x)
    x = x if method in INDEX and x.dtype is not bool_ else wrap(float_node(x))
    if x.dtype.is_complex:
        raise ArgumentError(f"needs real elements, got {x._node.type}", op=op)
    axes = axes_argument(op, axis, x.ndim)
    if not math.prod(x.shape[i] for i in axes):
        raise ShapeError(f"there is no element over axes {axes} of {x._node.type}", op=op)
    part = _quantile_fractions(op, q, scale)
    flat = part.reshape((part.size,))
    if weights is not None:
        made = _weighted_quantile(op, x, as_tensor(flat), axes, axis, method, weights, skip)
    else:
        made = _quantiles_at_positions(_quantile_slices(x, axes), flat, method, skip)
    if isinstance(flat, Tensor) and made.dtype.is_inexact:
        made = where((flat >= 0) & (flat <= 1), made, literal_argument(math.nan, made.dtype))
    return _placed_quantiles(made, part.shape, x, axes, keepdims)


def _quantile_fractions(op: str, q: ArrayLike, scale: int) -> Tensor | np.ndarray:
    """`q` from 0 to 1, in f64; known values are checked."""
    values = known_values(q)
    if values is not None and not ((values >= 0) & (values <= scale)).all():
        raise ArgumentError(f"q must be from 0 to {scale}, got {shown_argument(q)}", op=op)
    found = astype(q, float64) if values is None else values.astype(np.float64)
    if found.ndim > 1:
        raise ShapeError(f"q must be a number or a vector, got rank {found.ndim}", op=op)
    return found / scale


def _quantile_slices(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The elements of each slice along the last axis."""
    rest = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    count = math.prod(x.shape[i] for i in axes)
    return reshaped_to(moveaxis(x, axes, tuple(range(-len(axes), 0))), (*rest, count))


def _quantile_counts(values: Tensor, skip: bool) -> tuple[Any, Any]:
    """How many elements of each slice count, along a last axis of size 1 if it is not the same for
    all; and the namespace to compute with it."""
    if not skip or not values.dtype.is_inexact:
        return np, float(values.shape[-1])
    count = reductions.sum(~isnan(values), axis=-1, keepdims=True)
    return hooks.functions, astype(count, float64)


def _in_quantile_order(values: Tensor, *indices: Tensor | np.ndarray) -> list[Tensor]:
    """The elements of sorted slices at indices, which are those of each slice or, if they are not
    tensors, the same for all: then nothing needs to be sorted."""
    if any(isinstance(i, Tensor) for i in indices):
        order = sort(values)
        return [_quantile_taken(order, i) for i in indices]
    places = [np.atleast_1d(i).astype(np.int64) for i in indices]
    ranks = np.unique(np.concatenate(places))
    op = OrderStatistics(values.ndim - 1, tuple(ranks.tolist()))
    found = record(op, (argument_node(values),))
    return [take(found, np.searchsorted(ranks, p), axis=-1) for p in places]


def _quantile_taken(values: Tensor, index: Tensor | np.ndarray) -> Tensor:
    """The elements of each slice at indices, which are those of each slice or the same for all."""
    if not isinstance(index, Tensor):
        return take(values, np.atleast_1d(index).astype(np.int64), axis=-1)
    index = spread_to_shape(astype(index, int64), (*values.shape[:-1], index.shape[-1]))
    return record(
        TakeAlongAxis(values.ndim - 1, True), (argument_node(values), argument_node(index))
    )


def _quantile_or_nan(made: Tensor, values: Tensor, skip: bool) -> Tensor:
    """NaN for slices with a NaN, unless those are skipped."""
    if skip or not values.dtype.is_inexact:
        return made
    undefined = reductions.any(isnan(values), axis=-1, keepdims=True)
    return where(undefined, literal_argument(math.nan, made.dtype), made)


def _quantiles_at_positions(
    values: Tensor, q: Tensor | np.ndarray, method: str, skip: bool
) -> Tensor:
    """The quantiles of slices along the last axis, where those of the result are `q`'s."""
    xp, n = _quantile_counts(values, skip)
    xp = hooks.functions if isinstance(q, Tensor) else xp
    if method in INDEX:
        (made,) = _in_quantile_order(
            values, quantile_position_within(xp, INDEX[method](xp, n, q), n)
        )
    else:
        low, high, part = quantile_position_neighbours(xp, method, n, q)
        below, above = _in_quantile_order(values, low, high)
        made = _interpolated_quantile(below, above, astype(part, values.dtype))
    return _quantile_or_nan(made, values, skip)


def _interpolated_quantile(a: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """The value between two; `t` is 0 at the first and 1 at the second."""
    gap = b - a
    between = where(t >= 0.5, b - gap * (1 - t), a + gap * t)
    # The difference of infinities is not a number; their sum is what lies between them.
    return where(isfinite(gap), between, where(t == 0, a, a + b))


def _weighted_quantile(
    op: str, x: Tensor, q: Tensor, axes: tuple[int, ...], axis: Axis, method: str,
    weights: ArrayLike, skip: bool,
) -> Tensor:  # fmt: skip
    if method != "inverted_cdf":
        message = f'weights need the method "inverted_cdf", got {method!r}'
        raise ArgumentError(message, op=op)
    known, w = known_values(weights), as_tensor(weights)
    if known is not None and (known < 0).any():
        raise ArgumentError("weights must not be negative", op=op)
    w = spread_to_shape(weights_along(op, w, x.shape, axis), x.shape)
    values, w = _quantile_slices(x, axes), astype(_quantile_slices(w, axes), float64)
    if skip and values.dtype.is_inexact:
        w = where(isnan(values), literal_argument(0, float64), w)
    order = argsort(values)
    values, w = take_along_axis(values, order, -1), take_along_axis(w, order, -1)
    share = cumulative_sum(w, axis=-1)
    share = share / share[..., -1:]
    # elements without weight at the front are not chosen, even for q = 0
    below = (share[..., None] < q) | (share[..., None] == 0)
    index = reductions.sum(below, axis=-2).clip(None, values.shape[-1] - 1)
    return _quantile_or_nan(take_along_axis(values, index, -1), values, skip)


def _placed_quantiles(
    made: Tensor, q_shape: tuple[int, ...], x: Tensor, axes: tuple[int, ...], keepdims: bool
) -> Tensor:
    """Move the last axis, that of the quantiles, to the front, in the shape of `q`."""
    rest = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes)
    return reshaped_to(moveaxis(made, -1, 0), (*q_shape, *rest))


__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]
