"""Reductions of the elements that belong together, by the number of their segment."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback.errors import ArgumentError, DTypeError, HostReadError, IndexOutOfRange, ShapeError
from pullback.functions.arguments import (
    argument_node,
    checked_integer_argument,
    literal_argument,
    sum_dtype_argument,
)
from pullback.functions.shape import spread_to_shape
from pullback.functions.where_take import where
from pullback.graph.argument_checks import shown_argument, with_argument_checks
from pullback.graph.dtypes import float32, int64
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.index_plan import index_plan_integers
from pullback.lazy.indexing import updated_by_indexing
from pullback.lazy.operators import as_tensor, cast_node
from pullback.lazy.record import record_at_one_line
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.reduce.extrema import extrema_bounds
from pullback.typing import ArrayLike

SegmentMode = Literal["raise", "drop"]


@with_argument_checks
def segment_sum(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None,
    indices_are_sorted: bool = False, mode: SegmentMode = "raise",
) -> Tensor:  # fmt: skip
    """Return, for each segment, the sum of the rows of `data` that belong to it.

    Row i belongs to segment `segment_ids[i]`; the ids may also have several dimensions, which are
    then the first ones of `data`. `num_segments` is the largest id plus 1 by default, for which the
    ids are read. An id that is negative or too large is an error, or with `mode="drop"` its row is
    left out. A segment without rows gives 0. Results do not depend on `indices_are_sorted`, the
    promise that ids ascend. Bools and integers are summed in 64 bits, f16 and bf16 in f32.

    >>> pb.segment_sum([1, 2, 3, 4], [0, 0, 2, 0]).tolist()
    [7, 0, 3]
    """
    x = _segment_data(data, sums=True)
    return _segmented("segment_sum", "add", x, 0, segment_ids, num_segments, mode)


@with_argument_checks
def segment_prod(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None,
    indices_are_sorted: bool = False, mode: SegmentMode = "raise",
) -> Tensor:  # fmt: skip
    """Return, for each segment, the product of the rows of `data` that belong to it; 1 if there are
    none. The arguments are those of `segment_sum`.

    >>> pb.segment_prod([1, 2, 3, 4], [0, 0, 2, 0]).tolist()
    [8, 1, 3]
    """
    x = _segment_data(data, sums=True)
    return _segmented("segment_prod", "multiply", x, 1, segment_ids, num_segments, mode)


@with_argument_checks
def segment_max(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None,
    indices_are_sorted: bool = False, mode: SegmentMode = "raise",
) -> Tensor:  # fmt: skip
    """Return, for each segment, the largest of the rows of `data` that belong to it; minus infinity
    or the least integer if there are none. The arguments are those of `segment_sum`.

    >>> pb.segment_max([1.0, 5.0, 3.0], [0, 0, 2]).tolist()
    [5.0, -inf, 3.0]
    """
    x = _segment_data(data)
    least = extrema_bounds(x.dtype)[0]
    return _segmented("segment_max", "max", x, least, segment_ids, num_segments, mode)


@with_argument_checks
def segment_min(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None,
    indices_are_sorted: bool = False, mode: SegmentMode = "raise",
) -> Tensor:  # fmt: skip
    """Return, for each segment, the smallest of the rows of `data` that belong to it; infinity or
    the largest integer if there are none. The arguments are those of `segment_sum`.

    >>> pb.segment_min([1.0, 5.0, 3.0], [0, 0, 2]).tolist()
    [1.0, inf, 3.0]
    """
    x = _segment_data(data)
    most = extrema_bounds(x.dtype)[1]
    return _segmented("segment_min", "min", x, most, segment_ids, num_segments, mode)


def _segment_data(data: ArrayLike, sums: bool = False) -> Tensor:
    a = argument_node(data)
    return wrap(cast_node(a, sum_dtype_argument(a.type.dtype)) if sums else a)


def _segmented(
    op: str, update: str, x: Tensor, neutral: Any, segment_ids: ArrayLike,
    num_segments: int | None, mode: str,
) -> Tensor:  # fmt: skip
    """Combine rows with the rows of a tensor of neutral elements."""
    ids = as_tensor(segment_ids)
    if not ids.dtype.is_integer:
        raise DTypeError(f"segment_ids must be integers, got {ids._node.type}", op=op)
    if ids.shape != x.shape[: ids.ndim] or not ids.ndim:
        got = f"{ids._node.type} for {x._node.type}"
        message = f"segment_ids must have the first dimensions of the data, got {got}"
        raise ShapeError(message, op=op, code="E3001")
    if mode not in ("raise", "drop"):
        raise ArgumentError(f'mode must be "raise" or "drop", got {shown_argument(mode)}', op=op)
    known = index_plan_integers(segment_ids)
    count = _segment_count(op, ids, known, num_segments)
    if known is not None and mode == "raise":
        _check_known_segments(op, known, count)
    wide = x.astype(float32) if x.dtype.bits == 16 and x.dtype.is_float else x
    places, rows = ids.astype(int64), count
    if mode == "drop":  # one more segment takes the rows that are left out
        places = where((places >= 0) & (places < count), places, count)
        rows = count + 1
    elif ids.dtype.kind == "i":  # as an index, a negative id would count from the end
        places = where(places < 0, count, places)
    start = spread_to_shape(literal_argument(neutral, wide.dtype), (rows, *x.shape[ids.ndim :]))
    with record_at_one_line(op):
        made = updated_by_indexing(start, places, wide, update)
    made = made[:count] if mode == "drop" else made
    return made if made.dtype is x.dtype else made.astype(x.dtype)


def _segment_count(op: str, ids: Tensor, known: np.ndarray | None, num_segments: int | None) -> int:
    if num_segments is not None:
        count = checked_integer_argument(op, num_segments, "num_segments")
        if count < 0:
            raise ArgumentError(f"num_segments must not be negative, got {count}", op=op)
        return count
    try:
        values = read_on_host(ids) if known is None else known
    except HostReadError as error:
        error.op, error.hint = op, (
            "The number of segments decides the shape of the result: pass num_segments."
        )  # fmt: skip
        raise
    return max(int(values.max()) + 1, 0) if values.size else 0


def _check_known_segments(op: str, values: np.ndarray, count: int) -> None:
    wrong = values[(values < 0) | (values >= count)]
    if wrong.size:
        what = f"id {wrong[0]} is out of range for {count} segments"
        hint = 'Write mode="drop" to leave such rows out.'
        raise IndexOutOfRange(what, op=op, index=int(wrong[0]), extent=count, hint=hint)


__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
