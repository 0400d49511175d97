"""Slices inserted, deleted and trimmed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback.errors import ArgumentError, IndexOutOfRange, ShapeError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    axes_argument,
    axis_argument,
    axis_slice_argument,
)
from pullback.functions.composed import composed
from pullback.functions.data_types import astype
from pullback.functions.joining import concat
from pullback.functions.shape import flatten, moveaxis, reshaped_to, spread_to_shape
from pullback.functions.where_take import take
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.host_reads import read_on_host
from pullback.typing import ArrayLike, Axis


@composed
def trim_zeros(
    x: ArrayLike, trim: Literal["f", "b", "fb", "bf"] = "fb", axis: Axis = None
) -> Tensor:
    """Remove zeros from the front ("f") and the back ("b") of axes; `x` is evaluated.

    >>> pb.trim_zeros([0, 0, 1, 0, 2, 0]).tolist()
    [1, 0, 2]
    """
    x = as_tensor(x)
    if not isinstance(trim, str) or not trim or not set(trim.lower()) <= {"f", "b"}:
        message = f'trim must be "f", "b" or both, got {shown_argument(trim)}'
        raise ArgumentError(message, op="trim_zeros")
    places = np.argwhere(read_on_host(x))
    index = [slice(None)] * x.ndim
    for i in axes_argument("trim_zeros", axis, x.ndim):
        front, back = (places[:, i].min(), places[:, i].max() + 1) if len(places) else (0, 0)
        begin = int(front) if "f" in trim.lower() else 0
        end = int(back) if "b" in trim.lower() else x.shape[i]
        # of zeros alone nothing is left, whichever side is trimmed
        index[i] = slice(begin, end) if len(places) else slice(0, 0)
    return x[tuple(index)]


@composed
def delete(x: ArrayLike, obj: Any, axis: int | None = None) -> Tensor:
    """Return a tensor without the slices along an axis that an index, a slice, several indices or
    a mask select; without an axis the tensor is flattened. Tensors of indices are evaluated.

    >>> pb.delete([10, 20, 30, 40], [0, 2]).tolist()
    [20, 40]
    """
    x, axis = insert_delete_axis("delete", x, axis)
    size = x.shape[axis]
    keep = np.ones(size, bool)
    if isinstance(obj, slice):
        keep[obj] = False
        return take(x, np.flatnonzero(keep), axis)
    places = _inserted_places("delete", obj)
    if places.dtype == bool:
        if places.shape != (size,):
            message = f"a mask must have the shape [{size}], got {list(places.shape)}"
            raise ShapeError(message, op="delete")
        keep = ~places
    else:
        check_insert_delete_places("delete", places, -size, size, size, axis)
        keep[places] = False
    return take(x, np.flatnonzero(keep), axis)


@composed
def insert(x: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Tensor:
    """Insert values before an index, a slice or several indices along an axis; without an axis the
    tensor is flattened. Tensors of indices are evaluated.

    >>> pb.insert([1, 2, 3], 1, 9).tolist(), pb.insert([1, 2, 3], [0, 3], [8, 9]).tolist()
    ([1, 9, 2, 3], [8, 1, 2, 3, 9])
    """
    x, axis = insert_delete_axis("insert", x, axis)
    size = x.shape[axis]
    if isinstance(obj, slice):
        places = np.arange(*obj.indices(size))
    else:
        places = _inserted_places("insert", obj)
        places = np.flatnonzero(places) if places.dtype == bool else places
    if places.ndim > 1:
        raise ShapeError("the indices must be a number or a vector", op="insert", code="E3002")
    check_insert_delete_places("insert", places, -size, size + 1, size, axis)
    places = np.where(places < 0, places + size, places)
    new = astype(values, x.dtype)
    new = reshaped_to(new, (1,) * (x.ndim - new.ndim) + new.shape)
    others = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if places.size == 1:
        if not places.ndim:  # as in `x[:, 0] = values`, the first axis of the values is this one
            new = moveaxis(new, 0, axis)
        count = new.shape[axis]
        new = spread_to_shape(new, (*others[:axis], count, *others[axis + 1 :]))
        at = places.item()
        return concat(
            [
                x[axis_slice_argument(axis, slice(at))],
                new,
                x[axis_slice_argument(axis, slice(at, None))],
            ],
            axis,
        )
    new = spread_to_shape(new, (*others[:axis], places.size, *others[axis + 1 :]))
    # each element of the result is one of `x` or, after those, one of the new ones
    order = np.argsort(np.concatenate([places, np.arange(size)]), kind="stable")
    source = np.where(order < places.size, order + size, order - places.size)
    return take(concat([x, new], axis), source, axis)


def insert_delete_axis(op: str, x: ArrayLike, axis: int | None) -> tuple[Tensor, int]:
    """The tensor and an axis of it, or the flattened tensor and its only axis."""
    x = as_tensor(x)
    return (flatten(x), 0) if axis is None else (x, axis_argument(op, axis, x.ndim))


def _inserted_places(op: str, obj: Any) -> np.ndarray:
    """Indices that decide the shape of a result: an integer, integers or bools, on the host."""
    try:
        found = read_on_host(obj) if isinstance(obj, Tensor) else np.asarray(obj)
    except ValueError:  # lists of different lengths
        found = np.array("")
    if found.dtype == bool:
        return found
    if not found.size:
        return found.astype(np.int64)
    if found.dtype.kind not in "iu":
        message = f"indices must be integers, bools or a slice, got {shown_argument(obj)}"
        raise ArgumentError(message, op=op)
    return found.astype(np.int64)


def check_insert_delete_places(
    op: str, places: np.ndarray, low: int, high: int, size: int, axis: int
) -> None:
    wrong = places[(places < low) | (places >= high)]
    if wrong.size:
        message = f"index {wrong.flat[0]} is out of range for axis {axis} with size {size}"
        raise IndexOutOfRange(message, op=op, axis=axis, extent=size)


__all__ = ["delete", "insert", "trim_zeros"]
