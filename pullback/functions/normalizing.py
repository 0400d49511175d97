"""Vectors scaled to a norm."""

from __future__ import annotations

import math

from pullback.errors import ArgumentError
from pullback.functions.arguments import Tensor, axis_argument, float_node
from pullback.functions.arithmetic import abs as absolute
from pullback.functions.arithmetic import clip
from pullback.functions.composed import composed
from pullback.functions.reductions import sum
from pullback.functions.statistics import norm
from pullback.functions.where_take import where
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike


@composed
def normalize(x: ArrayLike, p: float = 2.0, axis: int = -1, eps: float = 1e-12) -> Tensor:
    """Return vectors along an axis divided by their p-norm, which counts as at least `eps`.

    >>> pb.normalize([3.0, 4.0]).tolist()
    [0.6000..., 0.8...]
    """
    a = wrap(float_node(x))
    length = length_for_normalizing(a, p, axis, keepdims=True)
    return a / clip(length, eps, None)


@composed
def renorm(x: ArrayLike, p: float, axis: int, maxnorm: float) -> Tensor:
    """Return x with slices along an axis scaled down to a p-norm of at most `maxnorm`.

    >>> pb.renorm([[3.0, 4.0], [0.5, 0.0]], 2.0, 0, 1.0).tolist()
    [[0.6000..., 0.8...], [0.5, 0.0]]
    """
    a = wrap(float_node(x))
    place = axis_argument("renorm", axis, a.ndim)
    if p <= 0 or maxnorm < 0:
        raise ArgumentError(f"p must be positive, maxnorm not negative, got {p} and {maxnorm}")
    others = tuple(i for i in range(a.ndim) if i != place)
    length = length_for_normalizing(a, p, others, keepdims=True)
    large = length > maxnorm
    return where(large, a * (maxnorm / where(large, length + 1e-7, 1)), a)


def length_for_normalizing(
    x: Tensor, p: float, axis: int | tuple[int, ...] = -1, keepdims: bool = False
) -> Tensor:
    """The p-norm along axes, for every p; 0 counts the elements that are not 0."""
    if math.isnan(p):
        raise ArgumentError("p must not be NaN")
    if p == 0:
        return sum((x != 0).astype(x.dtype.real), axis=axis, keepdims=keepdims)
    if not x.size:
        return sum(absolute(x), axis=axis, keepdims=keepdims)
    if p > 0 or p == -math.inf:
        return norm(x, axis=axis, keepdims=keepdims, ord=p)
    return sum(absolute(x) ** p, axis=axis, keepdims=keepdims) ** (1 / p)


__all__ = ["normalize", "renorm"]
