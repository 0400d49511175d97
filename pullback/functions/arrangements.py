"""Tensors made of all pairs, windows, diagonals or parts of others."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.arguments import (
    Tensor,
    along,
    as_tensor,
    axis_of,
    float_arguments,
    float_node,
    ordered_axes,
    shape_of,
)
from pullback.functions.complex_parts import complex as complex_of
from pullback.functions.complex_parts import imag, real
from pullback.functions.composed import composed
from pullback.functions.creation import zeros
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.joining import concat, stack
from pullback.functions.rounding import trunc
from pullback.functions.shape import flatten, moveaxis, shaped, spread
from pullback.functions.sorting import argsort
from pullback.functions.statistics import diff
from pullback.functions.trigonometry import cos, sin
from pullback.functions.where_take import scatter, take
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike, Axis, Shape

MOST = 2**28  # indices that combinations are made of


class KthValueResult(NamedTuple):
    """The k-th smallest elements, and their indices."""

    values: Tensor
    indices: Tensor


@composed
def kthvalue(x: ArrayLike, k: int, axis: int = -1, keepdims: bool = False) -> KthValueResult:
    """Return the k-th smallest element along an axis, counted from 1, and its index.

    >>> pb.kthvalue([30.0, 10.0, 20.0], 2).values.item()
    20.0
    """
    given = as_tensor(x)
    a = given if given.ndim else shaped(given, (1,))
    place = axis_of("kthvalue", axis, a.ndim)
    if not 1 <= k <= a.shape[place]:
        raise ArgumentError(f"k must be from 1 to {a.shape[place]}, got {k}")
    chosen = argsort(a, axis=place)[along(place, slice(k - 1, k))]
    grid = [shaped(as_tensor(np.arange(n)), _line(i, n, a.ndim)) for i, n in enumerate(a.shape)]
    grid[place] = chosen
    values = a[tuple(grid)]
    if not given.ndim or not keepdims:
        values, chosen = (v.squeeze(place) for v in (values, chosen))
    return KthValueResult(values, chosen)


def _line(axis: int, size: int, rank: int) -> tuple[int, ...]:
    """The shape of a vector along one of several axes."""
    return tuple([size if i == axis else 1 for i in range(rank)])


def cartesian_prod(*xs: ArrayLike) -> Tensor:
    """Return all combinations of elements of vectors, as rows; of one vector, the vector itself.

    >>> pb.cartesian_prod([1, 2], [8, 9]).tolist()
    [[1, 8], [1, 9], [2, 8], [2, 9]]
    """
    tensors = [as_tensor(x) for x in xs]
    for t in tensors:
        if t.ndim != 1:
            raise ShapeError(f"cartesian_prod: needs vectors, got {t._node.type}")
    if len(tensors) == 1:
        return tensors[0]
    shape = tuple(t.size for t in tensors)
    lines = [shaped(t, _line(i, t.size, len(shape))) for i, t in enumerate(tensors)]
    return stack([flatten(spread(line, shape)) for line in lines], axis=-1)


@composed
def combinations(x: ArrayLike, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all combinations of `r` elements of a vector, as rows, as `itertools` orders them.

    >>> pb.combinations([1, 2, 3]).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    a = as_tensor(x)
    if a.ndim != 1 or r < 0:
        raise ShapeError(f"needs a vector and r >= 0, got {a._node.type} and {r}")
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    count = math.comb(a.size + r - 1, r) if with_replacement and a.size else math.comb(a.size, r)
    if count * r > MOST:
        raise ArgumentError(f"there are too many combinations of r = {r} elements of {a.size}")
    found = list(chosen(range(a.size), r)) if r and count else []
    if not found:
        return zeros((0, r) if r else (0,), dtype=a.dtype)
    return take(a, np.array(found))


@composed
def diag_embed(x: ArrayLike, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Return matrices, along two new axes, with the last axis of x in a diagonal and 0 elsewhere.

    >>> pb.diag_embed([[1, 2], [3, 4]]).tolist()
    [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]
    """
    a = as_tensor(x)
    if not a.ndim:
        raise ShapeError("needs rank 1 or more, got rank 0")
    first, second = ordered_axes("diag_embed", (axis1, axis2), a.ndim + 1)
    n = a.shape[-1]
    i = np.arange(n)
    empty = zeros((*a.shape[:-1], n + abs(offset), n + abs(offset)), dtype=a.dtype)
    made = scatter(empty, (..., i - min(offset, 0), i + max(offset, 0)), a) if a.size else empty
    return moveaxis(made, (-2, -1), (first, second))


