"""Order: sorting, searching in sorted values, and the places of elements."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    axis_of,
    integer,
    node,
    operands,
)
from pullback.functions.joining import concat
from pullback.functions.shape import flatten, shaped
from pullback.functions.where_take import take
from pullback.graph.table import TABLE
from pullback.lazy.host_data import from_host
from pullback.lazy.record import record, record_several
from pullback.lazy.tensor import wrap


def sort(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis, NaN as the largest; always stable.

    >>> import pullback as pb
    >>> pb.sort([3, 1, 2], descending=True).tolist()
    [3, 2, 1]
    """
    x = node(x)
    return record(TABLE["Sort"](axis_of("sort", axis, x.type.rank), descending), (x,))


def argsort(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that put the elements in order along an axis; always stable.

    >>> import pullback as pb
    >>> pb.argsort([3, 1, 2]).tolist()
    [1, 2, 0]
    """
    x = node(x)
    return record(TABLE["ArgSort"](axis_of("argsort", axis, x.type.rank), descending), (x,))


class TopKResult(NamedTuple):
    """The result of `top_k`."""

    values: Tensor
    indices: Tensor


def top_k(x: Any, k: int, axis: int = -1) -> TopKResult:
    """The `k` largest elements along an axis, largest first, and their indices.

    >>> import pullback as pb
    >>> values, indices = pb.top_k([3, 1, 2], 2)
    >>> values.tolist(), indices.tolist()
    ([3, 2], [0, 2])
    """
    x = node(x)
    op = TABLE["TopK"](integer("top_k", k, "k"), axis_of("top_k", axis, x.type.rank))
    return TopKResult(*record_several(op, (x,)))


def searchsorted(x1: Any, x2: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """Where elements of `x2` would have to be put into the sorted vector `x1` to keep it sorted:
    before equal elements, or behind them if `side` is "right".

    >>> import pullback as pb
    >>> pb.searchsorted([1, 3, 5], [3, 4]).tolist()
    [1, 2]
    """
    if side not in ("left", "right"):
        raise ArgumentError(f'side must be "left" or "right", got {side!r}', op="searchsorted")
    within = as_tensor(x1) if sorter is None else take(x1, sorter)
    if within.ndim != 1:
        raise ShapeError(
            f"needs a sorted vector, got {within._node.type}", op="searchsorted", code="E3002",
        )  # fmt: skip
    given = as_tensor(x2)
    within, values = map(wrap, operands(within, flatten(given)))
    # The place of each value among all elements, less its place among the values alone. The sort
    # is stable, so whatever comes first in the list comes first among equals.
    m, n = values.size, within.size
    if side == "left":
        place = _ranks(concat([values, within]))[:m]
    else:
        place = _ranks(concat([within, values]))[n:]
    return shaped(place - _ranks(values), given.shape)


def _ranks(x: Tensor) -> Tensor:
    """The place of each element of a vector in sorted order."""
    return argsort(argsort(x))


def nonzero(x: Any) -> tuple[Tensor, ...]:
    """The indices of elements that are not 0, one vector for each dimension; `x` is computed.

    >>> import pullback as pb
    >>> [i.tolist() for i in pb.nonzero([[1, 0], [0, 2]])]
    [[0, 1], [0, 1]]
    """
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError(
            f"needs rank 1 or more, got {x._node.type}", op="nonzero",
            code="E3002",
        )  # fmt: skip
    return tuple(from_host(np.array(i, np.int64)) for i in np.nonzero(x.numpy()))
