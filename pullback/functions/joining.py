"""Joining tensors along an axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from pullback.errors import ArgumentError, OutOfMemory
from pullback.functions import arguments
from pullback.functions.arguments import axis_argument, tensor_arguments
from pullback.functions.composed import composed
from pullback.functions.shape import flatten, reshaped_to
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.node import Node
from pullback.lazy.host_data import length_of_host_data
from pullback.lazy.operators import as_tensor, cast_node, node_of, operator_operands
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.shape.concat_pad import Concat
from pullback.ops.shape.movement import Reshape
from pullback.typing import ArrayLike, DTypeLike

JOINED_AT_ONCE = 64  # the most operands of one concatenation


def concat(
    arrays: Sequence[ArrayLike] | Tensor, axis: int | None = 0, *, dtype: DTypeLike | None = None
) -> Tensor:
    """Join tensors along an existing axis; None flattens them first.

    With `dtype` they are converted to it, otherwise promoted to a common one.

    >>> pb.concat([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    parts = tensors_to_join("concat", arrays)
    if axis is None:
        parts, axis = [flatten(p) for p in parts], 0
    axis = axis_argument("concat", axis, parts[0].ndim)
    return recorded_joining(axis, joining_nodes("concat", parts, dtype))


def joining_nodes(op: str, parts: list[Tensor], dtype: DTypeLike | None) -> list[Node]:
    if dtype is None:
        nodes = [node_of(x) for x in parts]
        return nodes if len({x.type.dtype for x in nodes}) == 1 else operator_operands(*parts)
    wanted = arguments.converted_argument(op, dtype_of, dtype)
    return [cast_node(node_of(x), wanted) for x in parts]


def recorded_joining(
    axis: int, parts: Sequence[Node], shape: tuple[int, ...] | None = None
) -> Tensor:
    """Record a concatenation of nodes, reshaped to `shape` if it is given.

    XLA's compile time is quadratic in the number of operands: 6 s for 2,000. So many are joined in
    groups, which are equal parts of the program and compiled once.
    """
    groups = []
    for i in range(0, len(parts), JOINED_AT_ONCE):
        few = parts[i : i + JOINED_AT_ONCE]
        made = few if shape is None else [record(Reshape(shape), (x,))._node for x in few]
        groups.append(record(Concat(axis), tuple(made)))
    return groups[0] if len(groups) == 1 else recorded_joining(axis, [g._node for g in groups])


def tensors_to_join(op: str, arrays: Iterable[ArrayLike]) -> list[Tensor]:
    """Return the elements of a sequence as tensors; there must be one."""
    try:
        # An object may have a length and nevertheless no end
        given = (
            arrays
            if isinstance(arrays, Tensor)
            else itertools.islice(arrays, length_of_host_data(arrays))
        )
    except OutOfMemory as error:
        raise error.at(op, None) from None
    except TypeError:
        what = f"arrays must be a sequence of tensors, got {shown_argument(arrays)}"
        raise ArgumentError(what, op=op) from None
    parts = tensor_arguments(*given)
    if not parts:
        raise ArgumentError("arrays must contain at least one tensor", op=op)
    return parts


@composed
def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> Tensor:
    """Join `values` to the end of a tensor along an axis; without an axis both are flattened.

    >>> pb.append([[1, 2]], [[3], [4]]).tolist()
    [1, 2, 3, 4]
    """
    return concat([wrap(v) for v in operator_operands(as_tensor(x), as_tensor(values))], axis=axis)


@composed
def block(arrays: ArrayLike) -> Tensor:
    """Assemble a tensor from nested lists of blocks: the innermost lists are joined along the last
    axis, those around them along the one before.

    >>> a, b = pb.ones((2, 2)), pb.zeros((2, 1))
    >>> pb.block([[a, b], [1.0, 2.0, 3.0]]).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 2.0, 3.0]]
    """
    depth = _joined_block_depth(arrays)
    leaves: list[Tensor] = []
    nested = _joined_block_leaves(arrays, depth, leaves)
    rank = max(depth, *[x.ndim for x in leaves], 0)
    return _block_joined(nested, depth, rank)


def _joined_block_depth(arrays: Any) -> int:
    return 1 + _joined_block_depth(arrays[0]) if isinstance(arrays, list) and arrays else 0


def _joined_block_leaves(arrays: Any, depth: int, leaves: list[Tensor]) -> Any:
    """Return nested lists with tensors in place of what the lists hold; collect the tensors."""
    if isinstance(arrays, list):
        if not depth or not arrays:
            raise ArgumentError("all lists must be nested equally deep, none empty", op="block")
        return [_joined_block_leaves(a, depth - 1, leaves) for a in arrays]
    if depth:
        raise ArgumentError("all lists must be nested equally deep, none empty", op="block")
    leaves.append(as_tensor(arrays))
    return leaves[-1]


def _block_joined(arrays: Any, depth: int, rank: int) -> Tensor:
    if isinstance(arrays, list):
        return concat([_block_joined(a, depth - 1, rank) for a in arrays], axis=rank - depth)
    return reshaped_to(arrays, (1,) * (rank - arrays.ndim) + arrays.shape)


__all__ = ["append", "block", "concat"]
