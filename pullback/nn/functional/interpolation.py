"""Resampling of images to another size.

Images are [N, spatial..., C] with layout="NHWC" and [N, C, spatial...] with layout="NCHW".
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import checked_integer_argument, literal_argument
from pullback.functions.composed import composed
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.adaptive_pooling import adaptive_pool_means
from pullback.nn.functional.arguments import (
    Layout,
    functional_choice_argument,
    functional_float_argument,
    narrowed_to_functional_argument,
    widened_functional_argument,
)
from pullback.nn.functional.image_layouts import images_channels_last, images_in_layout
from pullback.typing import ArrayLike

InterpolationMode = Literal[
    "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"
]
_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area")
CUBIC = -0.75  # the derivative of the cubic kernel at 1


@composed
def interpolate(
    x: ArrayLike, size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None, mode: InterpolationMode = "nearest",
    align_corners: bool = False, recompute_scale_factor: bool = False, *, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Resample images to spatial sizes `size`, or to their sizes times `scale_factor`.

    - "nearest": the element at floor(i * scale); "nearest-exact" measures from the centres
    - "linear" (or "bilinear", "trilinear" by the number of spatial dimensions): between two
      elements along each dimension
    - "bicubic": between four, with the cubic kernel with a = -0.75
    - "area": the mean of the elements that an element of the result covers

    Elements are squares whose centres are half a step from the border, or with `align_corners`
    points, the first and last of which stay in place. Positions are computed with `scale_factor` as
    given, or with `recompute_scale_factor` from the sizes.

    >>> x = pb.tensor([[[0.0], [4.0]]])
    >>> pb.nn.functional.interpolate(x, 4, mode="linear").flatten().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    a = functional_float_argument(x)
    rank = _interpolated_image_rank(a, mode)
    images, single = images_channels_last(a, rank, layout)
    if single:
        raise ShapeError(f"needs images with a first dimension N, got {a._node.type}")
    given = images.shape[1:-1]
    sizes, scales = _interpolated_image_sizes(given, size, scale_factor, recompute_scale_factor)
    if align_corners and mode not in _RANKS:
        raise ArgumentError(f"align_corners has no meaning for mode {mode!r}")
    if mode == "area":
        return images_in_layout(adaptive_pool_means(images, sizes), layout, single)
    wide = images if mode.startswith("nearest") else widened_functional_argument(images)
    for i, (n, wanted, scale) in enumerate(zip(given, sizes, scales)):
        if mode.startswith("nearest"):
            wide = _nearest_interpolation(
                wide, i + 1, wanted, scale, 0.5 if mode == "nearest-exact" else 0.0
            )
        else:
            places = _image_interpolation_places(n, wanted, scale, align_corners)
            taps = (
                _cubic_interpolation_taps(places, n)
                if mode == "bicubic"
                else _linear_interpolation_taps(places, n)
            )
            wide = _weighted_interpolation_taps(wide, i + 1, *taps)
    return images_in_layout(narrowed_to_functional_argument(wide, a.dtype), layout, single)


def _interpolated_image_rank(a: Tensor, mode: str) -> int:
    functional_choice_argument(mode, _MODES, "mode")
    rank = a.ndim - 2
    if not 1 <= rank <= 3:
        raise ShapeError(f"needs images with 1 to 3 spatial dimensions, got {a._node.type}")
    if _RANKS.get(mode, rank) != rank:
        names = ", ".join(f'"{m}"' for m in _MODES if _RANKS.get(m, rank) == rank)
        what = f"mode must be one of {names} for {rank} spatial dimensions"
        raise ArgumentError(f"{what}, got {mode!r}")
    return rank


def _interpolated_image_sizes(
    given: Sequence[int], size: Any, factor: Any, recompute: bool
) -> tuple[list[int], list[float]]:
    """The spatial sizes of the result, and how far apart its elements are in the image."""
    if (size is None) == (factor is None):
        raise ArgumentError("needs either size or scale_factor")
    wanted = factor if size is None else size
    many = tuple(wanted) if isinstance(wanted, (tuple, list)) else (wanted,) * len(given)
    if len(many) != len(given):
        what = "scale_factor" if size is None else "size"
        message = f"{what} must be a number, or one for each of {len(given)} dimensions"
        raise ArgumentError(f"{message}, got {shown_argument(wanted)}")
    if size is not None:
        sizes = [checked_integer_argument("", n, "size") for n in many]
    else:
        sizes = [math.floor(n * f) for n, f in zip(given, many)]
    if min(sizes) < 1 or min(given) < 1:
        raise ArgumentError(f"sizes must be at least 1, got {list(given)} to {sizes}")
    if size is None and not recompute:
        return sizes, [1 / f for f in many]
    return sizes, [n / m for n, m in zip(given, sizes)]


def _nearest_interpolation(
    x: Tensor, axis: int, wanted: int, scale: float, offset: float
) -> Tensor:
    n = x.shape[axis]
    if wanted % n == 0 and scale * wanted == n:  # copies, whose gradient is a plain sum
        return x if wanted == n else pf.repeat(x, wanted // n, axis)
    places = np.floor((np.arange(wanted) + offset) * scale).astype(np.int64)
    return pf.take(x, np.minimum(places, n - 1), axis)


def _image_interpolation_places(
    n: int, wanted: int, scale: float, align_corners: bool
) -> np.ndarray:
    """Where the elements of the result are in the image."""
    if align_corners:
        return np.arange(wanted) * ((n - 1) / (wanted - 1) if wanted > 1 else 0.0)
    return (np.arange(wanted) + 0.5) * scale - 0.5


def _linear_interpolation_taps(
    places: np.ndarray, n: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    places = np.maximum(places, 0)
    first = np.minimum(places.astype(np.int64), n - 1)
    part = places - first
    return [first, np.minimum(first + 1, n - 1)], [1 - part, part]


def _cubic_interpolation_taps(
    places: np.ndarray, n: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    first = np.floor(places)
    weights = cubic_interpolation_weights(places - first)
    taps = [np.clip(first.astype(np.int64) + i - 1, 0, n - 1) for i in range(4)]
    return taps, weights


def cubic_interpolation_weights(t: Any) -> list[Any]:
    """The weights of four neighbours, of which the second is `t` before the place."""
    far, near = (
        (_cubic_interpolation_far(t + 1), _cubic_interpolation_far(2 - t)),
        (_cubic_interpolation_near(t), _cubic_interpolation_near(1 - t)),
    )
    return [far[0], near[0], near[1], far[1]]


def _cubic_interpolation_near(t: Any) -> Any:
    return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1


def _cubic_interpolation_far(t: Any) -> Any:
    return ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC


def _weighted_interpolation_taps(
    x: Tensor, axis: int, taps: list[np.ndarray], weights: list[np.ndarray]
) -> Tensor:
    shape = (-1, *(1,) * (x.ndim - axis - 1))
    parts = [
        pf.take(x, places, axis) * literal_argument(weight.reshape(shape), x.dtype)
        for places, weight in zip(taps, weights)
    ]
    return functools.reduce(operator.add, parts)


__all__ = ["interpolate"]
