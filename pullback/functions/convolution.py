"""Convolution and pooling: images are [N, spatial..., C], filters [spatial..., C, F]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.functions import arguments
from pullback.functions.arguments import (
    float_arguments,
    float_node,
    node,
    per_dimension,
    placed,
    record_as,
)
from pullback.graph.arguments import validated
from pullback.graph.node import Node
from pullback.lazy.operators import as_tensor
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.conv.conv2d import ImageConvolution
from pullback.ops.conv.convolution import Convolution
from pullback.ops.conv.window_extrema import WindowMax
from pullback.ops.conv.window_reduce import WindowSum
from pullback.ops.conv.windows import resolve_window_padding, window_pairs
from pullback.typing import ArrayLike, Shape

Padding = str | Sequence[Sequence[int]]


@validated
def conv(
    x: ArrayLike, filters: ArrayLike, strides: Shape = 1, padding: Padding = "VALID",
    dilation: Shape = 1, groups: int = 1, input_dilation: Shape = 1,
) -> Tensor:  # fmt: skip
    """Convolve [N, spatial..., C] with filters [spatial..., C / groups, F], of any rank.

    `padding` is "VALID", "SAME" or a pair for each spatial dimension.

    >>> pb.conv(pb.ones((1, 5, 2)), pb.ones((3, 2, 4))).shape
    (1, 3, 4)
    """
    a, b = float_arguments(as_tensor(x), as_tensor(filters))
    rank = a.type.rank - 2
    if rank < 0 or b.type.rank != a.type.rank:
        wanted = "[N, spatial..., C] and [spatial..., C, F] of the same rank"
        message = f"needs {wanted}, got {a.type} and {b.type}"
        raise ShapeError(message, op="conv", code="E3002")
    steps = per_dimension("conv", strides, rank, "strides")
    apart = per_dimension("conv", dilation, rank, "dilation")
    inner = per_dimension("conv", input_dilation, rank, "input_dilation")
    border = _convolution_padding(
        "conv", padding, a.type.shape[1:-1], b.type.shape[:-2], steps, apart
    )
    return record_as("conv", Convolution(steps, border, inner, apart, groups), a, b)


def conv2d(
    x: ArrayLike, filters: ArrayLike, strides: Shape = 1, padding: Padding = "VALID"
) -> Tensor:
    """Convolve images [N, H, W, C] with filters [h, w, C, F].

    >>> pb.conv2d(pb.ones((1, 4, 4, 3)), pb.ones((3, 3, 3, 8)), padding="SAME").shape
    (1, 4, 4, 8)
    """
    a, b = float_arguments(as_tensor(x), as_tensor(filters))
    steps = per_dimension("conv2d", strides, 2, "strides")
    border: Any = padding if isinstance(padding, str) else placed("conv2d", window_pairs, padding)
    return record(ImageConvolution(steps, border), (a, b))


def max_pool(
    x: ArrayLike, window: Shape, strides: Shape | None = None, padding: Padding = "VALID"
) -> Tensor:
    """Return the largest element of each window over the spatial dimensions of [N, spatial..., C].

    >>> pb.max_pool(pb.reshape(pb.arange(4.0), (1, 4, 1)), 2).tolist()
    [[[1.0], [3.0]]]
    """
    a = node(x)
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
    return total / arguments.literal(counts, a.type.dtype)


def _pooling_window(
    op: str, x: Node, window: Shape, strides: Shape | None, padding: Padding
) -> tuple[Any, Any, Any]:
    """The parameters of a window op: sizes, strides and padding of every dimension."""
    rank = x.type.rank - 2
    if rank < 1:
        raise ShapeError(f"needs [N, spatial..., C], got {x.type}", op=op, code="E3002")
    sizes = per_dimension(op, window, rank, "window")
    steps = sizes if strides is None else per_dimension(op, strides, rank, "strides")
    border = _convolution_padding(op, padding, x.type.shape[1:-1], sizes, steps, (1,) * rank)
    return (1, *sizes, 1), (1, *steps, 1), ((0, 0), *border, (0, 0))


def _convolution_padding(
    op: str, padding: Padding, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int],
    dilation: Sequence[int],
) -> tuple[tuple[int, int], ...]:  # fmt: skip
    pairs = isinstance(padding, (tuple, list)) and len(padding) == len(sizes)
    if not isinstance(padding, str) and not pairs:
        message = f'padding must be "VALID", "SAME" or {len(sizes)} pairs, got {padding!r}'
        raise ShapeError(message, op=op)
    return arguments.placed(op, resolve_window_padding, padding, sizes, window, strides, dilation)


__all__ = ["avg_pool", "conv", "conv2d", "max_pool"]
