"""Selecting elements by a condition or by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from pullback.errors import ArgumentError, DTypeError, HostReadError, IndexOutOfRange, ShapeError
from pullback.functions.arguments import along, axis_of, fresh, node, record_as, shape_of
from pullback.functions.shape import flatten
from pullback.functions.take_modes import taken_beyond
from pullback.graph.arguments import sequence, shown, text
from pullback.graph.dtypes import bool_, int64
from pullback.graph.node import Node, constant
from pullback.lazy.host_data import from_host
from pullback.lazy.host_reads import read
from pullback.lazy.index_plan import index_array
from pullback.lazy.indexing import updated
from pullback.lazy.operators import as_tensor, node_of, number, operands, scalar_operand
from pullback.lazy.record import at_one_line, record
from pullback.lazy.tensor import Tensor
from pullback.ops.elementwise.maximum import Clamp
from pullback.ops.elementwise.select import Where
from pullback.ops.index.dynamic_slice import DynamicSlice, DynamicUpdateSlice
from pullback.ops.reduce.extrema import extrema_bounds
from pullback.typing import ArrayLike, Index


@overload
def where(condition: ArrayLike) -> tuple[Tensor, ...]: ...
@overload
def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike) -> Tensor: ...
def where(
    condition: ArrayLike, x1: ArrayLike | None = None, x2: ArrayLike | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Return `x1` where the condition is true, else `x2`; what is not selected gets no gradient.

    With the condition alone, return the indices where it is true, as `nonzero` does.

    >>> pb.where([True, False], [1, 2], 0).tolist()
    [1, 0]
    """
    if x1 is None or x2 is None:
        if x1 is not x2:
            raise ArgumentError("needs both x1 and x2, or neither", op="where")
        return nonzero_indices("where", condition)
    return record(Where(), (node(condition), *operands(x1, x2)))


def nonzero_indices(op: str, x: ArrayLike) -> tuple[Tensor, ...]:
    """The indices of nonzero elements, one vector for each dimension; `x` is evaluated."""
    x = as_tensor(x)
    if not x.ndim:
        message = f"needs rank 1 or more, got {x._node.type}"
        raise ShapeError(message, op=op, code="E3002")
    return tuple(from_host(np.array(i, np.int64)) for i in np.nonzero(read(x)))