@composed
def sliding_window_view(x: ArrayLike, window_shape: Shape, axis: Axis = None) -> Tensor:
    """Return all windows of a shape, along new axes at the end, as `numpy.lib.stride_tricks` does.

    >>> pb.sliding_window_view([1, 2, 3, 4], 3).tolist()
    [[1, 2, 3], [2, 3, 4]]
    """
    op = "sliding_window_view"
    made = as_tensor(x)
    sizes = shape_of(op, window_shape)
    axes = ordered_axes(op, tuple(range(made.ndim)) if axis is None else axis, made.ndim)
    if len(sizes) != len(axes):
        raise ShapeError(f"needs a window size for each of {len(axes)} axes, got {list(sizes)}")
    for size, place in zip(sizes, axes, strict=True):
        count = made.shape[place] - size + 1
        if count < 1:
            raise ShapeError(f"a window of {size} does not fit into axis {place}")
        places = np.arange(count)[:, None] + np.arange(size)
        made = moveaxis(take(made, places, place), place + 1, -1)
    return made


@composed
def cumulative_trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1,
    initial: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the integral from the first sample up to each other one, by the trapezoidal rule.

    With `initial`, that number is in front, so the result is as long as `y`.

    >>> pb.cumulative_trapezoid([1.0, 2.0, 3.0]).tolist()
    [1.5, 4.0]
    """
    values = wrap(float_node(y))
    place = axis_of("cumulative_trapezoid", axis, values.ndim)
    if x is None:
        steps = as_tensor(dx)
    else:
        points = as_tensor(x)
        steps = diff(points, axis=-1 if points.ndim == 1 else place)
        if points.ndim == 1:
            steps = shaped(steps, (steps.size, *(1,) * (values.ndim - place - 1)))
    later, earlier = values[along(place, slice(1, None))], values[along(place, slice(-1))]
    made = cumulative_sum(steps * (later + earlier) / 2, axis=place)
    if initial is None:
        return made
    shape = (*made.shape[:place], 1, *made.shape[place + 1 :])
    return concat([spread(as_tensor(initial).astype(made.dtype), shape), made], axis=place)


@composed
def polar(abs: ArrayLike, angle: ArrayLike) -> Tensor:
    """Return complex numbers from their absolute values and angles.

    >>> pb.polar(2.0, 0.0).item()
    (2+0j)
    """
    size, turn = map(wrap, float_arguments(abs, angle))
    return complex_of(size * cos(turn), size * sin(turn))


@composed
def view_as_real(x: ArrayLike) -> Tensor:
    """Return the real and imaginary parts of complex numbers along a new last axis.

    >>> pb.view_as_real([1 + 2j]).tolist()
    [[1.0, 2.0]]
    """
    a = as_tensor(x)
    if not a.dtype.is_complex:
        raise DTypeError(f"needs complex numbers, got {a._node.type}")
    return stack([real(a), imag(a)], axis=-1)


@composed
def view_as_complex(x: ArrayLike) -> Tensor:
    """Return complex numbers from real and imaginary parts along the last axis.

    >>> pb.view_as_complex([[1.0, 2.0]]).tolist()
    [(1+2j)]
    """
    a = wrap(float_node(x))
    if not a.ndim or a.shape[-1] != 2:
        raise ShapeError(f"the last axis must have size 2, got {a._node.type}")
    return complex_of(a[..., 0], a[..., 1])


@composed
def frac(x: ArrayLike) -> Tensor:
    """Return x - trunc(x), the part of each element after the point, with its sign.

    >>> pb.frac([2.5, -1.25]).tolist()
    [0.5, -0.25]
    """
    a = as_tensor(x)
    return a - trunc(a)


__all__ = [
    "cartesian_prod", "combinations", "cumulative_trapezoid", "diag_embed", "frac", "kthvalue",
    "polar", "sliding_window_view", "view_as_complex", "view_as_real",
]  # fmt: skip
