"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    apply,
    axis_argument,
    checked_integer_argument,
    ordered_axes_argument,
    record_as,
)
from pullback.graph.node import Node
from pullback.lazy.operators import as_tensor, node_of, operator_operands
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.elementwise.arithmetic import Mul
from pullback.ops.elementwise.complex_parts import Conj
from pullback.ops.linalg.dot_general import DotGeneral
from pullback.ops.linalg.matmul_dot import Dot, MatMul
from pullback.ops.reduce.reductions import Sum
from pullback.ops.shape.squeeze_flip_axes import ExpandDims, Squeeze
from pullback.typing import ArrayLike, Shape

_MATMUL = MatMul()


def matmul(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the matrix product over the last two dimensions; vectors are rows left, columns right.

    >>> pb.matmul([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    x1, x2 = as_tensor(x1), as_tensor(x2)
    a, b = node_of(x1), node_of(x2)
    if a.type.dtype is not b.type.dtype:
        a, b = operator_operands(x1, x2)
    ranks = len(a.type.shape), len(b.type.shape)
    if ranks[0] >= 2 <= ranks[1]:
        return record(_MATMUL, (a, b))
    if min(ranks) == 0:
        message = f"operands must have rank 1 or more, got {a.type} @ {b.type}"
        raise ShapeError(message, op="matmul", code="E3002")
    if max(ranks) <= 2:
        return record_as("matmul", Dot(), a, b)
    if ranks[0] == 1:
        row = record(ExpandDims((0,)), (a,))._node
        product = apply(MatMul, row, b)
        return record(Squeeze((product.ndim - 2,)), (product._node,))
    column = record(ExpandDims((1,)), (b,))._node
    product = apply(MatMul, a, column)
    return record(Squeeze((product.ndim - 1,)), (product._node,))


def tensordot(x1: ArrayLike, x2: ArrayLike, axes: int | Sequence[Shape] = 2) -> Tensor:
    """Sum products over pairs of axes: the last `axes` of x1, the first of x2, or two lists.

    >>> pb.tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]]).item()
    5
    """
    a, b = product_operands(x1, x2)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            message = f"axes must be a number or two lists, got {axes}"
            raise ArgumentError(message, op="tensordot")
        left = ordered_axes_argument("tensordot", axes[0], a.type.rank)
        right = ordered_axes_argument("tensordot", axes[1], b.type.rank)
    else:
        count = checked_integer_argument("tensordot", axes, "the number of axes")
        left = tuple(axis_argument("tensordot", i - count, a.type.rank) for i in range(count))
        right = tuple(axis_argument("tensordot", i, b.type.rank) for i in range(count))
    return record_as("tensordot", DotGeneral((left, right), ((), ())), a, b)


def product_operands(*xs: ArrayLike) -> list[Node]:
    """Operands of one dtype, in which Python numbers count as tensors."""
    return operator_operands(*[as_tensor(x) for x in xs])


def vecdot(x1: ArrayLike, x2: ArrayLike, axis: int = -1) -> Tensor:
    """Return the dot product along an axis, with `x1` conjugated; other dimensions broadcast.

    >>> pb.vecdot([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    a, b = product_operands(x1, x2)
    rank = min(a.type.rank, b.type.rank)
    axis = axis_argument("vecdot", axis, rank) - rank  # from the end: broadcasting aligns the ends
    if a.type.shape[axis] != b.type.shape[axis]:
        message = f"vectors must have the same length, got {a.type} and {b.type}"
        raise ShapeError(message, op="vecdot", code="E3003")
    if a.type.dtype.is_complex:
        a = apply(Conj, a)._node
    product = apply(Mul, a, b)
    return record(Sum((product.ndim + axis,), False), (product._node,))


def outer(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the outer product of two vectors.

    >>> pb.outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = product_operands(x1, x2)
    if a.type.rank != 1 or b.type.rank != 1:
        message = f"needs two vectors, got {a.type} and {b.type}"
        raise ShapeError(message, op="outer", code="E3002")
    return record(DotGeneral(((), ()), ((), ())), (a, b))


__all__ = ["matmul", "outer", "tensordot", "vecdot"]
