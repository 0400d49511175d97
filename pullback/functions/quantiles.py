"""Medians, quantiles and percentiles.

Elements are sorted with NaN last. A quantile lies at a position among the `n` numbers of a slice,
usually between two of them; the methods of Hyndman and Fan (1996) and NumPy differ in how the
position follows from `q`. Positions are computed in f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions import reductions
from pullback.functions.arguments import Tensor, as_tensor, axes_argument, float_node, literal
from pullback.functions.averages import weights_along
from pullback.functions.comparisons import isfinite, isnan
from pullback.functions.composed import composed
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.data_types import astype
from pullback.functions.known_values import known_values
from pullback.functions.rounding import ceil, floor
from pullback.functions.rounding import round as rounded
from pullback.functions.shape import moveaxis, shaped, spread
from pullback.functions.sorting import argsort, sort
from pullback.functions.where_take import take_along_axis, where
from pullback.graph.arguments import shown
from pullback.graph.dtypes import bool_, float64, int64
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike, Axis

Method: TypeAlias = Literal[
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
]  # fmt: skip


def _between(alpha: float, beta: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _after(position: Tensor, stay: Tensor) -> Tensor:
    """The index after a position, or that at it."""
    return floor(position) + where(stay, 0.0, 1.0)


def _inverted_cdf(n: Tensor, q: Tensor) -> Tensor:
    position = n * q - 1
    return _after(position, position == floor(position))


def _closest_observation(n: Tensor, q: Tensor) -> Tensor:
    position = n * q - 1.5
    whole = floor(position)
    return _after(position, (position == whole) & (whole % 2 == 1))


# the index of the element, by method
_INDEX: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "inverted_cdf": _inverted_cdf,
    "closest_observation": _closest_observation,
    "lower": lambda n, q: floor((n - 1) * q),
    "higher": lambda n, q: ceil((n - 1) * q),
    "nearest": lambda n, q: rounded((n - 1) * q),
}
# the position between two elements, by method
_POSITION: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": lambda n, q: (n - 1) * q,
    "averaged_inverted_cdf": lambda n, q: n * q - 1,
    "interpolated_inverted_cdf": _between(0, 1),
    "hazen": _between(0.5, 0.5),
    "weibull": _between(0, 0),
    "median_unbiased": _between(1 / 3, 1 / 3),
    "normal_unbiased": _between(3 / 8, 3 / 8),
    "midpoint": lambda n, q: 0.5 * (floor((n - 1) * q) + ceil((n - 1) * q)),
}


def _fraction(method: str, position: Tensor, whole: Tensor) -> Tensor:
    """How far between two elements the quantile lies."""
    if method == "averaged_inverted_cdf":
        return where(position == whole, 0.5, 1.0)
    if method == "midpoint":
        return where(position == whole, 0.0, 0.5)
    return position - whole


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
        return _placed(_slices(x, axes).sum(-1, keepdims=True) * math.nan, (), x, axes, keepdims)
    values = sort(_slices(x, axes))
    n = _numbers(values, skip)
    low, high = (astype(floor((n - i) * 0.5), int64).clip(0) for i in (1, 0))
    middle = (_taken(values, low) + _taken(values, high)) * 0.5
    return _placed(_or_nan(middle, values, skip), (), x, axes, keepdims)


def _quantile(
    op: str, x: ArrayLike, q: ArrayLike, scale: int, axis: Axis, method: str, keepdims: bool,
    weights: ArrayLike | None, skip: bool,
) -> Tensor:  # fmt: skip
    if method not in _INDEX and method not in _POSITION:
        names = ", ".join([*_INDEX, *_POSITION])
        raise ArgumentError(f"method must be one of {names}, got {shown(method)}", op=op)
    x = as_tensor(x)
    x = x if method in _INDEX and x.dtype is not bool_ else wrap(float_node(x))
    if x.dtype.is_complex:
        raise ArgumentError(f"needs real elements, got {x._node.type}", op=op)
    axes = axes_argument(op, axis, x.ndim)
    if not math.prod(x.shape[i] for i in axes):
        raise ShapeError(f"there is no element over axes {axes} of {x._node.type}", op=op)
    part = _parts_of_one(op, q, scale)
    flat = shaped(part, (part.size,))
    if weights is not None:
        made = _weighted(op, x, flat, axes, axis, method, weights, skip)
    else:
        made = _at_positions(sort(_slices(x, axes)), flat, method, skip)
    if made.dtype.is_inexact:
        made = where((flat >= 0) & (flat <= 1), made, literal(math.nan, made.dtype))
    return _placed(made, part.shape, x, axes, keepdims)


def _parts_of_one(op: str, q: ArrayLike, scale: int) -> Tensor:
    """`q` from 0 to 1, in f64; known values are checked."""
    values = known_values(q)
    if values is not None and not ((values >= 0) & (values <= scale)).all():
        raise ArgumentError(f"q must be from 0 to {scale}, got {shown(q)}", op=op)
    found = as_tensor(q if values is None else values.astype(np.float64))
    if found.ndim > 1:
        raise ShapeError(f"q must be a number or a vector, got {found._node.type}", op=op)
    return astype(found, float64) / scale


def _slices(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The elements of each slice along the last axis."""
    rest = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    count = math.prod(x.shape[i] for i in axes)
    return shaped(moveaxis(x, axes, tuple(range(-len(axes), 0))), (*rest, count))


