"""Shapes and the order of dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

from pullback.errors import ArgumentError, ShapeError
from pullback.functions import arguments
from pullback.functions.arguments import (
    argument_node,
    axes_argument,
    checked_integer_argument,
    fresh_argument,
    one_or_many_arguments,
    shape_argument,
)
from pullback.functions.composed import composed
from pullback.graph.argument_checks import checked_copy_argument, shown_argument
from pullback.graph.node import Node
from pullback.lazy.operators import as_tensor
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.prelude import broadcast_shapes as _broadcast_shapes
from pullback.ops.shape.movement import Broadcast, Reshape, Transpose
from pullback.ops.shape.squeeze_flip_axes import ExpandDims, Squeeze
from pullback.typing import ArrayLike, Axis, Shape


def reshape(x: ArrayLike, shape: Shape, order: str = "C", *, copy: bool | None = None) -> Tensor:
    """Return the elements in another shape; one size may be -1.

    They are read and placed in row-major order, or in column-major order if `order` is "F". The
    result is a tensor of its own: writing to `x` does not change it. This needs no copy of the
    elements, so every value of `copy` means the same.

    >>> pb.reshape([1, 2, 3, 4], (2, -1)).tolist(), pb.reshape([1, 2, 3, 4], (2, 2), "F").tolist()
    ([[1, 2], [3, 4]], [[1, 3], [2, 4]])
    """
    x, _ = as_tensor(x), checked_copy_argument("reshape", copy)
    wanted = _resolve_new_shape(x, shape)
    if order == "F":
        return _reversed_shape_axes(reshaped_to(_reversed_shape_axes(x), wanted[::-1]))
    if order not in ("C", "A", "K"):
        several = f"Write shape=({shape}, {order}): it is one argument."
        hint = several if isinstance(order, int) else None
        what = f'order must be "C" or "F", got {shown_argument(order)}'
        raise ArgumentError(what, op="reshape", hint=hint)
    return reshaped_to(x, wanted)


def _reversed_shape_axes(x: Tensor) -> Tensor:
    return (
        record(Transpose(tuple(reversed(range(x.ndim)))), (argument_node(x),)) if x.ndim > 1 else x
    )


def reshaped_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Reshape `x`, without a new node if it has the shape already."""
    return fresh_argument(x) if x.shape == shape else record(Reshape(shape), (argument_node(x),))


