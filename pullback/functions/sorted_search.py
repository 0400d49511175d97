"""Search in sorted vectors."""

from __future__ import annotations

from typing import Literal

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.along_axis import take_along_axis
from pullback.functions.arguments import (
    Tensor,
    apply,
    argument_node,
    as_tensor,
    literal_argument,
    operator_operands,
)
from pullback.functions.arithmetic import minimum
from pullback.functions.comparisons import isnan
from pullback.functions.creation import zeros
from pullback.functions.data_types import astype
from pullback.functions.shape import flatten, reshaped_to, spread_to_shape
from pullback.functions.where_take import take, where
from pullback.graph.dtypes import int32, int64
from pullback.lazy.record import record
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise.select import Where
from pullback.ops.index.along_axis import TakeAlongAxis
from pullback.ops.reduce.reductions import Sum
from pullback.typing import ArrayLike

_FEW = 64  # elements of a row that are all compared with a value


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
    a, v = operator_operands(table, values)
    found = _search_counted_before if table.shape[-1] <= _FEW else _search_bisected
    return reshaped_to(found(wrap(a), wrap(v), side == "right"), wanted.shape)


def _search_counted_before(table: Tensor, values: Tensor, or_equal: bool) -> Tensor:
    """The number of elements of each row that belong before each value: all are compared."""
    before = _search_belongs_before(table[..., None, :], values[..., None], or_equal)
    return record(Sum((before.ndim - 1,), False), (before.astype(int64)._node,))


def _search_bisected(table: Tensor, values: Tensor, or_equal: bool) -> Tensor:
    """The same for long rows: the steps of the count are powers of 2, the largest first."""
    n, axis = table.shape[-1], table.ndim - 1
    read_table, count = TakeAlongAxis(axis, trusted=True), literal_argument(0, int64)
    count = spread_to_shape(count, values.shape)
    for bit in reversed(range(n.bit_length())):
        new = count + literal_argument(2**bit, int64)
        index = minimum(new, literal_argument(n, int64)) - literal_argument(1, int64)
        element = record(read_table, (argument_node(table), index._node))
        taken = _search_belongs_before(element, values, or_equal) & (
            new <= literal_argument(n, int64)
        )
        count = apply(Where, taken._node, new._node, count._node)
    return count


def _search_belongs_before(element: Tensor, value: Tensor, or_equal: bool) -> Tensor:
    """Whether an element comes before a value in sorted order, in which NaN is last."""
    before = element <= value if or_equal else element < value
    if not value.dtype.is_float:
        return before
    after_all = isnan(value)
    return before | (after_all if or_equal else after_all & ~isnan(element))


def sorted_insertion_points(edges: Tensor, x: ArrayLike, after: bool) -> Tensor:
    """The indices of `searchsorted`, after equal elements or before them, by bisection.

    For each element, the number of edges below it grows by powers of two that are still right.
    """
    edges, values = map(wrap, operator_operands(edges, as_tensor(x)))
    flat, count = flatten(values), edges.size
    found = zeros(flat.shape, dtype=int32)
    for bit in reversed(range(count.bit_length())):
        more = found + literal_argument(2**bit, int32)
        last = minimum(more, literal_argument(count, int32)) - literal_argument(1, int32)
        edge = record(TakeAlongAxis(0, True), (argument_node(edges), argument_node(last)))
        beyond = ~(flat < edge) if after else ~(flat <= edge)  # NaN is beyond all
        found = where(beyond & (more <= literal_argument(count, int32)), more, found)
    return reshaped_to(astype(found, int64), values.shape)


__all__ = ["searchsorted"]
