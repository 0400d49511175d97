"""Patches of images: unfolding and folding."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence

from pullback import functions as pf
from pullback.errors import ShapeError
from pullback.functions.arguments import literal_argument
from pullback.functions.composed import composed
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import Layout
from pullback.nn.functional.image_layouts import (
    image_layout_numbers,
    images_channels_last,
    images_in_layout,
)
from pullback.ops.conv.windows import dilated_window
from pullback.ops.shape.concat_pad import Pad
from pullback.typing import ArrayLike, Shape

Geometry = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


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
    sizes = image_layout_numbers(output_size, 2, "output_size", least=1)
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


def _patch_geometry(size: Shape, dilation: Shape, padding: Shape, stride: Shape) -> Geometry:
    return (
        image_layout_numbers(size, 2, "kernel_size", least=1),
        image_layout_numbers(dilation, 2, "dilation", least=1),
        image_layout_numbers(padding, 2, "padding"),
        image_layout_numbers(stride, 2, "stride", least=1),
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
    return record(Pad(low, high, between), (node_of(x), literal_argument(0, x.dtype)._node))


__all__ = ["fold", "unfold"]
