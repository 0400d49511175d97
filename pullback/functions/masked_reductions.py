"""The options `where=` and `initial=` of reductions."""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.arguments import apply, argument_node
from pullback.functions.shape import spread_to_shape
from pullback.graph.dtypes import bool_
from pullback.graph.node import Node, constant_node
from pullback.lazy.operators import (
    NUMBERS,
    as_tensor,
    cast_node,
    node_of,
    operator_number,
    scalar_operator_dtype,
    weak_operator_operand,
)
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.elementwise.maximum import Maximum, Minimum
from pullback.ops.elementwise.select import Where
from pullback.ops.op import Op
from pullback.ops.prelude import broadcast_shapes
from pullback.ops.reduce.extrema import extrema_bounds
from pullback.typing import ArrayLike


def masked_for_reduction(op: str, x: Node, where: ArrayLike, neutral: Any) -> Node:
    """The elements where the mask is true, and `neutral` elsewhere; these get no gradient."""
    dtype = x.type.dtype
    return apply(Where, reduction_mask(op, x, where), x, constant_node(neutral, dtype))._node


def reduction_mask(op: str, x: Node, where: ArrayLike) -> Node:
    """The mask of a reduction, which must be of bools and broadcast to the operand's shape."""
    mask = argument_node(where)
    if mask.type.dtype is not bool_:
        hint = "Write a comparison, such as where=x > 0."
        raise DTypeError(f"where must be a mask of bools, got {mask.type}", op=op, hint=hint)
    try:
        fits = broadcast_shapes(mask.type.shape, x.type.shape) == x.type.shape
    except ShapeError:
        fits = False
    if not fits:
        message = f"where must broadcast to the shape of {x.type}, got {mask.type}"
        raise ShapeError(message, op=op, code="E3001")
    return mask


def masked_reduction_with_initial(
    op: str, combine: type[Op], total: Tensor, initial: ArrayLike
) -> Tensor:
    """Combine each result of a reduction with the value that it starts from."""
    return apply(combine, masked_reduction_initial(op, initial, total), total._node)


def masked_reduction_initial(op: str, initial: ArrayLike, total: Tensor) -> Node:
    """The number that a reduction starts from, in the dtype of its result."""
    value = operator_number(initial)
    if type(value) in NUMBERS or isinstance(value, TracedNumber):
        fits = scalar_operator_dtype(value, total.dtype) is total.dtype
        found = value
    else:
        found = as_tensor(value)
        if found.shape:
            message = f"initial must be a single number, got {found._node.type}"
            raise ArgumentError(message, op=op)
        fits = found.dtype is total.dtype or _INITIAL_RANK[found.dtype.kind] <= _INITIAL_RANK[
            total.dtype.kind
        ]  # fmt: skip
    if not fits:
        hint = "Convert the elements first, for example with astype."
        raise DTypeError(f"initial must fit into {total.dtype}, got {initial}", op=op, hint=hint)
    if isinstance(found, Tensor):
        return cast_node(node_of(found), total.dtype)
    return weak_operator_operand(found, total.dtype)


_INITIAL_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def masked_extremum_reduction(
    name: str, op: Any, larger: bool, x: Node, initial: ArrayLike | None, where: ArrayLike | None
) -> Tensor:
    """A largest or smallest element, limited by `initial`, of those where a mask is true."""
    if initial is None:
        hint = f"The {name} of no elements has no value: write initial= as well."
        raise ArgumentError("where needs an initial value", op=name, hint=hint)
    if where is not None:
        least, most = extrema_bounds(x.type.dtype)
        x = masked_for_reduction(name, x, where, least if larger else most)
    combine = Maximum if larger else Minimum
    if op.count(x.type.shape):
        return masked_reduction_with_initial(name, combine, record(op, (x,)), initial)
    shape = op.reduced(x.type.shape)
    return spread_to_shape(wrap(masked_reduction_initial(name, initial, wrap(x))), shape)
