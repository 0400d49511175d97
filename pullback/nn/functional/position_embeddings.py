"""Positions of the elements of a sequence: rotary and sinusoidal embeddings."""

from __future__ import annotations

import numpy as np

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import checked_integer_argument, literal_argument
from pullback.functions.composed import composed
from pullback.graph.dtypes import float32, float64
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import (
    functional_float_argument,
    narrowed_to_functional_argument,
    widened_functional_argument,
)
from pullback.typing import ArrayLike


@composed
def rotary_embedding(
    x: ArrayLike, positions: ArrayLike | None = None, *, base: float = 10000.0,
    rotary_dim: int | None = None, interleaved: bool = False,
) -> Tensor:  # fmt: skip
    """Rotate pairs of features of [..., length, depth] by angles that grow with the position.

    Pair i of d / 2 pairs is rotated by `position * base ** (-2 * i / d)`, where d is `rotary_dim`,
    by default the depth; further features stay. A pair consists of features i and i + d / 2, or
    with `interleaved` of 2 * i and 2 * i + 1. `positions` [..., length] are 0, 1, ... by default.
    The product of a rotated query and a rotated key depends only on the distance of their
    positions (Su et al., 2021).

    >>> x = pb.ones((3, 2))
    >>> pb.nn.functional.rotary_embedding(x).round(3).tolist()[0]
    [1.0, 1.0]
    """
    a = functional_float_argument(x)
    if a.ndim < 2:
        raise ShapeError(f"needs [..., length, depth], got {a._node.type}")
    depth = (
        a.shape[-1]
        if rotary_dim is None
        else checked_integer_argument("", rotary_dim, "rotary_dim")
    )
    if depth % 2 or not 0 < depth <= a.shape[-1]:
        message = "the number of rotated features must be even and at most the depth"
        raise ArgumentError(f"{message}, got {depth} for {a._node.type}")
    wide = widened_functional_argument(a)
    places = pf.arange(a.shape[-2]) if positions is None else as_tensor(positions)
    if places.dtype.is_complex or not places.ndim:
        raise ShapeError(f"positions must be real and [..., length], got {places._node.type}")
    angles = _rotary_angles(places, depth, base, wide)
    turned = _rotary_rotated(wide[..., :depth], pf.cos(angles), pf.sin(angles), interleaved)
    if depth < a.shape[-1]:
        turned = pf.concat([turned, wide[..., depth:]], axis=-1)
    return narrowed_to_functional_argument(turned, a.dtype)


def _rotary_angles(places: Tensor, depth: int, base: float, like: Tensor) -> Tensor:
    """Angles [..., length, depth / 2], which broadcast with x."""
    speeds = base ** -(np.arange(0, depth, 2) / depth)
    dtype = float64 if like.dtype is float64 else float32
    angles = pf.expand_dims(places.astype(dtype), -1) * literal_argument(speeds, dtype)
    missing = like.ndim - angles.ndim
    if places.ndim > 1 and missing > 0:  # positions of each example hold for all of its heads
        lead = (*places.shape[:-1], *(1,) * missing)
        angles = pf.reshape(angles, (*lead, *angles.shape[-2:]))
    return angles


def _rotary_rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    half = x.shape[-1] // 2
    if not interleaved:
        a, b = x[..., :half], x[..., half:]
        return pf.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)
    a, b = x[..., ::2], x[..., 1::2]
    pairs = pf.stack([a * cos - b * sin, b * cos + a * sin], axis=-1)
    return pf.reshape(pairs, x.shape)


@composed
def sinusoidal_embedding(positions: ArrayLike, depth: int, *, base: float = 10000.0) -> Tensor:
    """Return the vectors [..., depth] of positions: sines and cosines of `depth / 2` frequencies.

    The sines come first; frequency i is `base ** (-2 * i / depth)`.

    >>> pb.nn.functional.sinusoidal_embedding([0, 1], 2).round(3).tolist()
    [[0.0, 1.0], [0.841..., 0.54...]]
    """
    size = checked_integer_argument("", depth, "depth")
    if size < 2 or size % 2:
        raise ArgumentError(f"depth must be even and positive, got {size}")
    places = functional_float_argument(positions)
    speeds = base ** -(np.arange(0, size, 2) / size)
    angles = pf.expand_dims(places, -1) * literal_argument(speeds, places.dtype)
    return pf.concat([pf.sin(angles), pf.cos(angles)], axis=-1)


__all__ = ["rotary_embedding", "sinusoidal_embedding"]
