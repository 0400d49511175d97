"""Rearrangements of images: shuffled pixels and channels, patches, padding."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Literal

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions import one_hot
from pullback.functions.arguments import integer, literal
from pullback.functions.composed import composed
from pullback.graph.arguments import shown
from pullback.lazy.operators import as_tensor, node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import (
    Layout,
    channel_axis,
    images_channels_last,
    images_in_layout,
    one_of,
    spatial_numbers,
)
from pullback.ops.conv.windows import dilated_window
from pullback.ops.shape.concat_pad import Pad
from pullback.typing import ArrayLike, Shape


@composed
def pixel_shuffle(x: ArrayLike, upscale_factor: int, *, layout: Layout = "NHWC") -> Tensor:
    """Return images [N, H, W, C * r * r] as [N, H * r, W * r, C] (Shi et al., 2016).

    Channel (c * r + i) * r + j becomes row i and column j of each block of channel c.

    >>> x = pb.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
    >>> pb.nn.functional.pixel_shuffle(x, 2)[0, :, :, 0].tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    images, single = images_channels_last(x, 2, layout)
    r = integer("", upscale_factor, "upscale_factor")
    n, h, w, c = images.shape
    if r < 1 or c % (r * r):
        raise ShapeError(f"the channels must be divisible by {r} * {r}, got {images._node.type}")
    parts = pf.reshape(images, (n, h, w, c // (r * r), r, r))
    parts = pf.permute_dims(parts, (0, 1, 4, 2, 5, 3))
    made = pf.reshape(parts, (n, h * r, w * r, c // (r * r)))
    return images_in_layout(made, layout, single)


@composed
def pixel_unshuffle(x: ArrayLike, downscale_factor: int, *, layout: Layout = "NHWC") -> Tensor:
    """Return images [N, H * r, W * r, C] as [N, H, W, C * r * r], undoing `pixel_shuffle`.

    >>> pb.nn.functional.pixel_unshuffle([[[[1.0], [2.0]], [[3.0], [4.0]]]], 2).tolist()
    [[[[1.0, 2.0, 3.0, 4.0]]]]
    """
    images, single = images_channels_last(x, 2, layout)
    r = integer("", downscale_factor, "downscale_factor")
    n, h, w, c = images.shape
    if r < 1 or h % r or w % r:
        raise ShapeError(f"height and width must be divisible by {r}, got {images._node.type}")
    parts = pf.reshape(images, (n, h // r, r, w // r, r, c))
    parts = pf.permute_dims(parts, (0, 1, 3, 5, 2, 4))
    made = pf.reshape(parts, (n, h // r, w // r, c * r * r))
    return images_in_layout(made, layout, single)


@composed
def channel_shuffle(x: ArrayLike, groups: int, *, layout: Layout = "NHWC") -> Tensor:
    """Interleave the channels of `groups` groups (Zhang et al., 2018).

    >>> pb.nn.functional.channel_shuffle([[1.0, 2.0, 3.0, 4.0]], 2).tolist()
    [[1.0, 3.0, 2.0, 4.0]]
    """
    a = as_tensor(x)
    axis = channel_axis(a, layout)
    count = integer("", groups, "groups")
    if count < 1 or a.shape[axis] % count:
        raise ArgumentError(f"groups must divide the {a.shape[axis]} channels, got {count}")
    parts = (*a.shape[:axis], count, a.shape[axis] // count, *a.shape[axis + 1 :])
    return pf.reshape(pf.swapaxes(pf.reshape(a, parts), axis, axis + 1), a.shape)


@composed
def unfold(
    x: ArrayLike, kernel_size: Shape, dilation: Shape = 1, padding: Shape = 0, stride: Shape = 1,
    *, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Return the patches of images [N, H, W, C] as rows [N, L, C * h * w].

    The features of a patch are ordered by channel, then row, then column. With layout="NCHW" the
    result is [N, C * h * w, L].

    >>> pb.nn.functional.unfold(pb.arange(9.0).reshape(1, 3, 3, 1), 2)[0, 0].tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    images, single = images_channels_last(x, 2, layout)
    geometry = _patch_geometry(kernel_size, dilation, padding, stride)
    size, _, border, _ = geometry
    counts = _patch_counts(images.shape[1:-1], geometry)
    full = pf.pad(images, ((0, 0), *((p, p) for p in border), (0, 0)))
    taps = [full[(slice(None), *_patch_slices(tap, counts, geometry))] for tap in _patch_taps(size)]
    stacked = pf.stack(taps, axis=-1)
    rows = (images.shape[0], counts[0] * counts[1], images.shape[-1] * len(taps))
    return images_in_layout(pf.reshape(stacked, rows), layout, single)


@composed
def fold(
    x: ArrayLike, output_size: Shape, kernel_size: Shape, dilation: Shape = 1, padding: Shape = 0,
    stride: Shape = 1, *, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Add patches [N, L, C * h * w] up to images [N, H, W, C], the transpose of `unfold`.

    >>> pb.nn.functional.fold(pb.ones((1, 2, 2)), (1, 3), (1, 2)).flatten().tolist()
    [1.0, 2.0, 1.0]
    """
    rows, single = images_channels_last(x, 1, layout)
    geometry = _patch_geometry(kernel_size, dilation, padding, stride)
    size, _, border, _ = geometry
    sizes = spatial_numbers(output_size, 2, "output_size", least=1)
    counts = _patch_counts(sizes, geometry)
    taps = _patch_taps(size)
    if rows.shape[1] != counts[0] * counts[1] or rows.shape[-1] % len(taps):
        message = f"needs {counts[0] * counts[1]} patches of a multiple of {len(taps)} features"
        raise ShapeError(f"{message}, got {rows._node.type}")
    channels = rows.shape[-1] // len(taps)
    patches = pf.reshape(rows, (rows.shape[0], *counts, channels, len(taps)))
    full = tuple(n + 2 * p for n, p in zip(sizes, border))
    parts = [
        _spread_patch(patches[..., i], _patch_slices(tap, counts, geometry), full)
        for i, tap in enumerate(taps)
    ]
    total = functools.reduce(operator.add, parts)
    inner = tuple(slice(p, p + n) for n, p in zip(sizes, border))
    return images_in_layout(total[(slice(None), *inner)], layout, single)


Geometry = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _patch_geometry(size: Shape, dilation: Shape, padding: Shape, stride: Shape) -> Geometry:
    return (
        spatial_numbers(size, 2, "kernel_size", least=1),
        spatial_numbers(dilation, 2, "dilation", least=1),
        spatial_numbers(padding, 2, "padding"),
        spatial_numbers(stride, 2, "stride", least=1),
    )


def _patch_taps(size: Sequence[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, size)))


def _patch_counts(sizes: Sequence[int], geometry: Geometry) -> list[int]:
    sides = zip(sizes, *geometry)
    counts = [(n + 2 * p - dilated_window(k, d)) // s + 1 for n, k, d, p, s in sides]
    if min(counts) < 1:
        raise ShapeError(f"the patches do not fit into images of size {list(sizes)}")
    return counts


def _patch_slices(tap: Sequence[int], counts: Sequence[int], geometry: Geometry) -> list[slice]:
    """Where element `tap` of every patch is in the padded images."""
    _, dilation, _, stride = geometry
    starts = [i * d for i, d in zip(tap, dilation)]
    return [slice(i, i + (n - 1) * s + 1, s) for i, n, s in zip(starts, counts, stride)]


def _spread_patch(x: Tensor, places: Sequence[slice], full: Sequence[int]) -> Tensor:
    """One element of every patch, at its places in zeros of the padded size."""
    low = (0, *(p.start for p in places), 0)
    high = (0, *(n - p.stop for p, n in zip(places, full)), 0)
    between = (0, *(p.step - 1 for p in places), 0)
    return record(Pad(low, high, between), (node_of(x), literal(0, x.dtype)._node))


@composed
def pad(
    x: ArrayLike, pad: Sequence[int],
    mode: Literal["constant", "reflect", "replicate", "circular"] = "constant", value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Pad the last axes as in PyTorch: `pad` is (left, right) of the last axis, then of the one
    before it, and so on.

    Negative numbers crop in mode "constant". `pb.pad` takes a pair for each axis, the first axis
    first, and more modes.

    >>> pb.nn.functional.pad([[1.0, 2.0]], (1, 0, 0, 1)).tolist()
    [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]
    """
    a = as_tensor(x)
    one_of(mode, ("constant", "reflect", "replicate", "circular"), "mode")
    widths = [integer("", n, "pad") for n in pad]
    if len(widths) % 2 or len(widths) > 2 * a.ndim:
        message = f"pad must have a pair for some of the last axes of {a._node.type}"
        raise ArgumentError(f"{message}, got {shown(pad)}")
    pairs = list(zip(widths[::2], widths[1::2]))[::-1]
    named = {a.ndim - len(pairs) + i: pair for i, pair in enumerate(pairs)}
    if mode == "constant":
        return pf.pad(a, named, constant_values=value)
    for axis, width in named.items():
        if mode == "reflect" and max(width) >= a.shape[axis]:
            raise ArgumentError(f'mode="reflect" needs pad below {a.shape[axis]}, got {width}')
        if mode == "circular" and max(width) > a.shape[axis]:
            raise ArgumentError(f'mode="circular" needs pad up to {a.shape[axis]}, got {width}')
    how: Literal["edge", "wrap", "reflect"] = {  # type: ignore[assignment]
        "replicate": "edge", "circular": "wrap", "reflect": "reflect"
    }[mode]  # fmt: skip
    return pf.pad(a, named, how)


__all__ = [
    "channel_shuffle", "fold", "one_hot", "pad", "pixel_shuffle", "pixel_unshuffle", "unfold",
]  # fmt: skip
