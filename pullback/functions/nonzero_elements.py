"""Indices of nonzero elements."""

from __future__ import annotations

import numpy as np

from pullback.functions.arguments import Tensor
from pullback.functions.composed import composed
from pullback.functions.creation import created_from_array
from pullback.functions.where_take import where_condition_indices
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.operators import as_tensor
from pullback.typing import ArrayLike


def nonzero(x: ArrayLike) -> tuple[Tensor, ...]:
    """Return the indices of nonzero elements, one vector for each dimension; `x` is evaluated.

    >>> [i.tolist() for i in pb.nonzero([[1, 0], [0, 2]])]
    [[0, 1], [0, 1]]
    """
    return where_condition_indices("nonzero", x)


@composed
def argwhere(x: ArrayLike) -> Tensor:
    """Return the indices of nonzero elements, one row for each; `x` is evaluated.

    >>> pb.argwhere([[0, 1], [2, 0]]).tolist()
    [[0, 1], [1, 0]]
    """
    return created_from_array(np.argwhere(read_on_host(as_tensor(x))).astype(np.int64))


@composed
def flatnonzero(x: ArrayLike) -> Tensor:
    """Return the indices of nonzero elements in the flattened tensor; `x` is evaluated.

    >>> pb.flatnonzero([[0, 1], [2, 0]]).tolist()
    [1, 2]
    """
    return created_from_array(np.flatnonzero(read_on_host(as_tensor(x))).astype(np.int64))


__all__ = ["argwhere", "flatnonzero", "nonzero"]
