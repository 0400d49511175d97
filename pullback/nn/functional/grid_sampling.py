"""Sampling of images at given places.

Images are [N, spatial..., C] with layout="NHWC" and [N, C, spatial...] with layout="NCHW"; grids
are [N, spatial..., 2] or [N, spatial..., 3] in both.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Literal

import numpy as np

from pullback import functions as pf
from pullback.errors import ShapeError
from pullback.functions.arguments import float_arguments, literal_argument, shape_argument
from pullback.functions.composed import composed
from pullback.graph.dtypes import int64
from pullback.lazy.tensor import Tensor, wrap
from pullback.nn.functional.arguments import (
    Layout,
    functional_choice_argument,
    functional_float_argument,
    narrowed_to_functional_argument,
    widened_functional_argument,
)
from pullback.nn.functional.image_layouts import (
    images_channels_last,
    images_in_layout,
    is_layout_channels_first,
)
from pullback.nn.functional.interpolation import cubic_interpolation_weights
from pullback.typing import ArrayLike, Shape


@composed
def grid_sample(
    x: ArrayLike, grid: ArrayLike, mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros", align_corners: bool = False,
    *, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Return the values of images at the places of a grid, between pixels by interpolation.

    The last axis of the grid has the coordinates x, y (and z), from -1 to 1: the borders of the
    image, or with `align_corners` the centres of its outer pixels. Places outside have the value 0,
    that of the nearest pixel ("border"), or that of the place mirrored at the border
    ("reflection"). "bicubic" takes images with two spatial dimensions.

    >>> x = pb.tensor([[[[0.0], [4.0]]]])
    >>> grid = pb.tensor([[[[0.0, 0.0], [-0.5, 0.0], [0.25, 0.0]]]])
    >>> pb.nn.functional.grid_sample(x, grid).flatten().tolist()
    [2.0, 0.0, 3.0]
    """
    functional_choice_argument(mode, ("bilinear", "nearest", "bicubic"), "mode")
    functional_choice_argument(padding_mode, ("zeros", "border", "reflection"), "padding_mode")
    a, g = map(wrap, float_arguments(x, grid))
    rank = a.ndim - 2
    wanted = rank in (2, 3) and g.ndim == a.ndim and g.shape[-1] == rank
    if not wanted or g.shape[0] != a.shape[0] or (mode == "bicubic" and rank != 2):
        given = f"got {a._node.type} and {g._node.type}"
        raise ShapeError(f"needs images of 2 or 3 spatial dimensions and a grid for each, {given}")
    images, single = images_channels_last(a, rank, layout)
    wide, places = widened_functional_argument(images), widened_functional_argument(g)
    sampler = _GridSampler(wide, padding_mode, align_corners)
    coordinates = [sampler.unscaled(places[..., rank - 1 - i], i) for i in range(rank)]
    if mode == "nearest":
        found = sampler.at([pf.round(sampler.folded(c, i)) for i, c in enumerate(coordinates)])
    elif mode == "bilinear":
        found = _bilinear_grid_sample(
            sampler, [sampler.folded(c, i) for i, c in enumerate(coordinates)]
        )
    else:
        found = _bicubic_grid_sample(sampler, coordinates)
    return images_in_layout(narrowed_to_functional_argument(found, a.dtype), layout, single)


