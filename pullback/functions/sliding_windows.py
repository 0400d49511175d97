"""Windows that slide over a tensor."""

from __future__ import annotations

import numpy as np

from pullback.errors import ShapeError
from pullback.functions.arguments import Tensor, as_tensor, ordered_axes_argument, shape_argument
from pullback.functions.composed import composed
from pullback.functions.shape import moveaxis
from pullback.functions.where_take import take
from pullback.typing import ArrayLike, Axis, Shape


@composed
def sliding_window_view(x: ArrayLike, window_shape: Shape, axis: Axis = None) -> Tensor:
    """Return all windows of a shape, along new axes at the end, as `numpy.lib.stride_tricks` does.

    >>> pb.sliding_window_view([1, 2, 3, 4], 3).tolist()
    [[1, 2, 3], [2, 3, 4]]
    """
    op = "sliding_window_view"
    made = as_tensor(x)
    sizes = shape_argument(op, window_shape)
    axes = ordered_axes_argument(op, tuple(range(made.ndim)) if axis is None else axis, made.ndim)
    if len(sizes) != len(axes):
        raise ShapeError(f"needs a window size for each of {len(axes)} axes, got {list(sizes)}")
    for size, place in zip(sizes, axes, strict=True):
        count = made.shape[place] - size + 1
        if count < 1:
            raise ShapeError(f"a window of {size} does not fit into axis {place}")
        places = np.arange(count)[:, None] + np.arange(size)
        made = moveaxis(take(made, places, place), place + 1, -1)
    return made


__all__ = ["sliding_window_view"]
