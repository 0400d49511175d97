"""Elements chosen by a condition or by their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import ArgumentError, IndexOutOfRange, ShapeError
from pullback.functions.arguments import (
    Tensor,
    apply,
    as_tensor,
    axis_of,
    fresh,
    node,
    node_of,
    number,
    operands,
    placed,
    scalar,
    shape_of,
)
from pullback.functions.shape import spread
from pullback.graph.dtypes import int64
from pullback.graph.node import Node, constant
from pullback.graph.table import TABLE
from pullback.lazy.index_plan import counted_from_start, out_of_range
from pullback.lazy.indexing import updated
from pullback.lazy.record import at_one_line, record
from pullback.ops.prelude import broadcast_shapes
from pullback.ops.reduce.extrema import bounds


def where(condition: Any, x1: Any, x2: Any) -> Tensor:
    """Elements of `x1` where the condition holds, of `x2` elsewhere; the one that is not taken
    gets no gradient.

    >>> import pullback as pb
    >>> pb.where([True, False], [1, 2], 0).tolist()
    [1, 0]
    """
    return apply("Where", node(condition), *operands(x1, x2))


def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """Elements held between bounds; on a bound the gradient is that of `x`.

    >>> import pullback as pb
    >>> pb.clip([-2, 0, 5], 0, 3).tolist()
    [0, 0, 3]
    """
    if min is None and max is None:
        return fresh(as_tensor(x))
    given = [v for v in (min, max) if v is not None]
    x, *limits = operands(as_tensor(x), *given)
    least, most = bounds(x.type.dtype)
    low = constant(least, x.type.dtype) if min is None else limits[0]
    high = constant(most, x.type.dtype) if max is None else limits[-1]
    return apply("Clamp", x, low, high)


def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """The parts of a tensor at `indices` along an axis, which a vector need not name.

    >>> import pullback as pb
    >>> pb.take([10, 20, 30], [2, 0]).tolist()
    [30, 10]
    """
    x = as_tensor(x)
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"needs an axis for a tensor of rank {x.ndim}", op="take")
    axis = axis_of("take", 0 if axis is None else axis, x.ndim)
    indices = list(indices) if isinstance(indices, (tuple, range)) else indices
    with at_one_line("take"):
        return x[(*(slice(None),) * axis, indices)]


def gather(x: Any, indices: Any, axis: int = 0) -> Tensor:
    """The same as `take`: the indices' dimensions replace the axis.

    >>> import pullback as pb
    >>> pb.gather([10, 20, 30], [[2, 0]]).tolist()
    [[30, 10]]
    """
    with at_one_line("gather"):
        return take(x, indices, axis)


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Tensor:
    """out[.., i, ..] = x[.., indices[.., i, ..], ..]: each element names its own place.

    >>> import pullback as pb
    >>> pb.take_along_axis([[1, 2], [3, 4]], [[1], [0]], axis=1).tolist()
    [[2], [3]]
    """
    x, places = as_tensor(x), as_tensor(indices)
    axis = axis_of("take_along_axis", axis, x.ndim)
    if places.ndim != x.ndim:
        raise ShapeError(
            f"tensor and indices must have one rank, got {x._node.type} and {places._node.type}",
            op="take_along_axis", code="E3002",
        )  # fmt: skip
    others = [(*t.shape[:axis], 1, *t.shape[axis + 1 :]) for t in (x, places)]
    shape = placed("take_along_axis", broadcast_shapes, *others)
    x, wide = (spread(t, (*shape[:axis], t.shape[axis], *shape[axis + 1 :])) for t in (x, places))
    extent = x.shape[axis]
    if places is not indices and places.dtype.is_integer:
        _check_range(places.numpy(), axis, extent)
    index = counted_from_start(node_of(wide), extent) if wide.dtype.is_integer else wide._node
    return record(TABLE["TakeAlongAxis"](axis), (node_of(x), index))


def _check_range(indices: np.ndarray, axis: int, extent: int) -> None:
    """What the user wrote down is checked at once."""
    wrong = (indices < -extent) | (indices >= extent)
    if wrong.any():
        raise out_of_range(int(indices[wrong].flat[0]), axis, extent)


def scatter(x: Any, index: Any, updates: Any, mode: str = "set") -> Tensor:
    """`x` with updates at an index: set, add, multiply, min or max; as `x.at[index]`.

    >>> import pullback as pb
    >>> pb.scatter([0, 0, 0], [1, 1], 2, mode="add").tolist()
    [0, 4, 0]
    """
    with at_one_line("scatter"):
        return updated(x, index, updates, mode)


def repeat_each(x: Tensor, repeats: Any, axis: int) -> Tensor:
    """Each part along an axis as often as a list says; the list's values are read."""
    counts = as_tensor(repeats).numpy()
    n = x.shape[axis]
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (1,), (n,)) or (counts < 0).any():
        raise ArgumentError(
            f"repetitions must be integers that are not negative, one or {n} of them, "
            f"got {counts.tolist()}",
            op="repeat",
        )  # fmt: skip
    return take(x, np.repeat(np.arange(n), np.broadcast_to(counts, (n,))), axis)


def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Tensor:
    """The block of extents `sizes` that begins at `starts`, which may be tensors.

    >>> import pullback as pb
    >>> pb.dynamic_slice([1, 2, 3, 4], [pb.tensor(1)], [2]).tolist()
    [2, 3]
    """
    x = as_tensor(x)
    extents = shape_of("dynamic_slice", sizes)
    places = _starts("dynamic_slice", x, starts, extents)
    return record(TABLE["DynamicSlice"](extents), (node_of(x), *places))


def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Tensor:
    """`x` with the block that begins at `starts` replaced.

    >>> import pullback as pb
    >>> pb.dynamic_update_slice([1, 2, 3, 4], [7, 8], [pb.tensor(1)]).tolist()
    [1, 7, 8, 4]
    """
    x = as_tensor(x)
    new = as_tensor(update).astype(x.dtype)
    places = _starts("dynamic_update_slice", x, starts, new.shape)
    return record(TABLE["DynamicUpdateSlice"](), (node_of(x), node_of(new), *places))


def _starts(op: str, x: Tensor, starts: Any, sizes: tuple[int, ...]) -> list[Node]:
    """Where a block begins, as nodes; what is known now is checked now."""
    nodes = []
    for axis, (start, n, size) in enumerate(zip(starts, x.shape, sizes)):
        start = number(start)
        if not isinstance(start, int):
            nodes.append(node(start))
            continue
        if not 0 <= start <= n - size:
            raise IndexOutOfRange(
                f"start {start} is out of range for a block of {size} in axis {axis} with size {n}",
                op=op, axis=axis, extent=n,
            )  # fmt: skip
        nodes.append(scalar(start, int64))
    if not len(starts) == len(sizes) == x.ndim:
        raise ArgumentError(
            f"needs {x.ndim} starts and extents for {x._node.type}, got {len(starts)} and "
            f"{len(sizes)}",
            op=op,
        )  # fmt: skip
    return nodes
