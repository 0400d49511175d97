"""Repeated tensors, elements and slices."""

from __future__ import annotations

import numpy as np

from pullback.errors import ArgumentError, HostReadError
from pullback.functions.arguments import axis_argument, checked_integer_argument, shape_argument
from pullback.functions.shape import flatten, reshaped_to, spread_to_shape
from pullback.functions.where_take import take
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike, Shape


def tile(x: ArrayLike, repetitions: Shape) -> Tensor:
    """Repeat the whole tensor along each dimension.

    >>> pb.tile([1, 2], 2).tolist()
    [1, 2, 1, 2]
    """
    x = as_tensor(x)
    what = "a number of repetitions"
    times = [
        checked_integer_argument("tile", r, what) for r in shape_argument("tile", repetitions, what)
    ]
    rank = max(len(times), x.ndim)
    times = [1] * (rank - len(times)) + times
    shape = (1,) * (rank - x.ndim) + x.shape
    apart = tuple(n for s in shape for n in (1, s))
    wide = tuple(n for r, s in zip(times, shape) for n in (r, s))
    return reshaped_to(
        spread_to_shape(reshaped_to(x, apart), wide), tuple(r * s for r, s in zip(times, shape))
    )


def repeat(x: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Tensor:
    """Repeat each element along an axis: the same number of times, or one number for each.

    >>> pb.repeat([1, 2], 2).tolist(), pb.repeat([1, 2], [0, 3]).tolist()
    ([1, 1, 2, 2], [2, 2, 2])
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = flatten(x), 0
    axis = axis_argument("repeat", axis, x.ndim)
    if isinstance(repeats, (tuple, list, Tensor)) or hasattr(repeats, "__array__"):
        return repeat_each(x, repeats, axis)
    times = checked_integer_argument("repeat", repeats, "the number of repetitions")
    if times < 0:
        message = f"the number of repetitions must not be negative, got {times}"
        raise ArgumentError(message, op="repeat")
    head, tail = x.shape[: axis + 1], x.shape[axis + 1 :]
    wide = spread_to_shape(reshaped_to(x, (*head, 1, *tail)), (*head, times, *tail))
    return reshaped_to(wide, (*x.shape[:axis], head[-1] * times, *tail))


def repeat_each(x: Tensor, repeats: ArrayLike, axis: int) -> Tensor:
    """Repeat each slice along an axis by a number of its own; tensors of numbers are read."""
    counts = _repeat_counts(repeats)
    n = x.shape[axis]
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (1,), (n,)) or (counts < 0).any():
        message = f"repeats must be nonnegative integers, one or {n} of them, got {counts.tolist()}"
        raise ArgumentError(message, op="repeat")
    return take(x, np.repeat(np.arange(n), np.broadcast_to(counts, (n,))), axis)


def _repeat_counts(repeats: ArrayLike) -> np.ndarray:
    """The numbers of repetitions on the host, where they decide the shape of the result."""
    if isinstance(repeats, np.ndarray):
        return repeats
    if isinstance(repeats, (tuple, list)) and all(type(n) is int for n in repeats):
        return np.array(repeats, np.int64)
    try:
        return read_on_host(as_tensor(repeats))
    except HostReadError as error:
        error.op, error.hint = "repeat", (
            "The number of repetitions decides the shape of the result: pass a list of integers or "
            "a NumPy array."
        )  # fmt: skip
        raise


__all__ = ["repeat", "tile"]
