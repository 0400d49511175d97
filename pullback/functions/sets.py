"""Distinct values. Their number depends on the data, so the tensor is computed first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.shape import flatten
from pullback.functions.where_take import take
from pullback.lazy.host_data import from_host


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


def unique_all(x: Any) -> UniqueAll:
    """The distinct values in order, where each occurs first, which one each element is, and how
    often each occurs. The gradient of a value goes to its first occurrence.

    >>> import pullback as pb
    >>> pb.unique_all([3, 1, 3]).inverse_indices.tolist()
    [1, 0, 1]
    """
    x = as_tensor(x)
    host = x.numpy()
    _, first, inverse, counts = np.unique(
        host.ravel(), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    made = [from_host(np.array(a, np.int64)) for a in (first, inverse.reshape(host.shape), counts)]
    return UniqueAll(take(flatten(x), first), *made)


def unique_counts(x: Any) -> UniqueCounts:
    """The distinct values in order, and how often each occurs.

    >>> import pullback as pb
    >>> pb.unique_counts([3, 1, 3]).counts.tolist()
    [1, 2]
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any) -> UniqueInverse:
    """The distinct values in order, and which one each element is.

    >>> import pullback as pb
    >>> pb.unique_inverse([3, 1, 3]).values.tolist()
    [1, 3]
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any) -> Tensor:
    """The distinct values in order.

    >>> import pullback as pb
    >>> pb.unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return unique_all(x).values
