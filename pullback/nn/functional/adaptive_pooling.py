"""Pooling to a given number of windows, whose sizes differ by at most one element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import functions as pf
from pullback.errors import ArgumentError
from pullback.functions.arguments import checked_integer_argument, literal_argument
from pullback.functions.composed import composed
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import Layout, functional_float_argument
from pullback.nn.functional.image_layouts import images_channels_last, images_in_layout
from pullback.typing import ArrayLike

PoolSize = int | Sequence[int | None]


@composed
def adaptive_avg_pool1d(x: ArrayLike, output_size: PoolSize, *, layout: Layout = "NHWC") -> Tensor:
    """Return the means of `output_size` windows of sequences [N, L, C]; see `adaptive_avg_pool2d`.

    >>> pb.nn.functional.adaptive_avg_pool1d([[[1.0], [2.0], [6.0]]], 2).tolist()
    [[[1.5], [4.0]]]
    """
    return _adaptive_pool(1, x, output_size, layout, _adaptive_mean)


@composed
def adaptive_avg_pool2d(x: ArrayLike, output_size: PoolSize, *, layout: Layout = "NHWC") -> Tensor:
    """Return the means of windows of images [N, H, W, C], as many as `output_size` says.

    Window i of k windows over n elements goes from floor(i * n / k) to ceil((i + 1) * n / k).
    `output_size` is a number or one for each spatial dimension, `None` to keep a dimension.

    >>> pb.nn.functional.adaptive_avg_pool2d(pb.ones((1, 7, 5, 3)), (2, None)).shape
    (1, 2, 5, 3)
    """
    return _adaptive_pool(2, x, output_size, layout, _adaptive_mean)


@composed
def adaptive_avg_pool3d(x: ArrayLike, output_size: PoolSize, *, layout: Layout = "NHWC") -> Tensor:
    """Return the means of windows of volumes [N, D, H, W, C]; see `adaptive_avg_pool2d`.

    >>> pb.nn.functional.adaptive_avg_pool3d(pb.ones((1, 4, 5, 6, 3)), 1).shape
    (1, 1, 1, 1, 3)
    """
    return _adaptive_pool(3, x, output_size, layout, _adaptive_mean)


@composed
def adaptive_max_pool1d(x: ArrayLike, output_size: PoolSize, *, layout: Layout = "NHWC") -> Tensor:
    """Return the largest elements of windows of sequences; see `adaptive_avg_pool2d`.

    >>> pb.nn.functional.adaptive_max_pool1d([[[1.0], [2.0], [6.0]]], 2).tolist()
    [[[2.0], [6.0]]]
    """
    return _adaptive_pool(1, x, output_size, layout, _adaptive_largest)


@composed
def adaptive_max_pool2d(x: ArrayLike, output_size: PoolSize, *, layout: Layout = "NHWC") -> Tensor:
    """Return the largest elements of windows of images; see `adaptive_avg_pool2d`.

    >>> pb.nn.functional.adaptive_max_pool2d(pb.arange(9.0).reshape(1, 3, 3, 1), 1).item()
    8.0
    """
    return _adaptive_pool(2, x, output_size, layout, _adaptive_largest)


@composed
def adaptive_max_pool3d(x: ArrayLike, output_size: PoolSize, *, layout: Layout = "NHWC") -> Tensor:
    """Return the largest elements of windows of volumes; see `adaptive_avg_pool2d`.

    >>> pb.nn.functional.adaptive_max_pool3d(pb.ones((1, 4, 5, 6, 3)), 2).shape
    (1, 2, 2, 2, 3)
    """
    return _adaptive_pool(3, x, output_size, layout, _adaptive_largest)


# From elements along an axis, and a mask of those that count or `None`, to one
Pooled = Callable[[Tensor, int, "np.ndarray | None"], Tensor]


def _adaptive_pool(rank: int, x: ArrayLike, size: PoolSize, layout: str, pooled: Pooled) -> Tensor:
    images, single = images_channels_last(functional_float_argument(x), rank, layout)
    given: Sequence[Any] = size if isinstance(size, (tuple, list)) else (size,)
    given = tuple(given) * (rank if len(given) == 1 else 1)
    if len(given) != rank:
        message = f"output_size must be a number, or one for each of {rank} dimensions"
        raise ArgumentError(f"{message}, got {shown_argument(size)}")
    for i, wanted in enumerate(given):
        if wanted is not None:
            images = _adaptive_pool_axis(images, i + 1, wanted, pooled)
    return images_in_layout(images, layout, single)


def adaptive_pool_means(images: Tensor, sizes: Sequence[int]) -> Tensor:
    """The means of windows over images [N, spatial..., C], which `interpolate` needs, too."""
    for i, wanted in enumerate(sizes):
        images = _adaptive_pool_axis(images, i + 1, wanted, _adaptive_mean)
    return images


def _adaptive_pool_axis(x: Tensor, axis: int, wanted: int, pooled: Pooled) -> Tensor:
    """Reduce `wanted` windows along one axis: pooling over a box is pooling along each side."""
    count, n = checked_integer_argument("", wanted, "output_size"), x.shape[axis]
    if count < 1 or n < 1:
        raise ArgumentError(f"output_size must be at least 1, got {count} for {n} elements")
    if n == count:
        return x
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if n % count == 0:
        return pooled(pf.reshape(x, (*before, count, n // count, *after)), axis + 1, None)
    first = np.arange(count) * n // count
    last = -(-(np.arange(count) + 1) * n // count)
    places = first[:, None] + np.arange((last - first).max())
    inside = places < last[:, None]
    parts = pf.take(x, np.minimum(places, n - 1), axis)
    return pooled(parts, axis + 1, inside.reshape(*inside.shape, *(1,) * len(after)))


def _adaptive_mean(x: Tensor, axis: int, inside: np.ndarray | None) -> Tensor:
    if inside is None:
        return pf.mean(x, axis)
    total = pf.sum(pf.where(inside, x, literal_argument(0, x.dtype)), axis)
    return total / literal_argument(inside.sum(1), x.dtype)


def _adaptive_largest(x: Tensor, axis: int, inside: np.ndarray | None) -> Tensor:
    if inside is None:
        return pf.max(x, axis)
    return pf.max(pf.where(inside, x, literal_argument(float("-inf"), x.dtype)), axis)


__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d",
]  # fmt: skip
