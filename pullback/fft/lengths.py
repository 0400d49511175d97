"""Lengths of transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    axis_slice_argument,
    checked_integer_argument,
    one_or_many_arguments,
    ordered_axes_argument,
)
from pullback.functions.padding import pad
from pullback.lazy.tensor import Tensor
from pullback.typing import Shape


def fft_length(op: str, n: SupportsIndex, what: str = "n") -> int:
    """Return the length of a transform, which is at least 1."""
    length = checked_integer_argument(op, n, what)
    if length < 1:
        raise ShapeError(f"{what} must be at least 1, got {length}", op=op)
    return length


def resized_to_fft_length(x: Tensor, axis: int, n: int) -> Tensor:
    """Cut an axis, or add zeros to it, so that it has `n` elements."""
    size = x.shape[axis]
    if n <= size:
        return x if n == size else x[axis_slice_argument(axis, slice(n))]
    return pad(x, [(0, n - size if i == axis else 0) for i in range(x.ndim)])


def fft_lengths_and_axes(
    op: str, x: Tensor, s: Shape | None, axes: Sequence[SupportsIndex] | None
) -> tuple[list[int], tuple[int, ...]]:
    """Return the length and the axis of each transform; in `s`, -1 is the size of the axis.

    Without `axes`, `s` is for the last ones.
    """
    sizes = (
        None
        if s is None
        else [checked_integer_argument(op, n, "a length") for n in one_or_many_arguments(s)]
    )
    if axes is not None:
        found = ordered_axes_argument(op, axes, x.ndim)
    elif sizes is None:
        found = tuple(range(x.ndim))
    elif len(sizes) <= x.ndim:
        found = tuple(range(x.ndim - len(sizes), x.ndim))
    else:
        raise ShapeError(f"s has {len(sizes)} lengths for {x._node.type}", op=op)
    if not found:
        raise ArgumentError(f"needs at least one axis, got {x._node.type} and axes {axes}", op=op)
    if sizes is None:
        sizes = [-1] * len(found)
    if len(sizes) != len(found):
        what = f"s and axes must have the same length, got {list(sizes)} and {list(found)}"
        raise ShapeError(what, op=op)
    for i, (n, axis) in enumerate(zip(sizes, found, strict=True)):
        sizes[i] = x.shape[axis] if n == -1 else fft_length(op, n, "a length")
        if sizes[i] == 0:
            what = f"axis {axis} has no elements to transform in {x._node.type}"
            raise ShapeError(what, op=op, hint="Give its length, to which it is padded by zeros.")
    return sizes, found
