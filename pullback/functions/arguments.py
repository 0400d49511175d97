"""Argument handling that the public functions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from pullback.errors import ArgumentError, AxisError, DTypeError, PullbackError, ShapeError
from pullback.graph.argument_checks import checked_integer_argument, shown_argument
from pullback.graph.dtypes import DType, bool_, complex128, float64, int64, uint64
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.node import Node, constant_node
from pullback.graph.op_table import TABLE
from pullback.graph.source_lines import user_line
from pullback.lazy import operators
from pullback.lazy.indexing import indexed_handle
from pullback.lazy.numpy_precision import WIDE, numbers_of_user
from pullback.lazy.operators import (
    NUMBERS,
    as_tensor,
    cast_node,
    node_of,
    operator_number,
    operator_operands,
)
from pullback.lazy.record import record
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import TracedInt, TracedNumber
from pullback.ops.op import Op
from pullback.typing import ArrayLike, Axis, DTypeLike, Index, IndexItem, Shape

T = TypeVar("T")


def apply(op: type[Op] | str, *nodes: Node) -> Tensor:
    """Record an op without parameters, given as its class or by its name in the table."""
    kind = TABLE[op] if isinstance(op, str) else op
    return record(kind(), nodes)


def record_as(name: str, op: Op, *nodes: Node) -> Tensor:
    """Record an op; errors show the name of the public function instead of the op's."""
    try:
        return record(op, nodes)
    except PullbackError as error:
        raise operators.renamed_for_operator(error, name, op.title) from None


def argument_node(x: ArrayLike) -> Node:
    """Return the node of anything that can be a tensor."""
    return node_of(as_tensor(x))


def float_node(x: ArrayLike) -> Node:
    """Like `node`, but integers and bools become the default float dtype."""
    found = node_of(as_tensor(x))
    return found if found.type.dtype.is_inexact else cast_node(found, current().default_dtype)


def tensor_arguments(*values: ArrayLike) -> list[Tensor]:
    """Return values as tensors; lists and numbers next to f64 or complex128 keep all digits."""
    made = [as_tensor(v) for v in values]
    if not any(x.dtype in WIDE for x in made):
        return made
    return [
        wrap(cast_node(x._node, complex128 if x.dtype.is_complex else float64))
        if x._node in numbers_of_user else x
        for x in made
    ]  # fmt: skip


def bool_argument_node(x: ArrayLike) -> Node:
    """Like `node`, but as bools: whether each element is nonzero."""
    return cast_node(argument_node(x), bool_)


def float_arguments(*values: ArrayLike) -> list[Node]:
    """Like `operands`, but if all are integers or bools, they become the default float dtype."""
    xs = [v if _is_number_argument(v) else as_tensor(v) for v in map(operator_number, values)]
    if any(type(x) in (float, complex) if type(x) in NUMBERS else x.dtype.is_inexact for x in xs):
        return operator_operands(*xs)
    dtype = current().default_dtype
    return [
        operators.weak_operator_operand(x, dtype)
        if _is_number_argument(x)
        else cast_node(node_of(x), dtype)
        for x in xs
    ]


def _is_number_argument(x: Any) -> bool:
    return type(x) in NUMBERS or isinstance(x, TracedNumber)


def literal_argument(value: Any, dtype: DType) -> Tensor:
    """A constant that a function itself uses: part of the program, not an input of it."""
    return wrap(constant_node(value, dtype))


def fresh_argument(x: Tensor) -> Tensor:
    """A new handle on the same value: rebinding one of them must not change the other."""
    return indexed_handle(node_of(x))


def dtype_argument(op: str, dtype: DTypeLike | None, default: DType) -> DType:
    """The dtype that the user asked for, or the default."""
    return default if dtype is None else converted_argument(op, dtype_of, dtype)


def sum_dtype_argument(dtype: DType) -> DType:
    """The dtype in which elements of `dtype` are summed: 64 bits for bools and integers."""
    if dtype is bool_ or dtype.kind == "i":
        return int64
    return uint64 if dtype.kind == "u" else dtype


