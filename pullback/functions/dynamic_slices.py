"""Blocks at positions that may be tensors."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.errors import ArgumentError, IndexOutOfRange
from pullback.functions.arguments import argument_node, shape_argument
from pullback.graph.argument_checks import checked_sequence_argument
from pullback.graph.dtypes import int64
from pullback.graph.node import Node
from pullback.lazy.operators import as_tensor, node_of, operator_number, scalar_operator_operand
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.index.dynamic_slice import DynamicSlice, DynamicUpdateSlice
from pullback.typing import ArrayLike


def dynamic_slice(x: ArrayLike, starts: Sequence[ArrayLike], sizes: Sequence[int]) -> Tensor:
    """Return the block of the given sizes that begins at `starts`, which may be tensors.

    >>> pb.dynamic_slice([1, 2, 3, 4], [pb.tensor(1)], [2]).tolist()
    [2, 3]
    """
    x = as_tensor(x)
    shape = shape_argument("dynamic_slice", sizes)
    places = _dynamic_starts("dynamic_slice", x, starts, shape)
    return record(DynamicSlice(shape), (node_of(x), *places))


def dynamic_update_slice(x: ArrayLike, update: ArrayLike, starts: Sequence[ArrayLike]) -> Tensor:
    """Return `x` with the block that begins at `starts` replaced by `update`.

    >>> pb.dynamic_update_slice([1, 2, 3, 4], [7, 8], [pb.tensor(1)]).tolist()
    [1, 7, 8, 4]
    """
    x = as_tensor(x)
    new = as_tensor(update).astype(x.dtype)
    places = _dynamic_starts("dynamic_update_slice", x, starts, new.shape)
    return record(DynamicUpdateSlice(), (node_of(x), node_of(new), *places))


def _dynamic_starts(
    op: str, x: Tensor, starts: Sequence[ArrayLike], sizes: tuple[int, ...]
) -> list[Node]:
    """The nodes of the start indices; Python ints are checked against the size."""
    starts = checked_sequence_argument(op, starts, "starts")
    nodes = []
    for axis, (start, n, size) in enumerate(zip(starts, x.shape, sizes)):
        start = operator_number(start)
        if not isinstance(start, int):
            nodes.append(argument_node(start))
            continue
        if not 0 <= start <= n - size:
            what = f"is out of range for a block of {size} in axis {axis} with size {n}"
            raise IndexOutOfRange(f"start {start} {what}", op=op, axis=axis, extent=n)
        nodes.append(scalar_operator_operand(start, int64))
    if not len(starts) == len(sizes) == x.ndim:
        got = f"{len(starts)} and {len(sizes)}"
        message = f"needs {x.ndim} starts and sizes for {x._node.type}, got {got}"
        raise ArgumentError(message, op=op)
    return nodes


__all__ = ["dynamic_slice", "dynamic_update_slice"]
