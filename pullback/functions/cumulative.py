"""Functions that combine the elements up to each one, along an axis."""

from __future__ import annotations

from typing import Literal, NamedTuple, overload

from pullback.errors import ArgumentError
from pullback.functions.arguments import (
    argument_node,
    axis_argument,
    float_node,
    record_as,
    sum_argument_node,
)
from pullback.functions.shape import flatten
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.node import Node, constant_node
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.cumulative.cumulative import CumLogSumExp, CumProd, CumSum
from pullback.ops.cumulative.extrema import CumArgMax, CumArgMin, CumMax, CumMin
from pullback.ops.shape.concat_pad import Pad
from pullback.typing import ArrayLike, DTypeLike


@with_argument_checks
def cumulative_sum(
    x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:  # fmt: skip
    """Return the cumulative sum along an axis; `include_initial` prepends a 0.

    >>> pb.cumulative_sum([1, 2, 3]).tolist()
    [1, 3, 6]
    """
    return _cumulative("cumulative_sum", CumSum, x, axis, dtype, 0 if include_initial else None)


@with_argument_checks
def cumulative_prod(
    x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:  # fmt: skip
    """Return the cumulative product along an axis; `include_initial` prepends a 1.

    >>> pb.cumulative_prod([2, 3, 4]).tolist()
    [2, 6, 24]
    """
    return _cumulative("cumulative_prod", CumProd, x, axis, dtype, 1 if include_initial else None)


@with_argument_checks
def cumsum(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Return the cumulative sum along an axis, or of the flattened tensor, as in NumPy.

    >>> pb.cumsum([[1, 2], [3, 4]]).tolist(), pb.cumsum([[1, 2], [3, 4]], axis=0).tolist()
    ([1, 3, 6, 10], [[1, 2], [4, 6]])
    """
    return _cumulative("cumsum", CumSum, _cumulative_flat(x, axis), axis, dtype, None)


@with_argument_checks
def cumprod(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Return the cumulative product along an axis, or of the flattened tensor, as in NumPy.

    >>> pb.cumprod([[1, 2], [3, 4]]).tolist()
    [1, 2, 6, 24]
    """
    return _cumulative("cumprod", CumProd, _cumulative_flat(x, axis), axis, dtype, None)


def _cumulative_flat(x: ArrayLike, axis: int | None) -> ArrayLike:
    return flatten(x) if axis is None else x


class CumulativeExtremum(NamedTuple):
    """The result of `cummax` and `cummin` with `return_indices`."""

    values: Tensor
    indices: Tensor


@overload
def cummax(
    x: ArrayLike, axis: int | None = None, *, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def cummax(
    x: ArrayLike, axis: int | None = None, *, return_indices: Literal[True]
) -> CumulativeExtremum: ...
@with_argument_checks
def cummax(
    x: ArrayLike, axis: int | None = None, *, return_indices: bool = False
) -> Tensor | CumulativeExtremum:
    """Return the cumulative maximum along an axis; NaN stays the largest from where it occurs.

    With `return_indices`, also return the index of the element that holds each maximum: the first
    of equal ones, which is the one that gets the gradient.

    >>> pb.cummax([1, 3, 2]).tolist()
    [1, 3, 3]
    >>> pb.cummax([1, 3, 2], return_indices=True).indices.tolist()
    [0, 1, 1]
    """
    return _cumulative_extremum("cummax", CumMax, CumArgMax, x, axis, return_indices)


@overload
def cummin(
    x: ArrayLike, axis: int | None = None, *, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def cummin(
    x: ArrayLike, axis: int | None = None, *, return_indices: Literal[True]
) -> CumulativeExtremum: ...
@with_argument_checks
def cummin(
    x: ArrayLike, axis: int | None = None, *, return_indices: bool = False
) -> Tensor | CumulativeExtremum:
    """Return the cumulative minimum along an axis; NaN stays the smallest from where it occurs.

    With `return_indices`, also return the index of the element that holds each minimum: the first
    of equal ones, which is the one that gets the gradient.

    >>> pb.cummin([3, 1, 2]).tolist()
    [3, 1, 1]
    """
    return _cumulative_extremum("cummin", CumMin, CumArgMin, x, axis, return_indices)


def _cumulative_extremum(
    op: str, values: type[CumMax] | type[CumMin], indices: type[CumArgMax] | type[CumArgMin],
    x: ArrayLike, axis: int | None, return_indices: bool,
) -> Tensor | CumulativeExtremum:  # fmt: skip
    a = argument_node(x)
    along = _cumulative_axis(op, a, axis)
    found = record_as(op, values(along, False), a)
    if not return_indices:
        return found
    return CumulativeExtremum(found, record_as(op, indices(along, False), a))


def cumlogsumexp(x: ArrayLike, axis: int | None = None) -> Tensor:
    """Return the logarithm of the cumulative sum of exp(x) along an axis, without overflow.

    >>> pb.cumlogsumexp([1000.0, -1000.0]).tolist()
    [1000.0, 1000.0]
    """
    a = float_node(x)
    return record_as(
        "cumlogsumexp", CumLogSumExp(_cumulative_axis("cumlogsumexp", a, axis), False), a
    )


logcumsumexp = cumlogsumexp  # PyTorch's name


def _cumulative_axis(op: str, x: Node, axis: int | None) -> int:
    """The axis, which may be omitted for a vector (and was, if the tensor was flattened)."""
    if axis is None and x.type.rank != 1:
        raise ArgumentError(f"needs an axis for a tensor of rank {x.type.rank}", op=op)
    return axis_argument(op, 0 if axis is None else axis, x.type.rank)


def _cumulative(
    op: str, kind: type[CumSum] | type[CumProd], x: ArrayLike, axis: int | None,
    dtype: DTypeLike | None, initial: int | None,
) -> Tensor:  # fmt: skip
    a = sum_argument_node(op, x, dtype)
    along = _cumulative_axis(op, a, axis)
    result = record_as(op, kind(along, False), a)
    if initial is None:
        return result
    none = (0,) * result.ndim
    before = (*none[:along], 1, *none[along + 1 :])
    return record(Pad(before, none, none), (result._node, constant_node(initial, a.type.dtype)))


__all__ = [
    "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum",
    "logcumsumexp",
]  # fmt: skip
