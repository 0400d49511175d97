"""Tensors put together, taken apart, repeated and padded."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    axes_of,
    axis_of,
    fresh,
    integer,
    node,
    node_of,
    number,
    operands,
    ordered_axes,
    scalar,
    tensors,
)
from pullback.functions.shape import flatten, shaped, spread
from pullback.graph.node import constant
from pullback.graph.table import TABLE
from pullback.lazy.operators import NUMBERS
from pullback.lazy.record import record


def concat(arrays: Sequence[Any], axis: int | None = 0) -> Tensor:
    """Tensors one after the other along an axis; None flattens them first.

    >>> import pullback as pb
    >>> pb.concat([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    parts = tensors(arrays)
    if not parts:
        raise ArgumentError("needs at least one tensor", op="concat")
    if axis is None:
        parts, axis = [flatten(p) for p in parts], 0
    axis = axis_of("concat", axis, parts[0].ndim)
    return record(TABLE["Concat"](axis), tuple(operands(*parts)))


def stack(arrays: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape side by side along a new axis.

    >>> import pullback as pb
    >>> pb.stack([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    parts = tensors(arrays)
    if not parts:
        raise ArgumentError("needs at least one tensor", op="stack")
    if any(p.shape != parts[0].shape for p in parts):
        shown = ", ".join(str(p._node.type) for p in parts)
        raise ShapeError(f"tensors must have one shape, got {shown}", op="stack")
    axis = axis_of("stack", axis, parts[0].ndim + 1)
    shape = parts[0].shape
    wide = (*shape[:axis], 1, *shape[axis:])
    nodes = operands(*[shaped(p, wide) for p in parts])
    return record(TABLE["Concat"](axis), tuple(nodes))


def unstack(x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor along an axis, which they do not have.

    >>> import pullback as pb
    >>> [part.tolist() for part in pb.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    axis = axis_of("unstack", axis, x.ndim)
    before = (slice(None),) * axis
    return tuple(x[(*before, i)] for i in range(x.shape[axis]))


def split(x: Any, sections: Any, axis: int = 0) -> list[Tensor]:
    """The tensor cut along an axis: into a number of equal parts, or before the given places.

    >>> import pullback as pb
    >>> [part.tolist() for part in pb.split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    axis = axis_of("split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(sections, (tuple, list)):
        cuts = [0, *[integer("split", c, "a place") for c in sections], n]
    else:
        parts = integer("split", sections, "the number of parts")
        if parts < 1 or n % parts:
            raise ShapeError(
                f"{parts} equal parts do not make up axis {axis} of {x._node.type}",
                op="split",
            )  # fmt: skip
        cuts = list(range(0, n + 1, n // parts)) if n else [0] * (parts + 1)
    before = (slice(None),) * axis
    return [x[(*before, slice(a, b))] for a, b in itertools.pairwise(cuts)]


def roll(x: Any, shift: Any, axis: Any = None) -> Tensor:
    """The elements moved along axes by `shift` places; those that leave return at the start.

    >>> import pullback as pb
    >>> pb.roll([1, 2, 3], 1).tolist()
    [3, 1, 2]
    """
    x = as_tensor(x)
    if axis is None:
        return shaped(roll(flatten(x), shift, 0), x.shape)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(
            f"shift and axis must have one length, got {shift} and {axis}",
            op="roll",
        )  # fmt: skip
    made = fresh(x)
    for by, a in zip(shifts, axes):
        made = _rolled(made, integer("roll", by, "a shift"), axis_of("roll", a, x.ndim))
    return made


def _rolled(x: Tensor, shift: int, axis: int) -> Tensor:
    cut = -shift % x.shape[axis] if x.shape[axis] else 0
    if not cut:
        return x
    before = (slice(None),) * axis
    return concat([x[(*before, slice(cut, None))], x[(*before, slice(None, cut))]], axis)


def tile(x: Any, repetitions: Any) -> Tensor:
    """The whole tensor repeated along each dimension.

    >>> import pullback as pb
    >>> pb.tile([1, 2], 2).tolist()
    [1, 2, 1, 2]
    """
    x = as_tensor(x)
    given = repetitions if isinstance(repetitions, (tuple, list)) else (repetitions,)
    times = [integer("tile", r, "a number of repetitions") for r in given]
    rank = max(len(times), x.ndim)
    times = [1] * (rank - len(times)) + times
    shape = (1,) * (rank - x.ndim) + x.shape
    apart = tuple(n for s in shape for n in (1, s))
    wide = tuple(n for r, s in zip(times, shape) for n in (r, s))
    return shaped(spread(shaped(x, apart), wide), tuple(r * s for r, s in zip(times, shape)))


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Each element repeated along an axis: so often, or as often as a list of ints says for it.

    >>> import pullback as pb
    >>> pb.repeat([1, 2], 2).tolist(), pb.repeat([1, 2], [0, 3]).tolist()
    ([1, 1, 2, 2], [2, 2, 2])
    """
    from pullback.functions.where_take import repeat_each

    x = as_tensor(x)
    if axis is None:
        x, axis = flatten(x), 0
    axis = axis_of("repeat", axis, x.ndim)
    if isinstance(repeats, (tuple, list, Tensor)) or hasattr(repeats, "__array__"):
        return repeat_each(x, repeats, axis)
    times = integer("repeat", repeats, "the number of repetitions")
    if times < 0:
        raise ArgumentError(
            f"the number of repetitions must not be negative, got {times}", op="repeat",
        )  # fmt: skip
    head, tail = x.shape[: axis + 1], x.shape[axis + 1 :]
    wide = spread(shaped(x, (*head, 1, *tail)), (*head, times, *tail))
    return shaped(wide, (*x.shape[:axis], head[-1] * times, *tail))


def pad(x: Any, padding: Any, value: Any = 0) -> Tensor:
    """`value` before and after the elements: one number, one pair, or a pair for each dimension.

    >>> import pullback as pb
    >>> pb.pad([1, 2], (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    """
    x = as_tensor(x)
    pairs = _pairs(padding, x.ndim)
    filler = number(value)
    if type(filler) in NUMBERS:
        fill = constant(filler, x.dtype) if filler == 0 else scalar(filler, x.dtype)
    else:
        fill = node(as_tensor(filler).astype(x.dtype))
    low, high = (tuple(pair[i] for pair in pairs) for i in (0, 1))
    return record(TABLE["Pad"](low, high, (0,) * x.ndim), (node_of(x), fill))


def _pairs(padding: Any, rank: int) -> list[tuple[int, int]]:
    if not isinstance(padding, (tuple, list)):
        padding = (padding, padding)
    if len(padding) == 2 and not any(isinstance(p, (tuple, list)) for p in padding):
        padding = [padding] * rank
    if len(padding) != rank or any(not isinstance(p, (tuple, list)) for p in padding):
        raise ArgumentError(
            f"padding must be a pair for each of the {rank} dimensions, got {padding}",
            op="pad",
        )  # fmt: skip
    word = "an amount of padding"
    return [(integer("pad", low, word), integer("pad", high, word)) for low, high in padding]


def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """The tensor turned `k` times by 90 degrees in a plane, from the first axis to the second.

    >>> import pullback as pb
    >>> pb.rot90([[1, 2], [3, 4]]).tolist()
    [[2, 4], [1, 3]]
    """
    from pullback.functions.shape import flip, swapaxes

    x = as_tensor(x)
    a, b = ordered_axes("rot90", axes, x.ndim)
    turns = k % 4
    if turns == 0:
        return fresh(x)
    if turns == 2:
        return flip(x, axes_of("rot90", axes, x.ndim))
    return swapaxes(flip(x, b), a, b) if turns == 1 else flip(swapaxes(x, a, b), b)
