"""Sorting, in whole or in part, by one key or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.along_axis import take_along_axis
from pullback.functions.arguments import (
    Tensor,
    argument_node,
    as_tensor,
    axis_argument,
    axis_slice_argument,
    checked_integer_argument,
    converted_argument,
    one_or_many_arguments,
    tensor_sequence_argument,
)
from pullback.functions.complex_parts import imag, real
from pullback.functions.composed import composed
from pullback.functions.data_types import astype
from pullback.functions.shape import flatten, one_axis_shape, reshaped_to
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import complex64, complex128, float64
from pullback.lazy.record import record, record_several
from pullback.ops.sort.sort import ArgSort, Sort, TopK
from pullback.typing import ArrayLike, Shape


@with_argument_checks
def sort(x: ArrayLike, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort the elements along an axis, NaN last; the sort is always stable.

    >>> pb.sort([3, 1, 2], descending=True).tolist()
    [3, 2, 1]
    """
    a = argument_node(x)
    return record(Sort(axis_argument("sort", axis, a.type.rank), descending), (a,))


@with_argument_checks
def argsort(x: ArrayLike, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that sort the elements along an axis; the sort is always stable.

    >>> pb.argsort([3, 1, 2]).tolist()
    [1, 2, 0]
    """
    a = argument_node(x)
    return record(ArgSort(axis_argument("argsort", axis, a.type.rank), descending), (a,))


class TopKResult(NamedTuple):
    """The result of `top_k`."""

    values: Tensor
    indices: Tensor


@with_argument_checks
def top_k(
    x: ArrayLike, k: int, axis: int = -1, *, mode: Literal["largest", "smallest"] = "largest"
) -> TopKResult:
    """Return the `k` largest elements along an axis, largest first, and their indices; or, if
    `mode` is "smallest", the smallest ones, smallest first.

    >>> values, indices = pb.top_k([3, 1, 2], 2)
    >>> values.tolist(), indices.tolist()
    ([3, 2], [0, 2])
    >>> pb.top_k([3, 1, 2], 2, mode="smallest").values.tolist()
    [1, 2]
    """
    if mode not in ("largest", "smallest"):
        raise ArgumentError(f'mode must be "largest" or "smallest", got {mode!r}', op="top_k")
    a = argument_node(x)
    op = TopK(checked_integer_argument("top_k", k, "k"), axis_argument("top_k", axis, a.type.rank))
    if mode == "largest":
        return TopKResult(*record_several(op, (a,)))
    converted_argument("top_k", op.infer, a.type)  # k fits
    indices = argsort(x, op.axis)[(*(slice(None),) * op.axis, slice(op.k))]
    return TopKResult(take_along_axis(x, indices, op.axis), indices)


class KthValueResult(NamedTuple):
    """The k-th smallest elements, and their indices."""

    values: Tensor
    indices: Tensor


@composed
def kthvalue(x: ArrayLike, k: int, axis: int = -1, keepdims: bool = False) -> KthValueResult:
    """Return the k-th smallest element along an axis, counted from 1, and its index.

    >>> pb.kthvalue([30.0, 10.0, 20.0], 2).values.item()
    20.0
    """
    given = as_tensor(x)
    a = given if given.ndim else reshaped_to(given, (1,))
    place = axis_argument("kthvalue", axis, a.ndim)
    if not 1 <= k <= a.shape[place]:
        raise ArgumentError(f"k must be from 1 to {a.shape[place]}, got {k}")
    chosen = argsort(a, axis=place)[axis_slice_argument(place, slice(k - 1, k))]
    grid = [
        reshaped_to(as_tensor(np.arange(n)), one_axis_shape(i, n, a.ndim))
        for i, n in enumerate(a.shape)
    ]
    grid[place] = chosen
    values = a[tuple(grid)]
    if not given.ndim or not keepdims:
        values, chosen = (v.squeeze(place) for v in (values, chosen))
    return KthValueResult(values, chosen)


@composed
def partition(x: ArrayLike, kth: Shape, axis: int | None = -1) -> Tensor:
    """Reorder the elements along an axis such that those at the positions `kth` are where sorting
    would put them, smaller ones before them and larger ones after. Here all are sorted.

    >>> pb.partition([3, 1, 2], 1).tolist()
    [1, 2, 3]
    """
    x, axis = _partition_sorted("partition", x, kth, axis)
    return sort(x, axis=axis)


@composed
def argpartition(x: ArrayLike, kth: Shape, axis: int | None = -1) -> Tensor:
    """Return the indices that reorder the elements as `partition` does.

    >>> pb.argpartition([3, 1, 2], 1).tolist()
    [1, 2, 0]
    """
    x, axis = _partition_sorted("argpartition", x, kth, axis)
    return argsort(x, axis=axis)


def _partition_sorted(op: str, x: ArrayLike, kth: Shape, axis: int | None) -> tuple[Tensor, int]:
    x = flatten(x) if axis is None else as_tensor(x)
    axis = axis_argument(op, -1 if axis is None else axis, x.ndim)
    size = x.shape[axis]
    for k in one_or_many_arguments(kth):
        if not -size <= checked_integer_argument(op, k, "kth") < size:
            message = f"kth must be at least {-size} and less than {size}, got {k}"
            raise ArgumentError(message, op=op)
    return x, axis


@composed
def lexsort(keys: Sequence[ArrayLike] | Tensor, axis: int = -1) -> Tensor:
    """Return the indices that sort by several keys along an axis: by the last one, where that is
    equal by the one before, and so on. The sort is stable.

    >>> pb.lexsort(([2, 1, 1], [0, 1, 0])).tolist()
    [2, 0, 1]
    """
    tensors = tensor_sequence_argument("lexsort", keys, "keys")
    if not tensors or any(t.shape != tensors[0].shape for t in tensors):
        shown = ", ".join(str(t._node.type) for t in tensors)
        message = f"needs keys of the same shape, at least one, got {shown or 'none'}"
        raise ShapeError(message, op="lexsort")
    if not tensors[0].ndim:  # one number is in order
        return as_tensor(0)
    axis = axis_argument("lexsort", axis, tensors[0].ndim)
    return _lexical_sort(tensors, axis)


def _lexical_sort(keys: Sequence[Tensor], axis: int) -> Tensor:
    """Sort by each key in turn, the most important one last: a stable sort keeps what was done."""
    parts = [p for k in keys for p in ((imag(k), real(k)) if k.dtype.is_complex else (k,))]
    order = argsort(parts[0], axis=axis)
    for key in parts[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis), axis=axis), axis)
    return order


@composed
def sort_complex(x: ArrayLike) -> Tensor:
    """Sort by real parts, where they are equal by imaginary parts; the result is complex.

    >>> pb.sort_complex([2 + 1j, 1 + 5j, 2 - 1j]).tolist()
    [(1+5j), (2-1j), (2+1j)]
    """
    x = as_tensor(x)
    if not x.dtype.is_complex:
        wide = x.dtype is float64 or (x.dtype.is_integer and x.dtype.bits > 16)
        return astype(sort(x), complex128 if wide else complex64)
    return take_along_axis(x, _lexical_sort([x], x.ndim - 1), -1)


__all__ = [
    "argpartition",
    "argsort",
    "kthvalue",
    "lexsort",
    "partition",
    "sort",
    "sort_complex",
    "top_k",
]
