"""Sets of distinct values. All but `isin` evaluate their arguments: the number of values that
they return depends on the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.functions import reductions
from pullback.functions.arguments import Tensor, as_tensor, literal_argument, operator_operands
from pullback.functions.comparisons import equal
from pullback.functions.composed import composed
from pullback.functions.creation import created_from_array
from pullback.functions.joining import concat
from pullback.functions.shape import flatten, reshaped_to
from pullback.functions.sorted_search import searchsorted
from pullback.functions.sorting import sort
from pullback.functions.unique_elements import unique
from pullback.functions.where_take import take, where
from pullback.graph.dtypes import bool_
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike

_FEW = 16  # so many values are compared with each element one by one


@composed
def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False,
    invert: bool = False, *, kind: str | None = None,
) -> Tensor:  # fmt: skip
    """Return whether each element is one of `test_elements`, or with `invert`, whether it is not.

    `assume_unique` and `kind` are hints to NumPy's function and change nothing here.

    >>> pb.isin([1, 2, 3], [3, 1]).tolist()
    [True, False, True]
    """
    if kind not in (None, "sort", "table"):
        raise ArgumentError(f'kind must be "sort", "table" or None, got {kind!r}', op="isin")
    x, tests = map(
        wrap,
        operator_operands(_set_operation_operand(element), _set_operation_operand(test_elements)),
    )
    tests = flatten(tests)
    if not tests.size:
        found = where(equal(x, x), literal_argument(False, bool_), literal_argument(False, bool_))
    elif tests.size <= _FEW or x.dtype.is_complex:
        found = reductions.any(equal(x[..., None], tests), axis=-1)
    else:
        found = _is_found_in_set(x, tests)
    return ~found if invert else found


def _set_operation_operand(x: ArrayLike) -> ArrayLike:
    """A tensor; Python numbers stay as they are, since they take the dtype of the others."""
    return x if isinstance(x, (bool, int, float, complex)) else as_tensor(x)


def _is_found_in_set(x: Tensor, tests: Tensor) -> Tensor:
    """Whether each element is one of many; both are compared in sorted order."""
    if x.dtype.is_float:  # a sort tells zeros apart by sign
        zero = literal_argument(0, x.dtype)
        x, tests = where(x == zero, zero, x), where(tests == zero, zero, tests)
    ordered = sort(tests)
    place = searchsorted(ordered, x).clip(None, tests.size - 1)
    return reshaped_to(equal(take(ordered, flatten(place)), flatten(x)), x.shape)


@composed
def union1d(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the sorted distinct values of two tensors.

    >>> pb.union1d([3, 1], [1, 2]).tolist()
    [1, 2, 3]
    """
    return unique(concat(_flat_sets(x1, x2)))


@composed
def intersect1d(
    x1: ArrayLike, x2: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """Return the sorted distinct values that both tensors have; with `return_indices`, also where
    they are first in each. Gradients go to the first tensor.

    >>> pb.intersect1d([3, 1, 2], [2, 3, 5]).tolist()
    [2, 3]
    """
    a, b = _flat_sets(x1, x2)
    _, first, second = np.intersect1d(
        read_on_host(a), read_on_host(b), assume_unique=assume_unique, return_indices=True
    )
    values = take(a, first)
    if not return_indices:
        return values
    return (
        values,
        created_from_array(first.astype(np.int64)),
        created_from_array(second.astype(np.int64)),
    )


@composed
def setdiff1d(x1: ArrayLike, x2: ArrayLike, assume_unique: bool = False) -> Tensor:
    """Return the sorted distinct values of the first tensor that the second does not have.

    With `assume_unique`, the values stay in their order.

    >>> pb.setdiff1d([3, 1, 2, 1], [2]).tolist()
    [1, 3]
    """
    a, b = flatten(x1), flatten(x2)
    host = read_on_host(a)
    first = np.arange(a.size) if assume_unique else np.unique(host, return_index=True)[1]
    return take(a, first[~np.isin(host[first], read_on_host(b))])


@composed
def setxor1d(x1: ArrayLike, x2: ArrayLike, assume_unique: bool = False) -> Tensor:
    """Return the sorted distinct values that exactly one of two tensors has.

    >>> pb.setxor1d([1, 2, 3], [3, 4]).tolist()
    [1, 2, 4]
    """
    parts = _flat_sets(x1, x2)
    values = concat(parts if assume_unique else [unique(p) for p in parts])
    _, first, counts = np.unique(
        read_on_host(values), return_index=True, return_counts=True, equal_nan=False
    )
    return take(values, first[counts == 1])


def _flat_sets(x1: ArrayLike, x2: ArrayLike) -> list[Tensor]:
    return [flatten(wrap(x)) for x in operator_operands(as_tensor(x1), as_tensor(x2))]


__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d"]
