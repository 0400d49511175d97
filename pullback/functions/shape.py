"""The same elements in another arrangement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.errors import ShapeError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    axes_of,
    axis_of,
    fresh,
    integer,
    node,
    ordered_axes,
    placed,
    shape_of,
)
from pullback.graph.node import Node
from pullback.graph.table import TABLE
from pullback.lazy.record import record
from pullback.lazy.tensor import wrap
from pullback.ops.prelude import broadcast_shapes as _broadcast_shapes


def reshape(x: Any, shape: Any) -> Tensor:
    """The elements in row-major order in another shape; one extent may be -1.

    >>> import pullback as pb
    >>> pb.reshape([1, 2, 3, 4], (2, -1)).tolist()
    [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    return shaped(x, _wanted_shape(x, shape))


def shaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`x` in a shape; without a new node if it has it already."""
    return fresh(x) if x.shape == shape else record(TABLE["Reshape"](shape), (node(x),))


def _wanted_shape(x: Tensor, shape: Any) -> tuple[int, ...]:
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    wanted = tuple(integer("reshape", n, "an extent") for n in given)
    if min(wanted, default=0) < -1 or wanted.count(-1) > 1:
        raise ShapeError(
            f"extents must not be negative, except one that is -1, got {list(wanted)}",
            op="reshape", code="E3006",
        )  # fmt: skip
    if -1 not in wanted:
        return wanted
    known = math.prod(n for n in wanted if n != -1)
    if known == 0 or x.size % known:
        raise ShapeError(
            f"the extent -1 has no value: {x._node.type} does not divide into {list(wanted)}",
            op="reshape", code="E3007",
        )  # fmt: skip
    return tuple(x.size // known if n == -1 else n for n in wanted)


def flatten(x: Any) -> Tensor:
    """The elements in row-major order as a vector.

    >>> import pullback as pb
    >>> pb.flatten([[1, 2], [3, 4]]).tolist()
    [1, 2, 3, 4]
    """
    x = as_tensor(x)
    return shaped(x, (x.size,))


def permute_dims(x: Any, axes: Sequence[int]) -> Tensor:
    """The dimensions in another order: dimension i of the result is `axes[i]` of `x`.

    >>> import pullback as pb
    >>> pb.permute_dims(pb.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = node(x)
    return _permuted(x, ordered_axes("permute_dims", tuple(axes), x.type.rank))


def transpose(x: Any, axes: Sequence[int] | None = None) -> Tensor:
    """The dimensions in reverse order, or in the order that `axes` says.

    >>> import pullback as pb
    >>> pb.transpose([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    x = node(x)
    if axes is None:
        return _permuted(x, tuple(range(x.type.rank))[::-1])
    return _permuted(x, ordered_axes("transpose", tuple(axes), x.type.rank))


def _permuted(x: Node, perm: tuple[int, ...]) -> Tensor:
    if perm == tuple(range(x.type.rank)):
        return fresh(wrap(x))
    return record(TABLE["Transpose"](perm), (x,))


def matrix_transpose(x: Any) -> Tensor:
    """The last two dimensions swapped.

    >>> import pullback as pb
    >>> pb.matrix_transpose([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    x = node(x)
    rank = x.type.rank
    if rank < 2:
        raise ShapeError(
            f"needs rank 2 or more, got {x.type}", op="matrix_transpose",
            code="E3002",
        )  # fmt: skip
    return _permuted(x, (*range(rank - 2), rank - 1, rank - 2))


def moveaxis(x: Any, source: Any, destination: Any) -> Tensor:
    """Some dimensions at new places, the others in their order.

    >>> import pullback as pb
    >>> pb.moveaxis(pb.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = node(x)
    rank = x.type.rank
    old, new = ordered_axes("moveaxis", source, rank), ordered_axes("moveaxis", destination, rank)
    if len(old) != len(new):
        raise ShapeError(
            f"source and destination must have one length, got {source} and {destination}",
            op="moveaxis",
        )  # fmt: skip
    rest = iter([i for i in range(rank) if i not in old])
    places = dict(zip(new, old))
    return _permuted(x, tuple(places[i] if i in places else next(rest) for i in range(rank)))


def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Two dimensions exchanged.

    >>> import pullback as pb
    >>> pb.swapaxes(pb.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = node(x)
    a, b = (axis_of("swapaxes", axis, x.type.rank) for axis in (axis1, axis2))
    perm = list(range(x.type.rank))
    perm[a], perm[b] = b, a
    return _permuted(x, tuple(perm))


def expand_dims(x: Any, axis: Any = 0) -> Tensor:
    """New dimensions of extent 1 at the given places of the result.

    >>> import pullback as pb
    >>> pb.expand_dims([1, 2], axis=1).tolist()
    [[1], [2]]
    """
    x = node(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return record(TABLE["ExpandDims"](axes_of("expand_dims", axis, x.type.rank + count)), (x,))


def squeeze(x: Any, axis: Any = None) -> Tensor:
    """Without the given dimensions, which must have extent 1; all such, by default.

    >>> import pullback as pb
    >>> pb.squeeze([[1, 2]], axis=0).tolist()
    [1, 2]
    """
    x = node(x)
    if axis is None:
        axis = tuple(i for i, n in enumerate(x.type.shape) if n == 1)
    return record(TABLE["Squeeze"](axes_of("squeeze", axis, x.type.rank)), (x,))


def broadcast_to(x: Any, shape: Any) -> Tensor:
    """The elements repeated along dimensions of extent 1 and along new ones.

    >>> import pullback as pb
    >>> pb.broadcast_to([1, 2], (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return spread(as_tensor(x), shape_of("broadcast_to", shape))


def spread(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`x` broadcast to a shape; without a new node if it has it already."""
    return fresh(x) if x.shape == shape else record(TABLE["Broadcast"](shape), (node(x),))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that operands of these shapes broadcast to.

    >>> import pullback as pb
    >>> pb.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return placed("broadcast_shapes", _broadcast_shapes, (), *map(tuple, shapes))


def broadcast_arrays(*xs: Any) -> list[Tensor]:
    """Tensors broadcast against each other.

    >>> import pullback as pb
    >>> [x.shape for x in pb.broadcast_arrays([1, 2], [[3], [4]])]
    [(2, 2), (2, 2)]
    """
    made = [as_tensor(x) for x in xs]
    shape = placed("broadcast_arrays", _broadcast_shapes, (), *[x.shape for x in made])
    return [spread(x, shape) for x in made]


def flip(x: Any, axis: Any = None) -> Tensor:
    """The elements in reverse order along axes (all of them by default).

    >>> import pullback as pb
    >>> pb.flip([1, 2, 3]).tolist()
    [3, 2, 1]
    """
    x = node(x)
    return record(TABLE["Flip"](axes_of("flip", axis, x.type.rank)), (x,))