def clip(x: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Tensor:
    """Limit elements to the range from `min` to `max`; on a limit the gradient is that of `x`.

    >>> pb.clip([-2, 0, 5], 0, 3).tolist()
    [0, 0, 3]
    """
    if min is None and max is None:
        return fresh(as_tensor(x))
    given = [v for v in (min, max) if v is not None]
    a, *limits = operands(as_tensor(x), *given)
    least, most = extrema_bounds(a.type.dtype)
    low = constant(least, a.type.dtype) if min is None else limits[0]
    high = constant(most, a.type.dtype) if max is None else limits[-1]
    return record_as("clip", Clamp(), a, low, high)


def take(
    x: ArrayLike, indices: ArrayLike, axis: int | None = None,
    mode: Literal["raise", "clip", "wrap", "fill"] = "raise", fill_value: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the slices of a tensor at `indices` along an axis, or elements of the flattened one.

    Negative indices count from the end. Others that are out of range are an error; `mode="clip"`
    replaces them (and negative ones) by the nearest index, "wrap" counts on from the other end, and
    "fill" returns `fill_value` for them, which is NaN by default.

    >>> pb.take([10, 20, 30], [2, 0]).tolist()
    [30, 10]
    >>> pb.take([10.0, 20.0], [-5, 5], mode="clip").tolist()
    [10.0, 20.0]
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = flatten(x), 0
    axis = axis_of("take", axis, x.ndim)
    if indices is None or isinstance(indices, (str, bytes, slice, type(...))):
        raise ArgumentError(f"indices must be integers, got {shown(indices)}", op="take")
    if mode not in ("raise", "clip", "wrap", "fill"):
        message = f'mode must be "raise", "clip", "wrap" or "fill", got {shown(mode)}'
        raise ArgumentError(message, op="take")
    if fill_value is not None and mode != "fill":
        raise ArgumentError('fill_value needs mode="fill"', op="take")
    with at_one_line("take"):
        places = _take_indices(indices)
        if mode == "raise":
            return x[along(axis, places)]
        return taken_beyond(x, as_tensor(places), axis, mode, fill_value)


def _take_indices(indices: ArrayLike) -> Any:
    """Indices as a tensor, an array or a number; a list of bools is no mask here."""
    if isinstance(indices, (list, tuple, range)):
        indices = index_array(indices)
    dtype = getattr(indices, "dtype", None)
    if isinstance(indices, bool) or dtype is bool_ or dtype == np.bool_:
        hint = "Write x[mask] to select by a mask."
        raise ArgumentError("indices must be integers, got bools", op="take", hint=hint)
    if dtype is not None and dtype.kind not in "iu":
        raise DTypeError(f"indices must be integers, got {dtype}", op="take", code="E4011")
    return indices


def gather(x: ArrayLike, indices: ArrayLike, axis: int = 0) -> Tensor:
    """Return `take(x, indices, axis)`: the dimensions of the indices replace the axis.

    >>> pb.gather([10, 20, 30], [[2, 0]]).tolist()
    [[30, 10]]
    """
    with at_one_line("gather"):
        return take(x, indices, axis)


def scatter(
    x: ArrayLike, index: Index, updates: ArrayLike,
    mode: Literal["set", "add", "multiply", "min", "max"] = "set",
) -> Tensor:  # fmt: skip
    """Return `x` with updates at an index: set, add, multiply, min or max, as with `x.at[index]`.

    >>> pb.scatter([0, 0, 0], [1, 1], 2, mode="add").tolist()
    [0, 4, 0]
    """
    mode = text("scatter", mode, "mode")  # type: ignore[assignment]
    with at_one_line("scatter"):
        return updated(x, index, updates, mode)


def repeat_each(x: Tensor, repeats: ArrayLike, axis: int) -> Tensor:
    """Repeat each slice along an axis by a number of its own; tensors of numbers are read."""
    counts = _take_counts(repeats)
    n = x.shape[axis]
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (1,), (n,)) or (counts < 0).any():
        message = f"repeats must be nonnegative integers, one or {n} of them, got {counts.tolist()}"
        raise ArgumentError(message, op="repeat")
    return take(x, np.repeat(np.arange(n), np.broadcast_to(counts, (n,))), axis)


def _take_counts(repeats: ArrayLike) -> np.ndarray:
    """The numbers of repetitions on the host, where they decide the shape of the result."""
    if isinstance(repeats, np.ndarray):
        return repeats
    if isinstance(repeats, (tuple, list)) and all(type(n) is int for n in repeats):
        return np.array(repeats, np.int64)
    try:
        return read(as_tensor(repeats))
    except HostReadError as error:
        error.op, error.hint = "repeat", (
            "The number of repetitions decides the shape of the result: pass a list of integers or "
            "a NumPy array."
        )  # fmt: skip
        raise


def dynamic_slice(x: ArrayLike, starts: Sequence[ArrayLike], sizes: Sequence[int]) -> Tensor:
    """Return the block of the given sizes that begins at `starts`, which may be tensors.

    >>> pb.dynamic_slice([1, 2, 3, 4], [pb.tensor(1)], [2]).tolist()
    [2, 3]
    """
    x = as_tensor(x)
    shape = shape_of("dynamic_slice", sizes)
    places = _take_starts("dynamic_slice", x, starts, shape)
    return record(DynamicSlice(shape), (node_of(x), *places))


def dynamic_update_slice(x: ArrayLike, update: ArrayLike, starts: Sequence[ArrayLike]) -> Tensor:
    """Return `x` with the block that begins at `starts` replaced by `update`.

    >>> pb.dynamic_update_slice([1, 2, 3, 4], [7, 8], [pb.tensor(1)]).tolist()
    [1, 7, 8, 4]
    """
    x = as_tensor(x)
    new = as_tensor(update).astype(x.dtype)
    places = _take_starts("dynamic_update_slice", x, starts, new.shape)
    return record(DynamicUpdateSlice(), (node_of(x), node_of(new), *places))


def _take_starts(
    op: str, x: Tensor, starts: Sequence[ArrayLike], sizes: tuple[int, ...]
) -> list[Node]:
    """The nodes of the start indices; Python ints are checked against the size."""
    starts = sequence(op, starts, "starts")
    nodes = []
    for axis, (start, n, size) in enumerate(zip(starts, x.shape, sizes)):
        start = number(start)
        if not isinstance(start, int):
            nodes.append(node(start))
            continue
        if not 0 <= start <= n - size:
            what = f"is out of range for a block of {size} in axis {axis} with size {n}"
            raise IndexOutOfRange(f"start {start} {what}", op=op, axis=axis, extent=n)
        nodes.append(scalar_operand(start, int64))
    if not len(starts) == len(sizes) == x.ndim:
        got = f"{len(starts)} and {len(sizes)}"
        message = f"needs {x.ndim} starts and sizes for {x._node.type}, got {got}"
        raise ArgumentError(message, op=op)
    return nodes


__all__ = [
    "clip", "dynamic_slice", "dynamic_update_slice", "gather", "scatter", "take", "where",
]  # fmt: skip
