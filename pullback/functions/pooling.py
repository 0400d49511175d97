"""Pooling: images are [N, spatial..., C]."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.functions import arguments
from pullback.functions.arguments import argument_node, float_node, per_axis_argument, record_as
from pullback.functions.convolution import Padding, convolution_padding_argument
from pullback.graph.node import Node
from pullback.lazy.tensor import Tensor
from pullback.ops.conv.window_extrema import WindowMax
from pullback.ops.conv.window_reduce import WindowSum
from pullback.typing import ArrayLike, Shape


def max_pool(
    x: ArrayLike, window: Shape, strides: Shape | None = None, padding: Padding = "VALID"
) -> Tensor:
    """Return the largest element of each window over the spatial dimensions of [N, spatial..., C].

    >>> pb.max_pool(pb.reshape(pb.arange(4.0), (1, 4, 1)), 2).tolist()
    [[[1.0], [3.0]]]
    """
    a = argument_node(x)
    op = WindowMax(*_pooling_window("max_pool", a, window, strides, padding))
    return record_as("max_pool", op, a)


def avg_pool(
    x: ArrayLike, window: Shape, strides: Shape | None = None, padding: Padding = "VALID"
) -> Tensor:
    """Return the mean of each window over the spatial dimensions, without the padding.

    >>> pb.avg_pool(pb.reshape(pb.arange(4.0), (1, 4, 1)), 2).tolist()
    [[[0.5], [2.5]]]
    """
    a = float_node(x)
    op = WindowSum(*_pooling_window("avg_pool", a, window, strides, padding))
    total = record_as("avg_pool", op, a)
    counts = op.numpy(np.ones((1, *a.type.shape[1:-1], 1), np.float32))  # elements in each window
    if counts.size and (counts == counts.flat[0]).all():
        counts = counts.flat[0]
    return total / arguments.literal_argument(counts, a.type.dtype)


def _pooling_window(
    op: str, x: Node, window: Shape, strides: Shape | None, padding: Padding
) -> tuple[Any, Any, Any]:
    """The parameters of a window op: sizes, strides and padding of every dimension."""
    rank = x.type.rank - 2
    if rank < 1:
        raise ShapeError(f"needs [N, spatial..., C], got {x.type}", op=op, code="E3002")
    sizes = per_axis_argument(op, window, rank, "window")
    steps = sizes if strides is None else per_axis_argument(op, strides, rank, "strides")
    border = convolution_padding_argument(
        op, padding, x.type.shape[1:-1], sizes, steps, (1,) * rank
    )
    return (1, *sizes, 1), (1, *steps, 1), ((0, 0), *border, (0, 0))


__all__ = ["avg_pool", "max_pool"]