class _GridSampler:
    """Images [N, spatial..., C], and how places outside of them are treated."""

    def __init__(self, images: Tensor, padding_mode: str, align_corners: bool) -> None:
        self.images, self.padding_mode, self.align_corners = images, padding_mode, align_corners
        self.sizes = images.shape[1:-1]

    def unscaled(self, c: Tensor, i: int) -> Tensor:
        """Coordinates from -1 to 1 as places of pixels along spatial dimension i."""
        n = self.sizes[i]
        return (c + 1) * ((n - 1) / 2) if self.align_corners else ((c + 1) * n - 1) / 2

    def folded(self, c: Tensor, i: int) -> Tensor:
        """Places moved into the image, as the padding mode says."""
        n = self.sizes[i]
        if self.padding_mode == "zeros":
            return c
        if self.padding_mode == "reflection":
            low, high = (0.0, n - 1.0) if self.align_corners else (-0.5, n - 0.5)
            if low == high:
                return c * 0
            period = 2 * (high - low)
            c = (c - low) % period
            c = pf.where(c > high - low, period - c, c) + low
        return pf.clip(c, 0.0, n - 1.0)

    def at(self, places: Sequence[Tensor]) -> Tensor:
        """The pixels at whole places; 0 outside."""
        within = [(c >= 0) & (c <= n - 1) for c, n in zip(places, self.sizes)]
        inside = functools.reduce(operator.and_, within)
        index = [pf.where(i, c, 0).astype(int64) for c, i in zip(places, within)]
        shape = (-1, *(1,) * len(self.sizes))
        batch = pf.reshape(pf.arange(self.images.shape[0]), shape)
        found = self.images[(batch, *index)]
        zero = literal_argument(0, found.dtype)
        return pf.where(pf.expand_dims(inside, -1), found, zero)


def _bilinear_grid_sample(sampler: _GridSampler, places: Sequence[Tensor]) -> Tensor:
    first = [pf.floor(c).detach() for c in places]
    parts = [c - f for c, f in zip(places, first)]
    products = []
    for corner in itertools.product((0, 1), repeat=len(places)):
        factors = [part if far else 1 - part for part, far in zip(parts, corner)]
        found = sampler.at([f + far for f, far in zip(first, corner)])
        products.append(found * pf.expand_dims(functools.reduce(operator.mul, factors), -1))
    return functools.reduce(operator.add, products)


def _bicubic_grid_sample(sampler: _GridSampler, places: Sequence[Tensor]) -> Tensor:
    first = [pf.floor(c).detach() for c in places]
    weights = [cubic_interpolation_weights(c - f) for c, f in zip(places, first)]
    products = []
    for i, j in itertools.product(range(4), repeat=2):
        whole = [first[0] + (i - 1), first[1] + (j - 1)]
        found = sampler.at([sampler.folded(c, axis) for axis, c in enumerate(whole)])
        products.append(found * pf.expand_dims(weights[0][i] * weights[1][j], -1))
    return functools.reduce(operator.add, products)


@composed
def affine_grid(
    theta: ArrayLike, size: Shape, align_corners: bool = False, *, layout: Layout = "NHWC"
) -> Tensor:
    """Return the grid for `grid_sample` that affine maps [N, 2, 3] (or [N, 3, 4]) give.

    A map takes coordinates of the result, from -1 to 1, to coordinates of the image. `size` is the
    shape of the result of `grid_sample`: (N, H, W, C), or (N, C, H, W) with `layout="NCHW"`.

    >>> identity = [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    >>> pb.nn.functional.affine_grid(identity, (1, 1, 2, 3)).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    t, sizes = functional_float_argument(theta), shape_argument("affine_grid", size)
    rank = len(sizes) - 2
    if rank not in (2, 3) or t.shape != (sizes[0], rank, rank + 1):
        message = f"needs theta [N, 2, 3] or [N, 3, 4] and the size of a result, got {list(sizes)}"
        raise ShapeError(f"{message} and {t._node.type}")
    spatial = sizes[2:] if is_layout_channels_first(layout) else sizes[1:-1]
    lines = [_grid_sampling_positions(n, align_corners) for n in spatial]
    grids = np.meshgrid(*lines, indexing="ij")[::-1]
    points = literal_argument(np.stack([*grids, np.ones(spatial)], -1), t.dtype)
    return pf.einsum("...k,njk->n...j", points, t)


def _grid_sampling_positions(n: int, align_corners: bool) -> np.ndarray:
    if align_corners:
        return np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
    return (np.arange(n) * 2 + 1) / n - 1


__all__ = ["affine_grid", "grid_sample"]
