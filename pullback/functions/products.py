"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    apply,
    axis_argument,
    checked_integer_argument,
    integer_argument_node,
    ordered_axes_argument,
    record_as,
)
from pullback.functions.shape import moveaxis
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import int64
from pullback.graph.node import Node, constant_node
from pullback.lazy.operators import as_tensor, node_of, operator_operands
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.elementwise.arithmetic import Add, Mul
from pullback.ops.elementwise.complex_parts import Conj
from pullback.ops.elementwise.logic import GreaterEqual, LessEqual
from pullback.ops.elementwise.select import Where
from pullback.ops.linalg.dot_general import DotGeneral
from pullback.ops.linalg.einsum_expansion import Einsum
from pullback.ops.linalg.matmul_dot import Dot, MatMul
from pullback.ops.reduce.reductions import Sum
from pullback.ops.shape.iota import Iota
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


@with_argument_checks
def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the diagonal in the plane of two axes, `offset` places above the main one, as the last
    axis of the result. (`pb.linalg.diagonal` takes that of the last two axes.)

    >>> pb.diagonal([[1, 2], [3, 4]]).tolist(), pb.diagonal([[1, 2], [3, 4]], 1).tolist()
    ([1, 4], [2])
    """
    return _diagonal("diagonal", x, offset, axis1, axis2)


def _diagonal(op: str, x: ArrayLike, offset: int, axis1: int, axis2: int) -> Tensor:
    x = as_tensor(x)
    _diagonals_matrix_shape(op, x)
    plane = ordered_axes_argument(op, (axis1, axis2), x.ndim)
    rows, columns = (x.shape[i] for i in plane)
    first, start = max(-offset, 0), max(offset, 0)
    n = max(min(rows - first, columns - start), 0)
    matrices = moveaxis(x, plane, (-2, -1))
    square = matrices[..., first : first + n, start : start + n]
    return record(Einsum("...ii->...i"), (node_of(square),))


def tril(x: ArrayLike, k: int = 0) -> Tensor:
    """Return the last two dimensions with zeros above the `k`-th diagonal.

    >>> pb.tril([[1, 2], [3, 4]]).tolist()
    [[1, 0], [3, 4]]
    """
    return _triangle_from_diagonal("tril", x, k, GreaterEqual)


def triu(x: ArrayLike, k: int = 0) -> Tensor:
    """Return the last two dimensions with zeros below the `k`-th diagonal.

    >>> pb.triu([[1, 2], [3, 4]]).tolist()
    [[1, 2], [0, 4]]
    """
    return _triangle_from_diagonal("triu", x, k, LessEqual)


def _triangle_from_diagonal(
    op: str, x: ArrayLike, k: int, compare: type[GreaterEqual] | type[LessEqual]
) -> Tensor:
    """The elements where `compare(row + k, column)` is true; 0 elsewhere."""
    x = as_tensor(x)
    shape = _diagonals_matrix_shape(op, x)
    rows, columns = (record(Iota(shape, i, int64), ())._node for i in (0, 1))
    # Beyond the corners nothing changes.
    shift = integer_argument_node(op, k, "k", lambda k: min(max(k, -shape[0]), shape[1]))
    inside = apply(compare, apply(Add, rows, shift)._node, columns)._node
    return apply(Where, inside, node_of(x), constant_node(0, x.dtype))


def _diagonals_matrix_shape(op: str, x: Tensor) -> tuple[int, int]:
    if x.ndim < 2:
        raise ShapeError(f"needs rank 2 or more, got {x._node.type}", op=op, code="E3002")
    return x.shape[-2], x.shape[-1]


__all__ = [
    "diagonal", "matmul", "outer", "tensordot", "tril", "triu", "vecdot",
]  # fmt: skip
