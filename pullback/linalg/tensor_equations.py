"""Linear equations between tensors: several dimensions stand for the rows of a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

from pullback.errors import ShapeError
from pullback.functions.arguments import checked_integer_argument, ordered_axes_argument
from pullback.functions.shape import flatten, permute_dims, reshape
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.linalg.solvers import inv, solve
from pullback.typing import ArrayLike


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[SupportsIndex] | None = None) -> Tensor:
    """Return the tensor x with tensordot(a, x, x.ndim) = b.

    The shape of `b` is that of the first dimensions of `a`, the shape of x that of the others.
    `axes` are moved to the end of `a` first.

    >>> a = pb.reshape(2.0 * pb.eye(6), (2, 3, 6))
    >>> pb.linalg.tensorsolve(a, pb.ones((2, 3))).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    op = "linalg.tensorsolve"
    left, right = as_tensor(a), as_tensor(b)
    if axes is not None:
        moved = ordered_axes_argument(op, axes, left.ndim)
        left = permute_dims(left, [*[i for i in range(left.ndim) if i not in moved], *moved])
    shape = left.shape[right.ndim :]
    if math.prod(shape) != right.size or left.size != right.size**2:
        what = "the dimensions of a before and after the first ones, as many as b has,"
        got = f"{left._node.type} and {right._node.type}"
        raise ShapeError(f"{what} must have as many elements as b, got {got}", op=op)
    found = solve(reshape(left, (right.size, right.size)), flatten(right))
    return reshape(found, shape)


def tensorinv(a: ArrayLike, ind: int = 2) -> Tensor:
    """Return the inverse of a tensor as a map between tensors.

    The first `ind` dimensions stand for the rows of a matrix, the others for its columns. The
    product tensordot(tensorinv(a), a, ind) is the identity.

    >>> pb.linalg.tensorinv(pb.reshape(2.0 * pb.eye(6), (2, 3, 6))).shape
    (6, 2, 3)
    """
    op = "linalg.tensorinv"
    x, first = as_tensor(a), checked_integer_argument(op, ind, "ind")
    if first < 1:
        raise ShapeError(f"ind must be at least 1, got {first}", op=op)
    rows, columns = x.shape[:first], x.shape[first:]
    if math.prod(rows) != math.prod(columns):
        what = f"the first {first} dimensions must have as many elements as the others"
        raise ShapeError(f"{what}, got {x._node.type}", op=op)
    size = math.prod(rows)
    return reshape(inv(reshape(x, (size, size))), (*columns, *rows))


__all__ = ["tensorinv", "tensorsolve"]
