"""Combinations of elements."""

from __future__ import annotations

import itertools
import math

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.composed import composed
from pullback.functions.creation import zeros
from pullback.functions.shape import flatten, one_axis_shape, reshaped_to, spread_to_shape
from pullback.functions.stacking import stack
from pullback.functions.where_take import take
from pullback.typing import ArrayLike

MOST = 2**28  # indices that combinations are made of


def cartesian_prod(*xs: ArrayLike) -> Tensor:
    """Return all combinations of elements of vectors, as rows; of one vector, the vector itself.

    >>> pb.cartesian_prod([1, 2], [8, 9]).tolist()
    [[1, 8], [1, 9], [2, 8], [2, 9]]
    """
    tensors = [as_tensor(x) for x in xs]
    for t in tensors:
        if t.ndim != 1:
            raise ShapeError(f"cartesian_prod: needs vectors, got {t._node.type}")
    if len(tensors) == 1:
        return tensors[0]
    shape = tuple(t.size for t in tensors)
    lines = [reshaped_to(t, one_axis_shape(i, t.size, len(shape))) for i, t in enumerate(tensors)]
    return stack([flatten(spread_to_shape(line, shape)) for line in lines], axis=-1)


@composed
def combinations(x: ArrayLike, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all combinations of `r` elements of a vector, as rows, as `itertools` orders them.

    >>> pb.combinations([1, 2, 3]).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    a = as_tensor(x)
    if a.ndim != 1 or r < 0:
        raise ShapeError(f"needs a vector and r >= 0, got {a._node.type} and {r}")
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    count = math.comb(a.size + r - 1, r) if with_replacement and a.size else math.comb(a.size, r)
    if count * r > MOST:
        raise ArgumentError(f"there are too many combinations of r = {r} elements of {a.size}")
    found = list(chosen(range(a.size), r)) if r and count else []
    if not found:
        return zeros((0, r) if r else (0,), dtype=a.dtype)
    return take(a, np.array(found))


__all__ = ["cartesian_prod", "combinations"]
