"""Selecting elements by a condition or by their indices."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.arguments import argument_node, axis_argument, axis_slice_argument
from pullback.functions.shape import flatten
from pullback.functions.take_modes import take_in_mode
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import bool_
from pullback.lazy.host_data import from_host
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.index_plan import index_plan_array
from pullback.lazy.operators import as_tensor, operator_operands
from pullback.lazy.record import record, record_at_one_line
from pullback.lazy.tensor import Tensor
from pullback.ops.elementwise.select import Where
from pullback.typing import ArrayLike


@overload
def where(condition: ArrayLike) -> tuple[Tensor, ...]: ...
@overload
def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike) -> Tensor: ...
def where(
    condition: ArrayLike, x1: ArrayLike | None = None, x2: ArrayLike | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Return `x1` where the condition is true, else `x2`; what is not selected gets no gradient.

    With the condition alone, return the indices where it is true, as `nonzero` does.

    >>> pb.where([True, False], [1, 2], 0).tolist()
    [1, 0]
    """
    if x1 is None or x2 is None:
        if x1 is not x2:
            raise ArgumentError("needs both x1 and x2, or neither", op="where")
        return where_condition_indices("where", condition)
    return record(Where(), (argument_node(condition), *operator_operands(x1, x2)))


def take(
    x: ArrayLike, indices: ArrayLike, axis: int | None = None,
    mode: Literal["raise", "clip", "wrap", "fill"] = "raise", fill_value: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the slices of a tensor at `indices` along an axis, or elements of the flattened one.

    Negative indices count from the end. Others that are out of range are an error; `mode="clip"`
    replaces them (and negative ones) by the nearest index, "wrap" counts on from the other end, and
    "fill" returns `fill_value` for them, which is NaN by default.

    >>> pb.take([10, 20, 30], [2, 0]).tolist()
    [30, 10]
    >>> pb.take([10.0, 20.0], [-5, 5], mode="clip").tolist()
    [10.0, 20.0]
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = flatten(x), 0
    axis = axis_argument("take", axis, x.ndim)
    if indices is None or isinstance(indices, (str, bytes, slice, type(...))):
        raise ArgumentError(f"indices must be integers, got {shown_argument(indices)}", op="take")
    if mode not in ("raise", "clip", "wrap", "fill"):
        message = f'mode must be "raise", "clip", "wrap" or "fill", got {shown_argument(mode)}'
        raise ArgumentError(message, op="take")
    if fill_value is not None and mode != "fill":
        raise ArgumentError('fill_value needs mode="fill"', op="take")
    with record_at_one_line("take"):
        places = _take_indices(indices)
        if mode == "raise":
            return x[axis_slice_argument(axis, places)]
        return take_in_mode(x, as_tensor(places), axis, mode, fill_value)


def _take_indices(indices: ArrayLike) -> Any:
    """Indices as a tensor, an array or a number; a list of bools is no mask here."""
    if isinstance(indices, (list, tuple, range)):
        indices = index_plan_array(indices)
    dtype = getattr(indices, "dtype", None)
    if isinstance(indices, bool) or dtype is bool_ or dtype == np.bool_:
        hint = "Write x[mask] to select by a mask."
        raise ArgumentError("indices must be integers, got bools", op="take", hint=hint)
    if dtype is not None and dtype.kind not in "iu":
        raise DTypeError(f"indices must be integers, got {dtype}", op="take", code="E4011")
    return indices


def gather(x: ArrayLike, indices: ArrayLike, axis: int = 0) -> Tensor:
    """Return `take(x, indices, axis)`: the dimensions of the indices replace the axis.

    >>> pb.gather([10, 20, 30], [[2, 0]]).tolist()
    [[30, 10]]
    """
    with record_at_one_line("gather"):
        return take(x, indices, axis)


def where_condition_indices(op: str, x: ArrayLike) -> tuple[Tensor, ...]:
    """The indices of nonzero elements, one vector for each dimension; `x` is evaluated."""
    x = as_tensor(x)
    if not x.ndim:
        message = f"needs rank 1 or more, got {x._node.type}"
        raise ShapeError(message, op=op, code="E3002")
    return tuple(from_host(np.array(i, np.int64)) for i in np.nonzero(read_on_host(x)))


__all__ = [
    "gather", "take", "where",
]  # fmt: skip
