"""Distinct values. Their number depends on the data, so these functions evaluate the tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback.functions.arguments import Tensor, as_tensor, axis_argument
from pullback.functions.composed import composed
from pullback.functions.creation import created_from_array
from pullback.functions.shape import flatten
from pullback.functions.sorting import argsort
from pullback.functions.where_take import take
from pullback.lazy.host_data import from_host
from pullback.lazy.host_reads import read_on_host
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


class DistinctElements(NamedTuple):
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


def _distinct_elements(x: ArrayLike) -> DistinctElements:
    x = as_tensor(x)
    host = read_on_host(x).ravel()
    if host.size < _LARGE or x.dtype.is_complex:
        order = np.argsort(host, kind="stable")
    else:
        order = read_on_host(argsort(flatten(x)))
    ordered = host[order]
    new = np.ones(host.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return DistinctElements(x, order.astype(np.int64, copy=False), new)


def unique_all(x: ArrayLike) -> UniqueAll:
    """Return the sorted distinct values, the index of the first occurrence of each, the index
    among them of each element, and the number of occurrences. Gradients go to first occurrences.

    >>> pb.unique_all([3, 1, 3]).inverse_indices.tolist()
    [1, 0, 1]
    """
    found = _distinct_elements(x)
    return UniqueAll(found.values(), from_host(found.first), found.inverse(), found.counts())


def unique_counts(x: ArrayLike) -> UniqueCounts:
    """Return the sorted distinct values and the number of occurrences of each.

    >>> pb.unique_counts([3, 1, 3]).counts.tolist()
    [1, 2]
    """
    found = _distinct_elements(x)
    return UniqueCounts(found.values(), found.counts())


def unique_inverse(x: ArrayLike) -> UniqueInverse:
    """Return the sorted distinct values and the index among them of each element.

    >>> pb.unique_inverse([3, 1, 3]).values.tolist()
    [1, 3]
    """
    found = _distinct_elements(x)
    return UniqueInverse(found.values(), found.inverse())


def unique_values(x: ArrayLike) -> Tensor:
    """Return the sorted distinct values.

    >>> pb.unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return _distinct_elements(x).values()


@composed
def unique(
    x: ArrayLike, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, axis: int | None = None, *, equal_nan: bool = True,
    sorted: bool = True,
) -> Any:  # fmt: skip
    """Return the sorted distinct values, or the distinct slices along an axis; and in this order,
    if asked for, the indices of first occurrences, the index among the values of each element, and
    the numbers of occurrences. `x` is evaluated; gradients go to first occurrences.

    >>> values, counts = pb.unique([3, 1, 3], return_counts=True)
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    x = as_tensor(x)
    if axis is not None:
        axis = axis_argument("unique", axis, x.ndim)
    _, first, inverse, counts = np.unique(
        read_on_host(x), return_index=True, return_inverse=True, return_counts=True, axis=axis,
        equal_nan=equal_nan,
    )  # fmt: skip
    values = take(flatten(x), first) if axis is None else take(x, first, axis)
    wanted = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    more = [created_from_array(found.astype(np.int64)) for asked, found in wanted if asked]
    return (values, *more) if more else values


@composed
def unique_consecutive(
    x: ArrayLike, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None,
) -> Tensor | tuple[Tensor, ...]:  # fmt: skip
    """Return the first element of each run of equal elements, or of equal slices along an axis.

    With `return_inverse`, also the number of the run of each element; with `return_counts`, also
    the lengths of the runs. Values decide the shape of the result, so they are read.

    >>> pb.unique_consecutive([1, 1, 2, 2, 1]).tolist()
    [1, 2, 1]
    >>> pb.unique_consecutive([1, 1, 2], return_counts=True)[1].tolist()
    [2, 1]
    """
    given = as_tensor(x)
    a = flatten(given) if axis is None else given
    place = 0 if axis is None else axis_argument("unique_consecutive", axis, a.ndim)
    rows = np.moveaxis(read_on_host(a), place, 0)
    changes = (rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim)))
    starts = np.flatnonzero([True, *changes][: len(rows)])
    made = [take(a, starts, place)]
    if return_inverse:
        runs = np.zeros(len(rows), np.int64)
        runs[starts[1:]] = 1
        numbers = np.cumsum(runs)
        made.append(created_from_array(numbers.reshape(given.shape) if axis is None else numbers))
    if return_counts:
        made.append(created_from_array(np.diff([*starts, len(rows)]).astype(np.int64)))
    return made[0] if len(made) == 1 else tuple(made)


__all__ = [
    "unique",
    "unique_all",
    "unique_consecutive",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
