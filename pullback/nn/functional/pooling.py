"""Pooling: the largest element, the mean or the p-norm of windows over spatial dimensions.

Images are [N, spatial..., C] with layout="NHWC" and [N, C, spatial...] with layout="NCHW"; the
dimension N may be missing.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from pullback import functions as pf
from pullback.errors import ArgumentError
from pullback.functions.arguments import literal_argument
from pullback.functions.composed import composed
from pullback.graph.dtypes import int64
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import Layout, functional_float_argument
from pullback.nn.functional.image_layouts import (
    image_layout_numbers,
    images_channels_last,
    images_in_layout,
)
from pullback.ops.conv.window_extrema import WindowIndex, WindowMax
from pullback.ops.conv.window_reduce import WindowSum
from pullback.ops.conv.windows import dilated_window
from pullback.typing import ArrayLike, Shape

Numbers = tuple[int, ...]


class FunctionalPoolWindow(NamedTuple):
    """Windows over spatial dimensions; `padding` has what `ceil_mode` adds at the end, too."""

    size: Numbers
    stride: Numbers
    border: Numbers  # the padding that the user gave, the same on both sides
    dilation: Numbers
    padding: tuple[tuple[int, int], ...]

    def parameters(self) -> tuple[Any, ...]:
        """Those of a window op, for [N, spatial..., C]."""
        whole = ((1, *numbers, 1) for numbers in (self.size, self.stride, self.dilation))
        size, stride, dilation = whole
        return size, stride, ((0, 0), *self.padding, (0, 0)), dilation


@overload
def max_pool1d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ...,
    dilation: Shape = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ..., *,
    layout: Layout = ...,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool1d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ...,
    dilation: Shape = ..., ceil_mode: bool = ..., *, return_indices: Literal[True],
    layout: Layout = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@composed
def max_pool1d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = None, padding: Shape = 0,
    dilation: Shape = 1, ceil_mode: bool = False, return_indices: bool = False, *,
    layout: Layout = "NHWC",
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Return the largest element of each window of sequences [N, L, C]; see `max_pool2d`.

    >>> pb.nn.functional.max_pool1d([[[1.0], [3.0], [2.0], [0.0]]], 2).tolist()
    [[[3.0], [2.0]]]
    """
    return _max_pool(
        1, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout
    )


@overload
def max_pool2d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ...,
    dilation: Shape = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ..., *,
    layout: Layout = ...,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool2d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ...,
    dilation: Shape = ..., ceil_mode: bool = ..., *, return_indices: Literal[True],
    layout: Layout = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@composed
def max_pool2d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = None, padding: Shape = 0,
    dilation: Shape = 1, ceil_mode: bool = False, return_indices: bool = False, *,
    layout: Layout = "NHWC",
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Return the largest element of each window of images [N, H, W, C].

    Windows are `stride` apart, by default as far as they are wide. Padding never is the largest. A
    last window that is partly outside counts only with `ceil_mode`. With `return_indices`, the
    positions of the largest elements in the flattened spatial dimensions are returned, too.

    >>> pb.nn.functional.max_pool2d(pb.arange(16.0).reshape(1, 4, 4, 1), 2).flatten().tolist()
    [5.0, 7.0, 13.0, 15.0]
    """
    return _max_pool(
        2, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout
    )


@overload
def max_pool3d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ...,
    dilation: Shape = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ..., *,
    layout: Layout = ...,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool3d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ...,
    dilation: Shape = ..., ceil_mode: bool = ..., *, return_indices: Literal[True],
    layout: Layout = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@composed
def max_pool3d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = None, padding: Shape = 0,
    dilation: Shape = 1, ceil_mode: bool = False, return_indices: bool = False, *,
    layout: Layout = "NHWC",
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Return the largest element of each window of volumes [N, D, H, W, C]; see `max_pool2d`.

    >>> pb.nn.functional.max_pool3d(pb.ones((1, 4, 4, 4, 2)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _max_pool(
        3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout
    )


@composed
def avg_pool1d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = None, padding: Shape = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, *, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Return the mean of each window of sequences [N, L, C]; see `avg_pool2d`.

    >>> pb.nn.functional.avg_pool1d([[[1.0], [3.0], [2.0], [0.0]]], 2).tolist()
    [[[2.0], [1.0]]]
    """
    return _avg_pool(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad, None, layout)


