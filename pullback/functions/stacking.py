"""Stacking tensors along a new axis, or along the first, second or third one."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    Tensor,
    axis_argument,
    operator_operands,
    tensor_sequence_argument,
)
from pullback.functions.atleast_ranks import at_least_rank_1, at_least_rank_2, at_least_rank_3
from pullback.functions.composed import composed
from pullback.functions.joining import (
    JOINED_AT_ONCE,
    concat,
    joining_nodes,
    recorded_joining,
    tensors_to_join,
)
from pullback.functions.shape import reshaped_to
from pullback.lazy.record import record
from pullback.lazy.tensor import wrap
from pullback.ops.shape.movement import Reshape
from pullback.typing import ArrayLike, DTypeLike


@composed
def vstack(arrays: Sequence[ArrayLike] | Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """Join tensors along the first axis; vectors are rows.

    >>> pb.vstack([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return _stacked([at_least_rank_2(x) for x in _stack_parts("vstack", arrays)], 0, dtype)


@composed
def hstack(arrays: Sequence[ArrayLike] | Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """Join tensors along the second axis, vectors along their only one.

    >>> pb.hstack([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    parts = [at_least_rank_1(x) for x in _stack_parts("hstack", arrays)]
    return _stacked(parts, 0 if parts[0].ndim == 1 else 1, dtype)


@composed
def dstack(arrays: Sequence[ArrayLike] | Tensor) -> Tensor:
    """Join tensors along the third axis; a vector of size n is [1, n, 1], a matrix [m, n, 1].

    >>> pb.dstack([[1, 2], [3, 4]]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return concat([at_least_rank_3(x) for x in _stack_parts("dstack", arrays)], axis=2)


@composed
def column_stack(arrays: Sequence[ArrayLike] | Tensor) -> Tensor:
    """Join tensors along the second axis; vectors are columns.

    >>> pb.column_stack([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    parts = _stack_parts("column_stack", arrays)
    return concat([x if x.ndim >= 2 else reshaped_to(x, (x.size, 1)) for x in parts], axis=1)


def _stack_parts(op: str, arrays: Sequence[ArrayLike] | Tensor) -> list[Tensor]:
    parts = tensor_sequence_argument(op, arrays, "arrays")
    if not parts:
        raise ArgumentError("arrays must contain at least one tensor", op=op)
    return [wrap(x) for x in operator_operands(*parts)]


def _stacked(parts: list[Tensor], axis: int, dtype: DTypeLike | None) -> Tensor:
    return concat(parts, axis=axis, dtype=dtype)


def stack(
    arrays: Sequence[ArrayLike] | Tensor, axis: int = 0, *, dtype: DTypeLike | None = None
) -> Tensor:
    """Join tensors of the same shape along a new axis.

    With `dtype` they are converted to it, otherwise promoted to a common one.

    >>> pb.stack([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    parts = tensors_to_join("stack", arrays)
    shape = parts[0].shape
    if len({p._node.type.shape for p in parts}) > 1:
        shown = ", ".join(str(p._node.type) for p in parts)
        raise ShapeError(f"tensors must have the same shape, got {shown}", op="stack")
    axis = axis_argument("stack", axis, len(shape) + 1)
    nodes = joining_nodes("stack", parts, dtype)
    if (
        len(nodes) > JOINED_AT_ONCE
        and axis < len(shape)
        and not any(x.type.sharding for x in nodes)
    ):
        # One reshape at the end: the new axis comes from the one that the parts are joined along
        whole = (*shape[:axis], len(nodes), *shape[axis:])
        return record(Reshape(whole), (recorded_joining(axis, nodes)._node,))
    return recorded_joining(axis, nodes, (*shape[:axis], 1, *shape[axis:]))


__all__ = ["column_stack", "dstack", "hstack", "stack", "vstack"]
