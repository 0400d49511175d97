"""Distinct values. Their number depends on the data, so these functions evaluate the tensor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.shape import flatten
from pullback.functions.sorting import argsort
from pullback.functions.where_take import take
from pullback.lazy.host_data import from_host
from pullback.lazy.host_reads import read
from pullback.typing import ArrayLike

_LARGE = 2**16  # elements that the device sorts faster than NumPy, even if it has to compile first


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


class _Distinct(NamedTuple):
    """Elements in order, with marks at the first of each distinct value; NaN is never repeated."""

    x: Tensor
    order: np.ndarray
    new: np.ndarray

    @property
    def first(self) -> np.ndarray:
        return self.order[self.new]

    def values(self) -> Tensor:
        return take(flatten(self.x), self.first)

    def inverse(self) -> Tensor:
        found = np.empty(self.order.size, np.int64)
        found[self.order] = np.cumsum(self.new) - 1
        return from_host(found.reshape(self.x.shape))

    def counts(self) -> Tensor:
        ends = np.append(np.flatnonzero(self.new), self.new.size)
        return from_host(np.diff(ends))


def _distinct(x: ArrayLike) -> _Distinct:
    x = as_tensor(x)
    host = read(x).ravel()
    if host.size < _LARGE or x.dtype.is_complex:
        order = np.argsort(host, kind="stable")
    else:
        order = read(argsort(flatten(x)))
    ordered = host[order]
    new = np.ones(host.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return _Distinct(x, order.astype(np.int64, copy=False), new)


def unique_all(x: ArrayLike) -> UniqueAll:
    """Return the sorted distinct values, the index of the first occurrence of each, the index
    among them of each element, and the number of occurrences. Gradients go to first occurrences.

    >>> pb.unique_all([3, 1, 3]).inverse_indices.tolist()
    [1, 0, 1]
    """
    found = _distinct(x)
    return UniqueAll(found.values(), from_host(found.first), found.inverse(), found.counts())


def unique_counts(x: ArrayLike) -> UniqueCounts:
    """Return the sorted distinct values and the number of occurrences of each.

    >>> pb.unique_counts([3, 1, 3]).counts.tolist()
    [1, 2]
    """
    found = _distinct(x)
    return UniqueCounts(found.values(), found.counts())


def unique_inverse(x: ArrayLike) -> UniqueInverse:
    """Return the sorted distinct values and the index among them of each element.

    >>> pb.unique_inverse([3, 1, 3]).values.tolist()
    [1, 3]
    """
    found = _distinct(x)
    return UniqueInverse(found.values(), found.inverse())


def unique_values(x: ArrayLike) -> Tensor:
    """Return the sorted distinct values.

    >>> pb.unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return _distinct(x).values()


__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]
