"""Sorting and searching."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.along_axis import take_along_axis
from pullback.functions.arguments import Tensor, as_tensor, axis_of, integer, node, operands
from pullback.functions.joining import concat
from pullback.functions.shape import flatten, shaped
from pullback.functions.where_take import nonzero_indices, take
from pullback.graph.arguments import validated
from pullback.lazy.record import record, record_several
from pullback.lazy.tensor import wrap
from pullback.ops.sort.sort import ArgSort, Sort, TopK
from pullback.typing import ArrayLike


@validated
def sort(x: ArrayLike, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort the elements along an axis, NaN last; the sort is always stable.

    >>> pb.sort([3, 1, 2], descending=True).tolist()
    [3, 2, 1]
    """
    a = node(x)
    return record(Sort(axis_of("sort", axis, a.type.rank), descending), (a,))


@validated
def argsort(x: ArrayLike, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that sort the elements along an axis; the sort is always stable.

    >>> pb.argsort([3, 1, 2]).tolist()
    [1, 2, 0]
    """
    a = node(x)
    return record(ArgSort(axis_of("argsort", axis, a.type.rank), descending), (a,))


class TopKResult(NamedTuple):
    """The result of `top_k`."""

    values: Tensor
    indices: Tensor


@validated
def top_k(x: ArrayLike, k: int, axis: int = -1) -> TopKResult:
    """Return the `k` largest elements along an axis, largest first, and their indices.

    >>> values, indices = pb.top_k([3, 1, 2], 2)
    >>> values.tolist(), indices.tolist()
    ([3, 2], [0, 2])
    """
    a = node(x)
    op = TopK(integer("top_k", k, "k"), axis_of("top_k", axis, a.type.rank))
    return TopKResult(*record_several(op, (a,)))


def searchsorted(
    x1: ArrayLike, x2: ArrayLike, side: Literal["left", "right"] = "left",
    sorter: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the indices at which elements of `x2` must be inserted into the sorted vector `x1`
    to keep it sorted: before equal elements, or after them if `side` is "right".

    `sorter` has the indices that sort `x1`, if it is not sorted. If `x1` has several dimensions,
    each of its rows is searched for the row of `x2` in the same place.

    >>> pb.searchsorted([1, 3, 5], [3, 4]).tolist()
    [1, 2]
    >>> pb.searchsorted([[1, 3], [5, 7]], [[2], [8]], side="right").tolist()
    [[1], [2]]
    """
    if side not in ("left", "right"):
        raise ArgumentError(f'side must be "left" or "right", got {side!r}', op="searchsorted")
    table, wanted = as_tensor(x1), as_tensor(x2)
    if sorter is not None:
        table = take_along_axis(table, sorter) if table.ndim > 1 else take(table, sorter)
    if not table.ndim:
        message = f"needs a sorted vector, got {table._node.type}"
        raise ShapeError(message, op="searchsorted", code="E3002")
    if table.ndim > 1 and wanted.shape[:-1] != table.shape[:-1]:
        got = f"{table._node.type} and {wanted._node.type}"
        message = f"x1 and x2 must have the same dimensions before the last one, got {got}"
        raise ShapeError(message, op="searchsorted", code="E3001")
    values = wanted if table.ndim > 1 else flatten(wanted)
    table, values = map(wrap, operands(table, values))
    # The rank of each value among all elements, less its rank among the values alone. The sort is
    # stable, so of equal elements the one that comes first in the list comes first.
    if side == "left":
        rank = _searchsorted_ranks(concat([values, table], axis=-1))[..., : values.shape[-1]]
    else:
        rank = _searchsorted_ranks(concat([table, values], axis=-1))[..., table.shape[-1] :]
    return shaped(rank - _searchsorted_ranks(values), wanted.shape)


def _searchsorted_ranks(x: Tensor) -> Tensor:
    """The position of each element of a row in sorted order."""
    return argsort(argsort(x))


def nonzero(x: ArrayLike) -> tuple[Tensor, ...]:
    """Return the indices of nonzero elements, one vector for each dimension; `x` is evaluated.

    >>> [i.tolist() for i in pb.nonzero([[1, 0], [0, 2]])]
    [[0, 1], [0, 1]]
    """
    return nonzero_indices("nonzero", x)


__all__ = ["argsort", "nonzero", "searchsorted", "sort", "top_k"]
