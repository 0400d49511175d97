"""Flipping, rolling and turning tensors, and other orders of their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.errors import ArgumentError
from pullback.functions import arguments
from pullback.functions.arguments import (
    Tensor,
    argument_node,
    as_tensor,
    axes_argument,
    axis_argument,
    fresh_argument,
    integer_argument_node,
    one_or_many_arguments,
    shape_argument,
)
from pullback.functions.composed import composed
from pullback.functions.creation import zeros
from pullback.functions.shape import flatten, moveaxis, reshaped_to, spread_to_shape, swapaxes
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.ops.shape.roll import Roll
from pullback.ops.shape.squeeze_flip_axes import Flip
from pullback.typing import ArrayLike, Axis, Shape


def flip(x: ArrayLike, axis: Axis = None) -> Tensor:
    """Reverse the order of the elements along axes (all of them by default).

    >>> pb.flip([1, 2, 3]).tolist()
    [3, 2, 1]
    """
    a = argument_node(x)
    return record(Flip(axes_argument("flip", axis, a.type.rank)), (a,))


@composed
def flipud(x: ArrayLike) -> Tensor:
    """Reverse the order of the elements along the first axis.

    >>> pb.flipud([[1, 2], [3, 4]]).tolist()
    [[3, 4], [1, 2]]
    """
    return flip(x, axis=0)


@composed
def fliplr(x: ArrayLike) -> Tensor:
    """Reverse the order of the elements along the second axis.

    >>> pb.fliplr([[1, 2], [3, 4]]).tolist()
    [[2, 1], [4, 3]]
    """
    return flip(x, axis=1)


@composed
def rollaxis(x: ArrayLike, axis: int, start: int = 0) -> Tensor:
    """Move an axis before the position `start`; `moveaxis` says where it goes instead.

    >>> pb.rollaxis(pb.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_tensor(x)
    axis = axis_argument("rollaxis", axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        message = f"start must be from {-x.ndim} to {x.ndim}, got {start}"
        raise ArgumentError(message, op="rollaxis")
    start += x.ndim if start < 0 else 0
    return moveaxis(x, axis, start - 1 if axis < start else start)


def roll(x: ArrayLike, shift: Shape, axis: Axis = None) -> Tensor:
    """Shift the elements along axes by `shift` positions; those past the end reappear at the start.

    >>> pb.roll([1, 2, 3], 1).tolist()
    [3, 1, 2]
    """
    x = as_tensor(x)
    if axis is None:
        return reshaped_to(roll(flatten(x), shift, 0), x.shape)
    axes = one_or_many_arguments(axis)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        message = f"shift and axis must have the same length, got {shift} and {axis}"
        raise ArgumentError(message, op="roll")
    result = fresh_argument(x)
    for by, a in zip(shifts, axes):
        result = _rolled(result, by, axis_argument("roll", a, x.ndim))
    return result


@with_argument_checks
def rot90(x: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate a tensor by `k` times 90 degrees in a plane, from the first axis to the second.

    >>> pb.rot90([[1, 2], [3, 4]]).tolist()
    [[2, 4], [1, 3]]
    """
    x = as_tensor(x)
    a, b = arguments.ordered_axes_argument("rot90", axes, x.ndim)
    turns = k % 4
    if turns == 0:
        return fresh_argument(x)
    if turns == 2:
        return flip(x, (a, b))
    return swapaxes(flip(x, b), a, b) if turns == 1 else flip(swapaxes(x, a, b), b)


def _rolled(x: Tensor, shift: Any, axis: int) -> Tensor:
    size = max(x.shape[axis], 1)
    places = integer_argument_node("roll", shift, "a shift", lambda n: n % size)
    return record(Roll(axis), (node_of(x), places))


@composed
def resize(x: ArrayLike, new_shape: Shape) -> Tensor:
    """Return a tensor of another shape and size: elements are left out, or repeated in order.

    >>> pb.resize([1, 2, 3], (2, 2)).tolist()
    [[1, 2], [3, 1]]
    """
    x, shape = as_tensor(x), shape_argument("resize", new_shape)
    size, none = math.prod(shape), zeros(shape, dtype=x.dtype)  # raises if it is too large
    if not x.size or not size:
        return none
    flat = flatten(x)
    if size > x.size:
        times = -(-size // x.size)
        flat = flatten(spread_to_shape(reshaped_to(flat, (1, x.size)), (times, x.size)))
    return reshaped_to(flat[:size], shape)


__all__ = ["flip", "fliplr", "flipud", "resize", "roll", "rollaxis", "rot90"]
