"""Shuffled pixels and channels of images."""

from __future__ import annotations

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions import one_hot
from pullback.functions.arguments import checked_integer_argument
from pullback.functions.composed import composed
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import Layout
from pullback.nn.functional.image_layouts import (
    channel_axis_of_layout,
    images_channels_last,
    images_in_layout,
)
from pullback.typing import ArrayLike


@composed
def pixel_shuffle(x: ArrayLike, upscale_factor: int, *, layout: Layout = "NHWC") -> Tensor:
    """Return images [N, H, W, C * r * r] as [N, H * r, W * r, C] (Shi et al., 2016).

    Channel (c * r + i) * r + j becomes row i and column j of each block of channel c.

    >>> x = pb.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
    >>> pb.nn.functional.pixel_shuffle(x, 2)[0, :, :, 0].tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    images, single = images_channels_last(x, 2, layout)
    r = checked_integer_argument("", upscale_factor, "upscale_factor")
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
    r = checked_integer_argument("", downscale_factor, "downscale_factor")
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
    axis = channel_axis_of_layout(a, layout)
    count = checked_integer_argument("", groups, "groups")
    if count < 1 or a.shape[axis] % count:
        raise ArgumentError(f"groups must divide the {a.shape[axis]} channels, got {count}")
    parts = (*a.shape[:axis], count, a.shape[axis] // count, *a.shape[axis + 1 :])
    return pf.reshape(pf.swapaxes(pf.reshape(a, parts), axis, axis + 1), a.shape)


__all__ = [
    "channel_shuffle", "one_hot", "pixel_shuffle", "pixel_unshuffle",
]  # fmt: skip
