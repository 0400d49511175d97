"""What the public functions share: their arguments in normal form."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from pullback.errors import ArgumentError, AxisError, PullbackError, ShapeError
from pullback.graph.dtypes import DType, bool_, int64, uint64
from pullback.graph.node import Node, constant
from pullback.graph.table import TABLE
from pullback.graph.where import user_line
from pullback.lazy.indexing import handle
from pullback.lazy.operators import NUMBERS, as_tensor, cast_node, node_of, number, operands, weak
from pullback.lazy.operators import scalar as scalar
from pullback.lazy.record import record
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import Unknown

_INEXACT_NUMBERS = (float, complex)


def apply(name: str, *nodes: Node) -> Tensor:
    """The op called `name`, which has no parameters, on nodes."""
    return record(TABLE[name](), nodes)


def node(x: Any) -> Node:
    """Anything that can be a tensor, as a node."""
    return node_of(as_tensor(x))


def float_node(x: Any) -> Node:
    """The same, but integers and bools become the default float."""
    found = node(x)
    return found if found.type.dtype.is_inexact else cast_node(found, current().default_dtype)


def float_operands(*values: Any) -> list[Node]:
    """Operands of one float or complex type: without any such among them, the default float."""
    values = tuple(map(number, values))
    values = tuple(v if _is_number(v) else as_tensor(v) for v in values)
    inexact = [
        type(v) in _INEXACT_NUMBERS if type(v) in NUMBERS else v.dtype.is_inexact for v in values
    ]
    if any(inexact):
        return operands(*values)
    dtype = current().default_dtype
    return [weak(v, dtype) if _is_number(v) else cast_node(node_of(v), dtype) for v in values]


def _is_number(x: Any) -> bool:
    return type(x) in NUMBERS or isinstance(x, Unknown)


def literal(value: Any, dtype: DType) -> Tensor:
    """A number that a function writes: part of the program, not an input of it."""
    return wrap(constant(value, dtype))


def fresh(x: Tensor) -> Tensor:
    """A new handle on the same value: rebinding one of them must not change the other."""
    return handle(node_of(x))


def counting_dtype(dtype: DType) -> DType:
    """The type that sums of small integers are kept in."""
    if dtype is bool_ or dtype.kind == "i":
        return int64
    return uint64 if dtype.kind == "u" else dtype


# -- integers, axes and shapes --------------------------------------------------------------------


def integer(op: str, value: Any, what: str) -> int:
    """`value` as a Python int."""
    try:
        return operator.index(value)
    except PullbackError:  # its value is not known yet
        raise
    except TypeError:
        kind = type(value).__name__
        raise ArgumentError(f"{what} must be an integer, got {kind}", op=op) from None


def axis_of(op: str, axis: Any, rank: int) -> int:
    """One axis, counted from the front."""
    found = integer(op, axis, "an axis")
    if not -rank <= found < rank:
        raise AxisError(
            f"axis {found} is out of range for rank {rank}", op=op,
            axis=found, rank=rank,
        )  # fmt: skip
    return found % rank


def axes_of(op: str, axis: Any, rank: int) -> tuple[int, ...]:
    """Axes, counted from the front and ascending; None stands for all."""
    if axis is None:
        return tuple(range(rank))
    if type(axis) is int and -rank <= axis < rank:
        return (axis % rank,)
    return tuple(sorted(ordered_axes(op, axis, rank)))


def ordered_axes(op: str, axis: Any, rank: int) -> tuple[int, ...]:
    """Axes in the order that they were given in."""
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(axis_of(op, a, rank) for a in given)
    if len(set(axes)) < len(axes):
        raise AxisError(f"an axis is named twice in {axis}", op=op, code="E3005")
    return axes


def shape_of(op: str, shape: Any) -> tuple[int, ...]:
    """A shape from an int or a sequence of ints, none negative."""
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    made = tuple(integer(op, n, "an extent") for n in given)
    if any(n < 0 for n in made):
        raise ShapeError(
            f"extents must not be negative, got {list(made)}", op=op,
            code="E3006",
        )  # fmt: skip
    return made


def placed(op: str, f: Callable, *args: Any) -> Any:
    """Call `f`; an error of pullback's is given the op's name and the user's line."""
    try:
        return f(*args)
    except PullbackError as error:
        raise error.at(op, user_line()) from None


def per_dimension(op: str, value: Any, rank: int, what: str) -> tuple[int, ...]:
    """One int for each dimension, from an int for all or a sequence."""
    if not isinstance(value, (tuple, list)):
        return (integer(op, value, what),) * rank
    if len(value) != rank:
        raise ShapeError(f"{what} needs {rank} numbers, got {list(value)}", op=op)
    return tuple(integer(op, v, what) for v in value)


def tensors(values: Sequence[Any]) -> list[Tensor]:
    """A sequence of tensors, or a tensor taken apart along its first dimension."""
    return [as_tensor(v) for v in values]


__all__ = [
    "Tensor", "apply", "as_tensor", "axes_of", "axis_of", "cast_node", "counting_dtype",
    "float_node", "float_operands", "fresh", "integer", "literal", "node", "node_of", "number",
    "operands", "ordered_axes", "per_dimension", "placed", "scalar", "shape_of", "tensors",
]  # fmt: skip