def _resolve_new_shape(x: Tensor, shape: Shape) -> tuple[int, ...]:
    wanted = tuple(
        checked_integer_argument("reshape", n, "a size") for n in one_or_many_arguments(shape)
    )
    if min(wanted, default=0) < -1 or wanted.count(-1) > 1:
        message = f"sizes must not be negative, except for one -1, got {list(wanted)}"
        raise ShapeError(message, op="reshape", code="E3006")
    if -1 not in wanted:
        return wanted
    known = math.prod(n for n in wanted if n != -1)
    if known == 0 or x.size % known:
        message = f"the size -1 has no value: {x._node.type} does not divide into {list(wanted)}"
        raise ShapeError(message, op="reshape", code="E3007")
    return tuple(x.size // known if n == -1 else n for n in wanted)


def flatten(x: ArrayLike, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return the elements, in row-major order, as a vector; or with the dimensions from `start_dim`
    to `end_dim` joined to one.

    >>> pb.flatten([[1, 2], [3, 4]]).tolist(), pb.flatten(pb.ones((2, 3, 4)), 1).shape
    ([1, 2, 3, 4], (2, 12))
    """
    x = as_tensor(x)
    if (type(start_dim), start_dim, end_dim) == (int, 0, -1):
        return reshaped_to(x, (x.size,))
    first, last = (
        arguments.axis_argument("flatten", i, max(x.ndim, 1)) for i in (start_dim, end_dim)
    )
    if first > last:
        message = f"start_dim must not come after end_dim, got {start_dim} and {end_dim}"
        raise ShapeError(message, op="flatten")
    joined = math.prod(x.shape[first : last + 1])
    return reshaped_to(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))


def permute_dims(x: ArrayLike, axes: Sequence[SupportsIndex]) -> Tensor:
    """Reorder the dimensions: dimension i of the result is dimension `axes[i]` of `x`.

    >>> pb.permute_dims(pb.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    a = argument_node(x)
    return _permuted_shape(a, arguments.ordered_axes_argument("permute_dims", axes, a.type.rank))


def transpose(x: ArrayLike, axes: Sequence[SupportsIndex] | None = None) -> Tensor:
    """Reverse the order of the dimensions, or reorder them by `axes`.

    >>> pb.transpose([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    a = argument_node(x)
    if axes is None:
        return _permuted_shape(a, tuple(range(a.type.rank))[::-1])
    return _permuted_shape(a, arguments.ordered_axes_argument("transpose", axes, a.type.rank))


def _permuted_shape(x: Node, perm: tuple[int, ...]) -> Tensor:
    if perm == tuple(range(x.type.rank)):
        return fresh_argument(wrap(x))
    return record(Transpose(perm), (x,))


def matrix_transpose(x: ArrayLike) -> Tensor:
    """Swap the last two dimensions.

    >>> pb.matrix_transpose([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    a = argument_node(x)
    rank = a.type.rank
    if rank < 2:
        message = f"needs rank 2 or more, got {a.type}"
        raise ShapeError(message, op="matrix_transpose", code="E3002")
    return _permuted_shape(a, (*range(rank - 2), rank - 1, rank - 2))


def moveaxis(x: ArrayLike, source: Shape, destination: Shape) -> Tensor:
    """Move dimensions to new positions; the others keep their order.

    >>> pb.moveaxis(pb.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = argument_node(x)
    rank = a.type.rank
    old, new = (
        arguments.ordered_axes_argument("moveaxis", axes, rank) for axes in (source, destination)
    )
    if len(old) != len(new):
        got = f"{source} and {destination}"
        message = f"source and destination must have the same length, got {got}"
        raise ShapeError(message, op="moveaxis")
    rest = iter([i for i in range(rank) if i not in old])
    moved = dict(zip(new, old))
    return _permuted_shape(a, tuple(moved[i] if i in moved else next(rest) for i in range(rank)))


def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Tensor:
    """Swap two dimensions.

    >>> pb.swapaxes(pb.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_tensor(x)
    a, b = (arguments.axis_argument("swapaxes", axis, x.ndim) for axis in (axis1, axis2))
    perm = list(range(x.ndim))
    perm[a], perm[b] = b, a
    return _permuted_shape(argument_node(x), tuple(perm))


def expand_dims(x: ArrayLike, axis: Shape = 0) -> Tensor:
    """Insert dimensions of size 1 at the given positions of the result.

    >>> pb.expand_dims([1, 2], axis=1).tolist()
    [[1], [2]]
    """
    a = argument_node(x)
    rank = a.type.rank + len(one_or_many_arguments(axis))
    return record(ExpandDims(axes_argument("expand_dims", axis, rank)), (a,))


def squeeze(x: ArrayLike, axis: Axis = None) -> Tensor:
    """Remove the given dimensions, which must have size 1; by default, all such dimensions.

    >>> pb.squeeze([[1, 2]], axis=0).tolist()
    [1, 2]
    """
    a = argument_node(x)
    if axis is None:
        axis = tuple(i for i, n in enumerate(a.type.shape) if n == 1)
    return record(Squeeze(axes_argument("squeeze", axis, a.type.rank)), (a,))


def broadcast_to(x: ArrayLike, shape: Shape) -> Tensor:
    """Repeat the elements along dimensions of size 1 and along new leading dimensions.

    >>> pb.broadcast_to([1, 2], (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return spread_to_shape(as_tensor(x), shape_argument("broadcast_to", shape))


def spread_to_shape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Broadcast `x`, without a new node if it has the shape already."""
    if x.shape == shape:
        return fresh_argument(x)
    return arguments.record_as("broadcast_to", Broadcast(shape), argument_node(x))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that operands of these shapes broadcast to.

    >>> pb.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    given = [arguments.shape_argument("broadcast_shapes", shape) for shape in shapes]
    return arguments.converted_argument("broadcast_shapes", _broadcast_shapes, (), *given)


def broadcast_arrays(*xs: ArrayLike) -> tuple[Tensor, ...]:
    """Broadcast tensors against each other.

    >>> [x.shape for x in pb.broadcast_arrays([1, 2], [[3], [4]])]
    [(2, 2), (2, 2)]
    """
    arrays = [as_tensor(x) for x in xs]
    shape = arguments.converted_argument(
        "broadcast_arrays", _broadcast_shapes, (), *[x.shape for x in arrays]
    )
    return tuple([spread_to_shape(x, shape) for x in arrays])


def one_axis_shape(axis: int, size: int, rank: int) -> tuple[int, ...]:
    """The shape of a vector along one of several axes."""
    return tuple([size if i == axis else 1 for i in range(rank)])


@composed
def ndim(x: ArrayLike) -> int:
    """Return the number of dimensions.

    >>> pb.ndim([[1, 2, 3]])
    2
    """
    return as_tensor(x).ndim


@composed
def shape(x: ArrayLike) -> tuple[int, ...]:
    """Return the size of each dimension.

    >>> pb.shape([[1, 2, 3]])
    (1, 3)
    """
    return as_tensor(x).shape


@composed
def size(x: ArrayLike, axis: Axis = None) -> int:
    """Return the number of elements, or that along axes.

    >>> pb.size([[1, 2, 3]]), pb.size([[1, 2, 3]], axis=0)
    (3, 1)
    """
    x = as_tensor(x)
    return math.prod(x.shape[i] for i in axes_argument("size", axis, x.ndim))


def ravel(x: ArrayLike, order: str = "C") -> Tensor:
    """Return the elements as a vector: in row-major order, or in column-major order if `order` is
    "F".

    >>> pb.ravel([[1, 2], [3, 4]]).tolist(), pb.ravel([[1, 2], [3, 4]], "F").tolist()
    ([1, 2, 3, 4], [1, 3, 2, 4])
    """
    return reshape(x, -1, order)


__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims", "flatten",
    "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel", "reshape", "shape", "size",
    "squeeze", "swapaxes", "transpose",
]  # fmt: skip