def sum_argument_node(op: str, x: ArrayLike, dtype: DTypeLike | None) -> Node:
    """The operand of a sum or product, in the dtype that the user asked for or in 64 bits."""
    a = argument_node(x)
    return cast_node(a, dtype_argument(op, dtype, sum_dtype_argument(a.type.dtype)))


def integer_argument_node(op: str, value: Any, what: str, fitted: Callable[[int], int]) -> Node:
    """Return an integer of the user as an input of the program (i64), which serves all its values;
    `fitted` gives an equivalent integer that fits."""
    if isinstance(value, TracedInt):
        return value.cast(int64)
    return operators.scalar_operator_operand(
        fitted(checked_integer_argument(op, value, what, bounded=False)), int64
    )


def axis_argument(op: str, axis: SupportsIndex, rank: int) -> int:
    """Return one axis, counted from the front."""
    found = checked_integer_argument(op, axis, "an axis")
    if not -rank <= found < rank:
        message = f"axis {found} is out of range for rank {rank}"
        raise AxisError(message, op=op, axis=found, rank=rank)
    return found % rank


def axes_argument(op: str, axis: Axis, rank: int) -> tuple[int, ...]:
    """Return axes, counted from the front, in ascending order; None stands for all."""
    if axis is None:
        return tuple(range(rank))
    if type(axis) is int and -rank <= axis < rank:
        return (axis % rank,)
    return tuple(sorted(ordered_axes_argument(op, axis, rank)))


def ordered_axes_argument(op: str, axis: Axis, rank: int) -> tuple[int, ...]:
    """Return axes, counted from the front, in the given order."""
    axes = tuple(axis_argument(op, a, rank) for a in one_or_many_arguments(axis))
    if len(set(axes)) < len(axes):
        raise AxisError(f"an axis is given twice in {axis}", op=op, code="E3005")
    return axes


def shape_argument(op: str, shape: Shape, what: str = "a size") -> tuple[int, ...]:
    """Return a shape from an int or a sequence of ints, none of them negative."""
    sizes = tuple(
        checked_integer_argument(op, n, what, bounded=False) for n in one_or_many_arguments(shape)
    )
    if any(n < 0 for n in sizes):
        raise ShapeError(f"sizes must not be negative, got {list(sizes)}", op=op, code="E3006")
    return sizes


def axis_slice_argument(axis: int, item: IndexItem) -> Index:
    """The index that applies `item` along one axis and takes all of the axes before it."""
    return (*(slice(None),) * axis, item)


def one_or_many_arguments(value: Any) -> tuple[Any, ...]:
    """The items of a tuple or list; anything else is a single item."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def per_axis_argument(op: str, value: Shape, rank: int, what: str) -> tuple[int, ...]:
    """Return one int for each dimension, from an int for all or a sequence."""
    if isinstance(value, Tensor) and value.ndim and op.startswith("conv"):
        hint = f"Add a bias to the result: pb.{op}(x, filters) + bias."
        message = f"{what} must be integers, got {value._node.type}"
        raise ArgumentError(message, op=op, hint=hint)
    if not isinstance(value, (tuple, list)):
        return (checked_integer_argument(op, value, what),) * rank
    if len(value) != rank:
        raise ShapeError(f"{what} needs {rank} numbers, got {list(value)}", op=op)
    return tuple(checked_integer_argument(op, v, what) for v in value)


def converted_argument(op: str, f: Callable[..., T], *args: Any) -> T:
    """Call `f`; errors of pullback get the function's name and the user's line."""
    try:
        return f(*args)
    except PullbackError as error:
        raise error.at(op, user_line()) from None


def tensor_sequence_argument(op: str, arrays: Any, what: str) -> list[Tensor]:
    """Return the items of a list, tuple, array or tensor as tensors; there may be none."""
    several = isinstance(arrays, (Sequence, np.ndarray, Tensor))
    if not several or isinstance(arrays, (str, bytes)) or getattr(arrays, "ndim", 1) == 0:
        message = f"{what} must be a sequence of tensors, got {shown_argument(arrays)}"
        raise ArgumentError(message, op=op)
    try:
        return [as_tensor(x) for x in arrays]
    except DTypeError:
        message = f"{what} must be a sequence of tensors, got {shown_argument(arrays)}"
        raise ArgumentError(message, op=op) from None
