"""Distinct values. Their number depends on the data, so these functions evaluate the tensor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.shape import flatten
from pullback.functions.where_take import take
from pullback.lazy.host_data import from_host
from pullback.lazy.host_reads import read
from pullback.typing import ArrayLike


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: ArrayLike) -> UniqueAll:
    """Return the sorted distinct values, the index of the first occurrence of each, the index
    among them of each element, and the number of occurrences. Gradients go to first occurrences.

    >>> pb.unique_all([3, 1, 3]).inverse_indices.tolist()
    [1, 0, 1]
    """
    x = as_tensor(x)
    host = read(x)
    _, first, inverse, counts = np.unique(
        host.ravel(), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    found = (first, inverse.reshape(host.shape), counts)
    return UniqueAll(take(flatten(x), first), *[from_host(np.array(a, np.int64)) for a in found])


def unique_counts(x: ArrayLike) -> UniqueCounts:
    """Return the sorted distinct values and the number of occurrences of each.

    >>> pb.unique_counts([3, 1, 3]).counts.tolist()
    [1, 2]
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: ArrayLike) -> UniqueInverse:
    """Return the sorted distinct values and the index among them of each element.

    >>> pb.unique_inverse([3, 1, 3]).values.tolist()
    [1, 3]
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: ArrayLike) -> Tensor:
    """Return the sorted distinct values.

    >>> pb.unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return unique_all(x).values


__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]
