"""Padding, in the modes of NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    argument_node,
    axis_argument,
    axis_slice_argument,
    checked_integer_argument,
)
from pullback.functions.flip_roll_resize import flip
from pullback.functions.joining import concat
from pullback.functions.padding_values import (
    odd_padding_values,
    padding_ramp_end,
    padding_ramp_values,
    padding_stat_length,
    padding_statistic_values,
)
from pullback.functions.shape import spread_to_shape
from pullback.functions.where_take import take
from pullback.graph.argument_checks import shown_argument
from pullback.graph.node import Node, constant_node
from pullback.lazy.operators import (
    NUMBERS,
    as_tensor,
    cast_node,
    node_of,
    operator_number,
    scalar_operator_operand,
)
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.shape.concat_pad import Pad
from pullback.typing import ArrayLike

PadMode = Literal[
    "constant", "edge", "empty", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect",
    "symmetric", "wrap",
]  # fmt: skip
_FEWEST_RUNS = 16  # with more of them an index array is shorter than slices
_OPTIONS = {
    "constant": "constant_values", "linear_ramp": "end_values", "maximum": "stat_length",
    "mean": "stat_length", "median": "stat_length", "minimum": "stat_length",
    "reflect": "reflect_type", "symmetric": "reflect_type",
}  # fmt: skip

V = TypeVar("V")
Pairs = list[tuple[V, V]]  # what belongs before and after the elements, for each dimension


def pad(
    x: ArrayLike, pad_width: int | Sequence[Any] | Mapping[int, Any], mode: PadMode = "constant",
    *, constant_values: ArrayLike | None = None, end_values: ArrayLike | None = None,
    stat_length: int | Sequence[Any] | None = None,
    reflect_type: Literal["even", "odd"] | None = None,
) -> Tensor:  # fmt: skip
    """Add elements before and after those of each dimension, as many as `pad_width` says.

    `pad_width` is a number, a pair, a pair for each dimension, or a dict from axes to numbers or
    pairs. The modes, which add the elements of one dimension after the other:

    - "constant": `constant_values`, 0 by default; a negative width crops
    - "edge": the first and the last element
    - "reflect", "symmetric": the elements mirrored at the edge, without and with the element there;
      `reflect_type="odd"` mirrors them at the value there too
    - "wrap": the elements from the other end
    - "linear_ramp": a ramp from `end_values` (0 by default) to the element at the edge
    - "maximum", "minimum", "mean", "median": of the `stat_length` elements next to the edge, or of
      all
    - "empty": zeros, whose values are not meant to be used

    `constant_values`, `end_values` and `stat_length` take the forms of `pad_width`.

    >>> pb.pad([1, 2], (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    >>> pb.pad([1, 2, 3], 2, "reflect").tolist(), pb.pad([1, 2, 3], 2, "wrap").tolist()
    ([3, 2, 1, 2, 3, 2, 1], [2, 3, 1, 2, 3, 1, 2])
    """
    x = as_tensor(x)
    given = {
        "constant_values": constant_values, "end_values": end_values, "stat_length": stat_length,
        "reflect_type": reflect_type,
    }  # fmt: skip
    _check_pad_options(mode, given)
    widths = _pad_widths(pad_width, x.ndim)
    if mode in ("constant", "empty"):
        return _pad_constant(x, widths, 0 if constant_values is None else constant_values)
    for axis, width in enumerate(widths):
        if min(width) < 0:
            message = f"pad_width must not be negative in mode {mode!r}, got {width}"
            raise ArgumentError(message, op="pad")
        if any(width) and not x.shape[axis]:
            message = f"axis {axis} of {x._node.type} is empty: mode {mode!r} has nothing to add"
            raise ShapeError(message, op="pad")
    if mode in ("edge", "wrap") or (
        mode in ("reflect", "symmetric") and reflect_type in (None, "even")
    ):
        return _pad_copies(x, widths, mode)
    return _pad_computed(x, widths, mode, end_values, stat_length)


def _check_pad_options(mode: str, given: dict[str, Any]) -> None:
    """Raise for an unknown mode, or an option that the mode does not have."""
    if not isinstance(mode, str) or mode not in get_args(PadMode):
        hint = f"Write constant_values={mode}." if type(mode) in NUMBERS else None
        modes = ", ".join(get_args(PadMode))
        raise ArgumentError(
            f"mode must be one of {modes}, got {shown_argument(mode)}", op="pad", hint=hint
        )
    for name, value in given.items():
        if value is not None and _OPTIONS.get(mode) != name:
            raise ArgumentError(f"mode {mode!r} has no option {name}", op="pad")
    if given["reflect_type"] not in (None, "even", "odd"):
        message = (
            f'reflect_type must be "even" or "odd", got {shown_argument(given["reflect_type"])}'
        )
        raise ArgumentError(message, op="pad")


def _pad_widths(pad_width: Any, rank: int) -> Pairs[int]:
    def width(value: Any) -> int:
        return checked_integer_argument("pad", value, "an amount of padding")

    if not isinstance(pad_width, Mapping):
        return pad_pairs(pad_width, rank, "pad_width", width)
    widths: Pairs[int] = [(0, 0)] * rank
    for axis, value in pad_width.items():
        widths[axis_argument("pad", axis, rank)] = pad_pairs(value, 1, "pad_width", width)[0]
    return widths


def pad_pairs(value: Any, rank: int, what: str, read: Callable[[Any], V]) -> Pairs[V]:
    """A pair for each dimension, from one number, a pair, or a pair or number in a list each."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    rows = value if isinstance(value, (tuple, list)) else (value,)
    if not any(isinstance(row, (tuple, list)) for row in rows):
        rows = (rows,)
    pairs = [tuple(row) if isinstance(row, (tuple, list)) else (row,) for row in rows]
    pairs = pairs * rank if len(pairs) == 1 else pairs
    if len(pairs) != rank or any(len(pair) not in (1, 2) for pair in pairs):
        message = f"{what} must be a pair for each of the {rank} dimensions, got {value}"
        raise ArgumentError(message, op="pad")
    return [(read(pair[0]), read(pair[-1])) for pair in pairs]


def _pad_constant(x: Tensor, widths: Pairs[int], values: Any) -> Tensor:
    fills = pad_pairs(values, x.ndim, "constant_values", lambda value: _pad_fill(value, x))
    if len(set(itertools.chain.from_iterable(fills))) <= 1:
        low, high = (tuple(pair[i] for pair in widths) for i in (0, 1))
        fill = fills[0][0] if fills else _pad_fill(0, x)
        return record(Pad(low, high, (0,) * x.ndim), (node_of(x), fill))
    for axis, (pair, fill_pair) in enumerate(zip(widths, fills)):
        for side, (width, fill) in enumerate(zip(pair, fill_pair)):
            none = (0,) * x.ndim
            some = (*none[:axis], width, *none[axis + 1 :])
            ends = (none, some) if side else (some, none)
            x = record(Pad(*ends, none), (node_of(x), fill))
    return x


def _pad_fill(value: Any, x: Tensor) -> Node:
    filler = operator_number(value)
    if type(filler) not in NUMBERS:
        return cast_node(argument_node(filler), x.dtype)
    return (
        constant_node(filler, x.dtype) if filler == 0 else scalar_operator_operand(filler, x.dtype)
    )


def _pad_copies(x: Tensor, widths: Pairs[int], mode: str) -> Tensor:
    """Modes that repeat elements: NumPy says which."""
    for axis, width in enumerate(widths):
        if any(width):
            order = np.pad(np.arange(x.shape[axis]), width, mode)  # type: ignore[call-overload]
            x = _padding_in_runs(x, axis, order)
    return x


def _padding_in_runs(x: Tensor, axis: int, order: np.ndarray) -> Tensor:
    """Take elements along an axis, as slices where the indices go up, down or stay the same."""
    runs: list[tuple[int, int, int]] = []  # first index, step, length
    for i in order.tolist():
        if runs:
            start, step, length = runs[-1]
            last = start + step * (length - 1)
            if length == 1 and abs(i - last) <= 1:
                step = i - last
            if i == last + step and (length > 1 or abs(i - last) <= 1):
                runs[-1] = (start, step, length + 1)
                continue
        runs.append((i, 1, 1))
    if len(runs) > _FEWEST_RUNS:
        return take(x, order, axis)
    return concat([_pad_run(x, axis, *run) for run in runs], axis=axis)


def _pad_run(x: Tensor, axis: int, start: int, step: int, length: int) -> Tensor:
    if step == 0:
        one = x[axis_slice_argument(axis, slice(start, start + 1))]
        return spread_to_shape(one, (*x.shape[:axis], length, *x.shape[axis + 1 :]))
    if step > 0:
        return x[axis_slice_argument(axis, slice(start, start + length))]
    return flip(x[axis_slice_argument(axis, slice(start - length + 1, start + 1))], axis)


def _pad_computed(
    x: Tensor, widths: Pairs[int], mode: str, end_values: Any, stat_length: Any
) -> Tensor:
    """Modes whose elements are computed, one dimension after the other."""
    ends = pad_pairs(0 if end_values is None else end_values, x.ndim, "end_values", lambda v: v)
    lengths = pad_pairs(stat_length, x.ndim, "stat_length", padding_stat_length)
    for axis, width in enumerate(widths):
        if not any(width):
            continue
        if mode in ("reflect", "symmetric"):
            x = odd_padding_values(x, axis, width, with_edge=mode == "symmetric")
            continue
        parts = []
        for side, count in enumerate(width):
            if mode == "linear_ramp":
                end = padding_ramp_end(ends[axis][side], x)
                parts.append(padding_ramp_values(x, axis, side, count, end))
            else:
                parts.append(
                    padding_statistic_values(mode, x, axis, side, count, lengths[axis][side])
                )
        x = concat([parts[0], x, parts[1]], axis=axis)
    return x


__all__ = ["pad"]
