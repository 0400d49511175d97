"""Vandermonde matrices."""

from __future__ import annotations

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import checked_integer_argument
from pullback.functions.creation import ones
from pullback.functions.cumulative import cumulative_prod
from pullback.functions.flip_roll_resize import flip
from pullback.functions.joining import concat
from pullback.functions.shape import broadcast_to, expand_dims
from pullback.graph.argument_checks import checked_flag_argument
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the matrix whose columns are powers of `x`, from `N` - 1 to 0; `N` is its length.

    With `increasing`, the powers go from 0 to `N` - 1.

    >>> pb.vander([1, 2, 3], 3).tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    points = as_tensor(x)
    if points.ndim != 1:
        raise ShapeError(f"x must be a vector, got {points._node.type}", op="vander", code="E3002")
    count = points.shape[0] if N is None else checked_integer_argument("vander", N, "N")
    if count < 0:
        raise ArgumentError(f"N must not be negative, got {count}", op="vander")
    upwards = checked_flag_argument("vander", increasing, "increasing")
    one = ones((points.shape[0], min(count, 1)), dtype=points.dtype)
    if count > 1:
        rest = broadcast_to(expand_dims(points, 1), (points.shape[0], count - 1))
        one = concat([one, cumulative_prod(rest, axis=1, dtype=points.dtype)], axis=1)
    return one if upwards else flip(one, axis=1)


__all__ = ["vander"]
