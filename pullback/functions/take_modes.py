"""Indices that may be out of range: refused, clipped, wrapped or filled."""

from __future__ import annotations

from pullback.errors import ArgumentError, DTypeError, IndexOutOfRange
from pullback.functions.arguments import apply, argument_node, axis_slice_argument, literal_argument
from pullback.functions.data_types import astype
from pullback.functions.known_values import known_values
from pullback.functions.shape import reshaped_to, spread_to_shape
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import int64
from pullback.graph.node import constant_node
from pullback.lazy.index_plan import plan_index_from_start
from pullback.lazy.operators import as_tensor, cast_node, node_of, operator_operands
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.elementwise.division import Mod
from pullback.ops.elementwise.maximum import Clamp
from pullback.ops.elementwise.select import Where
from pullback.ops.index.checked_index import CheckedIndex
from pullback.typing import ArrayLike


def index_in_mode(op: str, index: ArrayLike, size: int, mode: str) -> Tensor:
    """Indices below `size`: those that are not raise, are counted modulo `size`, or are clipped."""
    if mode == "raise":
        return checked_take_index(op, index, size)
    if mode not in ("wrap", "clip"):
        raise ArgumentError(
            f'mode must be "raise", "wrap" or "clip", got {shown_argument(mode)}', op=op
        )
    return take_indices_in_mode(_take_mode_integers(op, index), size, mode)


def _take_mode_integers(op: str, index: ArrayLike) -> Tensor:
    found = as_tensor(index)
    if not found.size and not found.dtype.is_integer:
        found = astype(found, int64)
    if not found.dtype.is_integer:
        raise ArgumentError(f"indices must be integers, got {found._node.type}", op=op)
    return astype(found, int64)


def checked_take_index(op: str, index: ArrayLike, size: int) -> Tensor:
    """Indices that must be at least 0 and less than `size`; known values are checked at once."""
    found = _take_mode_integers(op, index)
    values = known_values(index)
    if values is not None:
        wrong = values[(values < 0) | (values >= size)]
        if wrong.size:
            message = f"index {wrong.flat[0]} is out of range: it must be from 0 to {size - 1}"
            raise IndexOutOfRange(message, op=op, extent=size)
    return record(CheckedIndex(size), (argument_node(found),))


def take_in_mode(
    x: Tensor, indices: Tensor, axis: int, mode: str, fill_value: ArrayLike | None
) -> Tensor:
    """The slices of `x` at indices along an axis, which may be out of range."""
    if not indices.dtype.is_integer:
        raise DTypeError(f"indices must be integers, got {indices._node.type}", op="take")
    size = x.shape[axis]
    if mode == "fill":
        return _take_filled_mode(x, indices, axis, fill_value)
    if not size and indices.size:
        message = f"axis {axis} of {x._node.type} is empty: there is nothing to take"
        raise IndexOutOfRange(message, op="take", axis=axis, extent=size)
    return x[axis_slice_argument(axis, take_indices_in_mode(indices, size, mode))]


def take_indices_in_mode(indices: Tensor, size: int, mode: str) -> Tensor:
    """Indices from 0 to `size` - 1: the nearest, or counted on from the other end."""
    place = cast_node(node_of(indices), int64)
    if mode == "wrap":
        return apply(Mod, place, constant_node(max(size, 1), int64))
    return apply(Clamp, place, constant_node(0, int64), constant_node(max(size - 1, 0), int64))


def _take_filled_mode(
    x: Tensor, indices: Tensor, axis: int, fill_value: ArrayLike | None
) -> Tensor:
    if fill_value is None:
        if not x.dtype.is_inexact:
            hint = "There is no NaN among integers and bools: write fill_value= as well."
            raise ArgumentError(f"{x.dtype} needs a fill value", op="take", hint=hint)
        fill = literal_argument(float("nan"), x.dtype)
    else:
        fill = wrap(operator_operands(x, fill_value)[1])
        if fill.shape or fill.dtype is not x.dtype:
            got = as_tensor(fill_value)._node.type
            message = f"fill_value must be one number that fits into {x.dtype}, got {got}"
            raise ArgumentError(message, op="take")
    size = x.shape[axis]
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if not size:
        return spread_to_shape(fill, shape)
    place = wrap(plan_index_from_start(cast_node(node_of(indices), int64), size))
    inside = (place >= 0) & (place < size)
    taken = x[axis_slice_argument(axis, take_indices_in_mode(place, size, "clip"))]
    mask = reshaped_to(inside, (*indices.shape, *(1,) * (x.ndim - axis - 1)))
    return apply(Where, mask._node, taken._node, fill._node)