@composed
def avg_pool2d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = None, padding: Shape = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None, *,
    layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Return the mean of each window of images [N, H, W, C].

    Padding counts as zeros, unless `count_include_pad=False`. `divisor_override` replaces the
    number of elements. (`pb.avg_pool` never counts padding.)

    >>> pb.nn.functional.avg_pool2d(pb.ones((1, 2, 2, 1)), 2, padding=1).flatten().tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return _avg_pool(
        2, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, layout
    )


@composed
def avg_pool3d(
    x: ArrayLike, kernel_size: Shape, stride: Shape | None = None, padding: Shape = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None, *,
    layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Return the mean of each window of volumes [N, D, H, W, C]; see `avg_pool2d`.

    >>> pb.nn.functional.avg_pool3d(pb.ones((1, 4, 4, 4, 2)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _avg_pool(
        3, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, layout
    )


@composed
def lp_pool1d(
    x: ArrayLike, norm_type: float, kernel_size: Shape, stride: Shape | None = None,
    ceil_mode: bool = False, *, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Return the root of the summed powers of each window of sequences; see `lp_pool2d`.

    >>> pb.nn.functional.lp_pool1d([[[3.0], [4.0]]], 2, 2).tolist()
    [[[5.0]]]
    """
    return _lp_pool(1, x, norm_type, kernel_size, stride, ceil_mode, layout)


@composed
def lp_pool2d(
    x: ArrayLike, norm_type: float, kernel_size: Shape, stride: Shape | None = None,
    ceil_mode: bool = False, *, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Return `sum(x ** norm_type) ** (1 / norm_type)` for each window of images [N, H, W, C].

    Windows that `ceil_mode` cuts off count as if their missing elements were like the others.

    >>> pb.nn.functional.lp_pool2d([[[[3.0], [4.0]]]], 2, (1, 2)).tolist()
    [[[[5.0]]]]
    """
    return _lp_pool(2, x, norm_type, kernel_size, stride, ceil_mode, layout)


@composed
def lp_pool3d(
    x: ArrayLike, norm_type: float, kernel_size: Shape, stride: Shape | None = None,
    ceil_mode: bool = False, *, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Return the root of the summed powers of each window of volumes; see `lp_pool2d`.

    >>> pb.nn.functional.lp_pool3d(pb.ones((1, 2, 2, 2, 1)), 3.0, 2).item()
    2.0
    """
    return _lp_pool(3, x, norm_type, kernel_size, stride, ceil_mode, layout)


def _max_pool(
    rank: int, x: ArrayLike, kernel_size: Shape, stride: Shape | None, padding: Shape,
    dilation: Shape, ceil_mode: bool, return_indices: bool, layout: str,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    images, single = images_channels_last(x, rank, layout)
    window = functional_pool_window(images, kernel_size, stride, padding, dilation, ceil_mode)
    largest = record(WindowMax(*window.parameters()), (node_of(images),))
    found = images_in_layout(largest, layout, single)
    if not return_indices:
        return found
    return found, images_in_layout(_pooled_positions(images, window), layout, single)


def _pooled_positions(images: Tensor, window: FunctionalPoolWindow) -> Tensor:
    """Where the largest elements are in the flattened spatial dimensions."""
    tap = record(WindowIndex(*window.parameters()), (node_of(images),)).astype(int64)
    counts, rank = tap.shape[1:-1], len(window.size)
    place = literal_argument(0, int64)
    taps = []
    for size in reversed(window.size):
        taps.append(tap % size)
        tap = tap // size
    for i, within in enumerate(reversed(taps)):
        start = np.arange(counts[i]) * window.stride[i] - window.padding[i][0]
        start = start.reshape(-1, *(1,) * (rank - i))
        index = within * window.dilation[i] + literal_argument(start, int64)
        place = place * images.shape[1 + i] + index
    return place


def _avg_pool(
    rank: int, x: ArrayLike, kernel_size: Shape, stride: Shape | None, padding: Shape,
    ceil_mode: bool, count_include_pad: bool, divisor: int | None, layout: str,
) -> Tensor:  # fmt: skip
    images, single = images_channels_last(functional_float_argument(x), rank, layout)
    window = functional_pool_window(images, kernel_size, stride, padding, 1, ceil_mode)
    total = record(WindowSum(*window.parameters()), (node_of(images),))
    if divisor is None:
        counts = _pooled_counts(images, window, count_include_pad)
    elif divisor == 0:
        raise ArgumentError("divisor_override must not be 0")
    else:
        counts = np.asarray(divisor)
    return images_in_layout(total / literal_argument(counts, total.dtype), layout, single)


def _pooled_counts(images: Tensor, window: FunctionalPoolWindow, with_padding: bool) -> np.ndarray:
    """The number of elements of each window, an array that broadcasts with the result."""
    total: Any = np.ones((), np.int64)
    for i, n in enumerate(images.shape[1:-1]):
        size, step, border = window.size[i], window.stride[i], window.border[i]
        count = (n + sum(window.padding[i]) - size) // step + 1
        first = np.arange(max(count, 0)) * step - border
        last = np.minimum(first + size, n + border)  # what `ceil_mode` adds is never counted
        if not with_padding:
            first, last = np.maximum(first, 0), np.minimum(last, n)
        total = total[..., None] * (last - first)
    return total.flat[0] if total.size and (total == total.flat[0]).all() else total[..., None]


def _lp_pool(
    rank: int, x: ArrayLike, norm_type: float, kernel_size: Shape, stride: Shape | None,
    ceil_mode: bool, layout: str,
) -> Tensor:  # fmt: skip
    if norm_type <= 0:
        raise ArgumentError(f"norm_type must be positive, got {norm_type}")
    powers = functional_float_argument(x) ** norm_type
    means = _avg_pool(rank, powers, kernel_size, stride, 0, ceil_mode, True, None, layout)
    size = math.prod(image_layout_numbers(kernel_size, rank, "kernel_size", least=1))
    return (pf.relu(means) * size) ** (1 / norm_type)


def functional_pool_window(
    images: Tensor, kernel_size: Shape, stride: Shape | None, padding: Shape, dilation: Shape,
    ceil_mode: bool,
) -> FunctionalPoolWindow:  # fmt: skip
    """The windows over images [N, spatial..., C]."""
    rank = images.ndim - 2
    size = image_layout_numbers(kernel_size, rank, "kernel_size", least=1)
    step = size if stride is None else image_layout_numbers(stride, rank, "stride", least=1)
    border = image_layout_numbers(padding, rank, "padding")
    apart = image_layout_numbers(dilation, rank, "dilation", least=1)
    if any(2 * p > dilated_window(k, d) for p, k, d in zip(border, size, apart)):
        message = "padding must be at most half of kernel_size"
        raise ArgumentError(f"{message}, got {list(border)} and {list(size)}")
    sides = zip(images.shape[1:-1], size, step, border, apart)
    pads = tuple(
        (p, p + _pool_cut_off(n, k, s, p, d) if ceil_mode else p) for n, k, s, p, d in sides
    )
    return FunctionalPoolWindow(size, step, border, apart, pads)


def _pool_cut_off(n: int, size: int, stride: int, border: int, dilation: int) -> int:
    """What must be added at the end for a last window that begins inside."""
    over = (n + 2 * border - dilated_window(size, dilation)) % stride
    begins = n + 2 * border - dilated_window(size, dilation) - over + stride
    return stride - over if over and begins < n + border else 0


__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool2d", "max_pool3d",
]  # fmt: skip
