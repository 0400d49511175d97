"""Functions applied along axes of a tensor, or to the indices of its elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.api.vmap import vmap
from pullback.errors import ShapeError
from pullback.functions.arguments import axis_argument, one_or_many_arguments
from pullback.functions.shape import expand_dims, moveaxis, reshaped_to
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike, Axis


@with_argument_checks
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Tensor:
    """Apply a function of vectors to all slices along an axis, with further arguments.

    The dimensions of its result replace the axis. The function runs once, on placeholders, as with
    `vmap`.

    >>> pb.apply_along_axis(lambda v: v[0] + v[-1], 1, [[1, 2, 3], [4, 5, 6]]).tolist()
    [4, 10]
    """
    x = asarray(arr)
    axis = axis_argument("apply_along_axis", axis, x.ndim)
    others = (*x.shape[:axis], *x.shape[axis + 1 :])
    rows = reshaped_to(moveaxis(x, axis, -1), (math.prod(others), x.shape[axis]))
    made = vmap(lambda row: asarray(func1d(row, *args, **kwargs)))(rows)
    core = made.ndim - 1
    made = reshaped_to(made, others + made.shape[1:])
    return moveaxis(made, tuple(range(-core, 0)), tuple(range(axis, axis + core)))


@with_argument_checks
def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: Axis) -> Tensor:
    """Apply `func(x, axis)` over several axes in turn; a dimension that it removes is put back.

    >>> pb.apply_over_axes(pb.sum, pb.ones((2, 3, 4)), (0, 2)).tolist()
    [[[8.0], [8.0], [8.0]]]
    """
    x = asarray(a)
    rank = x.ndim
    for axis in one_or_many_arguments(axes):
        i = axis_argument("apply_over_axes", axis, rank)
        made = asarray(func(x, i))
        x = made if made.ndim == rank else expand_dims(made, i)
        if x.ndim != rank:
            message = f"the function must return rank {rank} or {rank - 1}, got {made._node.type}"
            raise ShapeError(message, op="apply_over_axes")
    return x
