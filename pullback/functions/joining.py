"""Joining, splitting and repeating tensors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from pullback.errors import ArgumentError, OutOfMemory, ShapeError
from pullback.functions import arguments
from pullback.functions.arguments import (
    along,
    as_tensors,
    axis_of,
    fresh,
    integer,
    integer_node,
    one_or_many,
    shape_of,
)
from pullback.functions.shape import flatten, flip, shaped, spread, swapaxes
from pullback.functions.where_take import repeat_each
from pullback.graph.arguments import shown, validated
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.node import Node
from pullback.lazy.host_data import length_of_host_data
from pullback.lazy.operators import as_tensor, cast_node, node_of, operands
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.shape.concat_pad import Concat
from pullback.ops.shape.movement import Reshape
from pullback.ops.shape.roll import Roll
from pullback.typing import ArrayLike, Axis, DTypeLike, Shape

_GROUP = 64  # the most operands of one concatenation


def concat(
    arrays: Sequence[ArrayLike] | Tensor, axis: int | None = 0, *, dtype: DTypeLike | None = None
) -> Tensor:
    """Join tensors along an existing axis; None flattens them first.

    With `dtype` they are converted to it, otherwise promoted to a common one.

    >>> pb.concat([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    parts = _tensors_to_join("concat", arrays)
    if axis is None:
        parts, axis = [flatten(p) for p in parts], 0
    axis = axis_of("concat", axis, parts[0].ndim)
    return _joined(axis, _nodes_to_join("concat", parts, dtype))


def stack(
    arrays: Sequence[ArrayLike] | Tensor, axis: int = 0, *, dtype: DTypeLike | None = None
) -> Tensor:
    """Join tensors of the same shape along a new axis.

    With `dtype` they are converted to it, otherwise promoted to a common one.

    >>> pb.stack([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    parts = _tensors_to_join("stack", arrays)
    shape = parts[0].shape
    if len({p._node.type.shape for p in parts}) > 1:
        shown = ", ".join(str(p._node.type) for p in parts)
        raise ShapeError(f"tensors must have the same shape, got {shown}", op="stack")
    axis = axis_of("stack", axis, len(shape) + 1)
    nodes = _nodes_to_join("stack", parts, dtype)
    if len(nodes) > _GROUP and axis < len(shape) and not any(x.type.sharding for x in nodes):
        # One reshape at the end: the new axis comes from the one that the parts are joined along
        whole = (*shape[:axis], len(nodes), *shape[axis:])
        return record(Reshape(whole), (_joined(axis, nodes)._node,))
    return _joined(axis, nodes, (*shape[:axis], 1, *shape[axis:]))


def _nodes_to_join(op: str, parts: list[Tensor], dtype: DTypeLike | None) -> list[Node]:
    if dtype is None:
        nodes = [node_of(x) for x in parts]
        return nodes if len({x.type.dtype for x in nodes}) == 1 else operands(*parts)
    wanted = arguments.placed(op, dtype_of, dtype)
    return [cast_node(node_of(x), wanted) for x in parts]


def _joined(axis: int, parts: Sequence[Node], shape: tuple[int, ...] | None = None) -> Tensor:
    """Record a concatenation of nodes, reshaped to `shape` if it is given.

    XLA's compile time is quadratic in the number of operands: 6 s for 2,000. So many are joined in
    groups, which are equal parts of the program and compiled once.
    """
    groups = []
    for i in range(0, len(parts), _GROUP):
        few = parts[i : i + _GROUP]
        made = few if shape is None else [record(Reshape(shape), (x,))._node for x in few]
        groups.append(record(Concat(axis), tuple(made)))
    return groups[0] if len(groups) == 1 else _joined(axis, [g._node for g in groups])


def _tensors_to_join(op: str, arrays: Iterable[ArrayLike]) -> list[Tensor]:
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
        what = f"arrays must be a sequence of tensors, got {shown(arrays)}"
        raise ArgumentError(what, op=op) from None
    parts = as_tensors(*given)
    if not parts:
        raise ArgumentError("arrays must contain at least one tensor", op=op)
    return parts


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Tensor, ...]:
    """Split a tensor into its slices along an axis, and remove that axis.

    >>> [part.tolist() for part in pb.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    axis = axis_of("unstack", axis, x.ndim)
    return tuple([x[along(axis, i)] for i in range(x.shape[axis])])


def split(x: ArrayLike, sections: Shape, axis: int = 0) -> list[Tensor]:
    """Split a tensor along an axis: into a number of equal parts, or before the given indices.

    >>> [part.tolist() for part in pb.split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    axis = axis_of("split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(sections, (tuple, list)):
        cuts = [0, *[integer("split", c, "an index") for c in sections], n]
    else:
        parts = integer("split", sections, "the number of parts")
        if parts < 1 or n % parts:
            message = f"axis {axis} of {x._node.type} cannot be split into {parts} equal parts"
            raise ShapeError(message, op="split")
        cuts = list(range(0, n + 1, n // parts)) if n else [0] * (parts + 1)
    return [x[along(axis, slice(a, b))] for a, b in itertools.pairwise(cuts)]


def roll(x: ArrayLike, shift: Shape, axis: Axis = None) -> Tensor:
    """Shift the elements along axes by `shift` positions; those past the end reappear at the start.

    >>> pb.roll([1, 2, 3], 1).tolist()
    [3, 1, 2]
    """
    x = as_tensor(x)
    if axis is None:
        return shaped(roll(flatten(x), shift, 0), x.shape)
    axes = one_or_many(axis)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        message = f"shift and axis must have the same length, got {shift} and {axis}"
        raise ArgumentError(message, op="roll")
    result = fresh(x)
    for by, a in zip(shifts, axes):
        result = _rolled_join(result, by, axis_of("roll", a, x.ndim))
    return result


def _rolled_join(x: Tensor, shift: Any, axis: int) -> Tensor:
    size = max(x.shape[axis], 1)
    places = integer_node("roll", shift, "a shift", lambda n: n % size)
    return record(Roll(axis), (node_of(x), places))


def tile(x: ArrayLike, repetitions: Shape) -> Tensor:
    """Repeat the whole tensor along each dimension.

    >>> pb.tile([1, 2], 2).tolist()
    [1, 2, 1, 2]
    """
    x = as_tensor(x)
    what = "a number of repetitions"
    times = [integer("tile", r, what) for r in shape_of("tile", repetitions, what)]
    rank = max(len(times), x.ndim)
    times = [1] * (rank - len(times)) + times
    shape = (1,) * (rank - x.ndim) + x.shape
    apart = tuple(n for s in shape for n in (1, s))
    wide = tuple(n for r, s in zip(times, shape) for n in (r, s))
    return shaped(spread(shaped(x, apart), wide), tuple(r * s for r, s in zip(times, shape)))


def repeat(x: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Tensor:
    """Repeat each element along an axis: the same number of times, or one number for each.

    >>> pb.repeat([1, 2], 2).tolist(), pb.repeat([1, 2], [0, 3]).tolist()
    ([1, 1, 2, 2], [2, 2, 2])
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = flatten(x), 0
    axis = axis_of("repeat", axis, x.ndim)
    if isinstance(repeats, (tuple, list, Tensor)) or hasattr(repeats, "__array__"):
        return repeat_each(x, repeats, axis)
    times = integer("repeat", repeats, "the number of repetitions")
    if times < 0:
        message = f"the number of repetitions must not be negative, got {times}"
        raise ArgumentError(message, op="repeat")
    head, tail = x.shape[: axis + 1], x.shape[axis + 1 :]
    wide = spread(shaped(x, (*head, 1, *tail)), (*head, times, *tail))
    return shaped(wide, (*x.shape[:axis], head[-1] * times, *tail))


@validated
def rot90(x: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate a tensor by `k` times 90 degrees in a plane, from the first axis to the second.

    >>> pb.rot90([[1, 2], [3, 4]]).tolist()
    [[2, 4], [1, 3]]
    """
    x = as_tensor(x)
    a, b = arguments.ordered_axes("rot90", axes, x.ndim)
    turns = k % 4
    if turns == 0:
        return fresh(x)
    if turns == 2:
        return flip(x, (a, b))
    return swapaxes(flip(x, b), a, b) if turns == 1 else flip(swapaxes(x, a, b), b)


__all__ = ["concat", "repeat", "roll", "rot90", "split", "stack", "tile", "unstack"]