def _numbers(values: Tensor, skip: bool) -> Tensor:
    """How many elements of each slice count, along a last axis of size 1."""
    if not skip or not values.dtype.is_inexact:
        return literal(values.shape[-1], float64)
    return astype(reductions.sum(~isnan(values), axis=-1, keepdims=True), float64)


def _taken(values: Tensor, index: Tensor) -> Tensor:
    """The elements of each slice at indices, which are those of each slice or of all."""
    sizes = index.shape or (1,)
    index = shaped(index, (1,) * (values.ndim - len(sizes)) + sizes)
    return take_along_axis(values, index, axis=-1)


def _or_nan(made: Tensor, values: Tensor, skip: bool) -> Tensor:
    """NaN for slices with a NaN, which is the last element, unless those are skipped."""
    if skip or not values.dtype.is_inexact:
        return made
    return where(isnan(values[..., -1:]), literal(math.nan, made.dtype), made)


def _at_positions(values: Tensor, q: Tensor, method: str, skip: bool) -> Tensor:
    """The quantiles of sorted slices along the last axis, where those of the result are `q`'s."""
    n = _numbers(values, skip)
    last = (n - 1).clip(0)
    if method in _INDEX:
        index = astype(_INDEX[method](n, q).clip(0).clip(None, last), int64)
        return _or_nan(_taken(values, index), values, skip)
    position = _POSITION[method](n, q)
    whole = floor(position)
    t = astype(_fraction(method, position, whole), values.dtype)
    low, high = (astype(i.clip(0).clip(None, last), int64) for i in (whole, whole + 1))
    a, b = _taken(values, low), _taken(values, high)
    gap = b - a
    between = where(t >= 0.5, b - gap * (1 - t), a + gap * t)
    # The difference of infinities is not a number; their sum is what lies between them.
    return _or_nan(where(isfinite(gap), between, where(t == 0, a, a + b)), values, skip)


def _weighted(
    op: str, x: Tensor, q: Tensor, axes: tuple[int, ...], axis: Axis, method: str,
    weights: ArrayLike, skip: bool,
) -> Tensor:  # fmt: skip
    if method != "inverted_cdf":
        message = f'weights need the method "inverted_cdf", got {method!r}'
        raise ArgumentError(message, op=op)
    known, w = known_values(weights), as_tensor(weights)
    if known is not None and (known < 0).any():
        raise ArgumentError("weights must not be negative", op=op)
    w = spread(weights_along(op, w, x.shape, axis), x.shape)
    values, w = _slices(x, axes), astype(_slices(w, axes), float64)
    if skip and values.dtype.is_inexact:
        w = where(isnan(values), literal(0, float64), w)
    order = argsort(values)
    values, w = take_along_axis(values, order, -1), take_along_axis(w, order, -1)
    share = cumulative_sum(w, axis=-1)
    share = share / share[..., -1:]
    # elements without weight at the front are not chosen, even for q = 0
    below = (share[..., None] < q) | (share[..., None] == 0)
    index = reductions.sum(below, axis=-2).clip(None, values.shape[-1] - 1)
    return _or_nan(take_along_axis(values, index, -1), values, skip)


def _placed(
    made: Tensor, q_shape: tuple[int, ...], x: Tensor, axes: tuple[int, ...], keepdims: bool
) -> Tensor:
    """Move the last axis, that of the quantiles, to the front, in the shape of `q`."""
    rest = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes)
    return shaped(moveaxis(made, -1, 0), (*q_shape, *rest))


__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]
