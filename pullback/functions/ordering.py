"""Orders other than that of one sorted axis: by several keys, of complex numbers, in part."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.along_axis import take_along_axis
from pullback.functions.arguments import Tensor, as_tensor, axis_of, integer, one_or_many
from pullback.functions.complex_parts import imag, real
from pullback.functions.composed import composed
from pullback.functions.data_types import astype
from pullback.functions.known_values import tensor_sequence
from pullback.functions.shape import flatten
from pullback.functions.sorting import argsort, sort
from pullback.graph.dtypes import complex64, complex128, float64
from pullback.typing import ArrayLike, Shape


@composed
def partition(x: ArrayLike, kth: Shape, axis: int | None = -1) -> Tensor:
    """Reorder the elements along an axis such that those at the positions `kth` are where sorting
    would put them, smaller ones before them and larger ones after. Here all are sorted.

    >>> pb.partition([3, 1, 2], 1).tolist()
    [1, 2, 3]
    """
    x, axis = _partitioned("partition", x, kth, axis)
    return sort(x, axis=axis)


@composed
def argpartition(x: ArrayLike, kth: Shape, axis: int | None = -1) -> Tensor:
    """Return the indices that reorder the elements as `partition` does.

    >>> pb.argpartition([3, 1, 2], 1).tolist()
    [1, 2, 0]
    """
    x, axis = _partitioned("argpartition", x, kth, axis)
    return argsort(x, axis=axis)


def _partitioned(op: str, x: ArrayLike, kth: Shape, axis: int | None) -> tuple[Tensor, int]:
    x = flatten(x) if axis is None else as_tensor(x)
    axis = axis_of(op, -1 if axis is None else axis, x.ndim)
    size = x.shape[axis]
    for k in one_or_many(kth):
        if not -size <= integer(op, k, "kth") < size:
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
    tensors = tensor_sequence("lexsort", keys, "keys")
    if not tensors or any(t.shape != tensors[0].shape for t in tensors):
        shown = ", ".join(str(t._node.type) for t in tensors)
        message = f"needs keys of the same shape, at least one, got {shown or 'none'}"
        raise ShapeError(message, op="lexsort")
    if not tensors[0].ndim:  # one number is in order
        return as_tensor(0)
    axis = axis_of("lexsort", axis, tensors[0].ndim)
    return _lexical_order(tensors, axis)


def _lexical_order(keys: Sequence[Tensor], axis: int) -> Tensor:
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
    return take_along_axis(x, _lexical_order([x], x.ndim - 1), -1)


__all__ = ["argpartition", "lexsort", "partition", "sort_complex"]
