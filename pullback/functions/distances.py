"""Distances between points."""

from __future__ import annotations

import numpy as np

from pullback.errors import ShapeError
from pullback.functions.arguments import Tensor, float_arguments, float_node
from pullback.functions.composed import composed
from pullback.functions.normalizing import length_for_normalizing, normalize
from pullback.functions.reductions import sum
from pullback.functions.shape import expand_dims
from pullback.functions.where_take import take
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike


@composed
def cdist(x: ArrayLike, y: ArrayLike, p: float = 2.0) -> Tensor:
    """Return the distance of each row of x [..., m, d] from each row of y [..., n, d], [..., m, n].

    It is the p-norm of their difference; for p = 0 the number of coordinates that differ.

    >>> pb.cdist([[0.0, 0.0], [3.0, 0.0]], [[0.0, 4.0]]).tolist()
    [[4.0], [5.0]]
    """
    a, b = map(wrap, float_arguments(x, y))
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        given = f"got {a._node.type} and {b._node.type}"
        raise ShapeError(f"needs points [..., m, d] and [..., n, d], {given}")
    return length_for_normalizing(expand_dims(a, -2) - expand_dims(b, -3), p)


@composed
def pdist(x: ArrayLike, p: float = 2.0) -> Tensor:
    """Return the distances of all pairs of rows of a matrix, as a vector: first those of row 0.

    >>> pb.pdist([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]).tolist()
    [3.0, 4.0, 5.0]
    """
    a = wrap(float_node(x))
    if a.ndim != 2:
        raise ShapeError(f"needs a matrix, got {a._node.type}")
    first, second = np.triu_indices(a.shape[0], 1)
    return length_for_normalizing(take(a, first, 0) - take(a, second, 0), p)


@composed
def pairwise_distance(
    x: ArrayLike, y: ArrayLike, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> Tensor:
    """Return the p-norm of x - y + eps along the last axis.

    >>> pb.pairwise_distance([[3.0, 0.0]], [[0.0, 4.0]], eps=0.0).tolist()
    [5.0]
    """
    a, b = map(wrap, float_arguments(x, y))
    return length_for_normalizing(a - b + eps, p, keepdims=keepdims)


@composed
def dist(x: ArrayLike, y: ArrayLike, p: float = 2.0) -> Tensor:
    """Return the p-norm of all elements of x - y.

    >>> pb.dist([3.0, 0.0], [0.0, 4.0]).item()
    5.0
    """
    a, b = map(wrap, float_arguments(x, y))
    return length_for_normalizing((a - b).reshape(-1), p)


@composed
def cosine_similarity(x: ArrayLike, y: ArrayLike, axis: int = -1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along an axis; lengths are at least `eps`.

    >>> pb.cosine_similarity([3.0, 4.0], [0.0, 2.0]).item()
    0.8...
    """
    a, b = map(wrap, float_arguments(x, y))
    a, b = a + b * 0, b + a * 0 if a.shape != b.shape else b
    a, b = (normalize(v, 2.0, axis, eps) for v in (a, b))
    return sum(a * b, axis=axis)


__all__ = [
    "cdist", "cosine_similarity", "dist", "pairwise_distance", "pdist",
]  # fmt: skip
