"""Convolution and pooling: images are [N, spatial..., C], filters [spatial..., C, F]."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    float_node,
    float_operands,
    literal,
    node,
    per_dimension,
    placed,
)
from pullback.graph.node import Node
from pullback.graph.table import TABLE
from pullback.lazy.record import record
from pullback.ops.conv.windows import resolve_padding

Padding = tuple[tuple[int, int], ...]


def conv(
    x: Any, filters: Any, strides: Any = 1, padding: Any = "VALID", dilation: Any = 1,
    groups: int = 1, input_dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """Filters [spatial..., C / groups, F] slid over [N, spatial..., C]; any number of dimensions.

    `padding` is "VALID", "SAME" or a pair for each spatial dimension.

    >>> import pullback as pb
    >>> pb.conv(pb.ones((1, 5, 2)), pb.ones((3, 2, 4))).shape
    (1, 3, 4)
    """
    a, b = float_operands(as_tensor(x), as_tensor(filters))
    rank = a.type.rank - 2
    if rank < 0 or b.type.rank != a.type.rank:
        raise ShapeError(
            f"needs [N, spatial..., C] and [spatial..., C, F] of one rank, got {a.type} and "
            f"{b.type}",
            op="conv", code="E3002",
        )  # fmt: skip
    steps = per_dimension("conv", strides, rank, "strides")
    apart = per_dimension("conv", dilation, rank, "dilation")
    inner = per_dimension("conv", input_dilation, rank, "input_dilation")
    border = _padding("conv", padding, a.type.shape[1:-1], b.type.shape[:-2], steps, apart)
    return record(TABLE["Convolution"](steps, border, inner, apart, groups), (a, b))


def conv2d(x: Any, filters: Any, strides: Any = 1, padding: Any = "VALID") -> Tensor:
    """Filters [h, w, C, F] slid over images [N, H, W, C].

    >>> import pullback as pb
    >>> pb.conv2d(pb.ones((1, 4, 4, 3)), pb.ones((3, 3, 3, 8)), padding="SAME").shape
    (1, 4, 4, 8)
    """
    a, b = float_operands(as_tensor(x), as_tensor(filters))
    steps = per_dimension("conv2d", strides, 2, "strides")
    border = padding if isinstance(padding, str) else tuple(map(tuple, padding))
    return record(TABLE["Conv2d"](steps, border), (a, b))


def max_pool(x: Any, window: Any, strides: Any = None, padding: Any = "VALID") -> Tensor:
    """The largest element of each window of the spatial dimensions of [N, spatial..., C].

    >>> import pullback as pb
    >>> pb.max_pool(pb.reshape(pb.arange(4.0), (1, 4, 1)), 2).tolist()
    [[[1.0], [3.0]]]
    """
    x = node(x)
    return record(_window("WindowMax", "max_pool", x, window, strides, padding), (x,))


def avg_pool(x: Any, window: Any, strides: Any = None, padding: Any = "VALID") -> Tensor:
    """The mean of each window of the spatial dimensions of [N, spatial..., C], without padding.

    >>> import pullback as pb
    >>> pb.avg_pool(pb.reshape(pb.arange(4.0), (1, 4, 1)), 2).tolist()
    [[[0.5], [2.5]]]
    """
    x = float_node(x)
    op = _window("WindowSum", "avg_pool", x, window, strides, padding)
    spatial = (1, *x.type.shape[1:-1], 1)
    counts = op.numpy(np.ones(spatial, np.float32))  # how many elements each window really has
    if counts.size and (counts == counts.flat[0]).all():
        counts = counts.flat[0]
    return record(op, (x,)) / literal(counts, x.type.dtype)


def _window(name: str, title: str, x: Node, window: Any, strides: Any, padding: Any) -> Any:
    rank = x.type.rank - 2
    if rank < 1:
        raise ShapeError(f"needs [N, spatial..., C], got {x.type}", op=title, code="E3002")
    extents = per_dimension(title, window, rank, "window")
    steps = extents if strides is None else per_dimension(title, strides, rank, "strides")
    border = _padding(title, padding, x.type.shape[1:-1], extents, steps, (1,) * rank)
    around = ((0, 0), *border, (0, 0))
    return TABLE[name]((1, *extents, 1), (1, *steps, 1), around)


def _padding(
    title: str, padding: Any, extents: Any, window: Any, strides: Any, dilation: Any
) -> Padding:
    if not isinstance(padding, str) and (
        not isinstance(padding, (tuple, list)) or len(padding) != len(extents)
    ):
        raise ShapeError(
            f'padding must be "VALID", "SAME" or {len(extents)} pairs, got {padding!r}',
            op=title,
        )  # fmt: skip
    return placed(title, resolve_padding, padding, extents, window, strides, dilation)
