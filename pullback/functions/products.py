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
from pullback.functions.complex_parts import conj
from pullback.functions.creation import zeros_like
from pullback.functions.shape import flatten, moveaxis, reshaped_to
from pullback.functions.stacking import stack
from pullback.graph.node import Node
from pullback.lazy.operators import as_tensor, node_of, operator_operands
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
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


def dot(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Return NumPy's dot product: the last axis of `a` with the last but one of `b`.

    A number multiplies each element. For stacks of matrices, `matmul` multiplies them in pairs,
    and this function each with each.

    >>> pb.dot([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    x, y = _vector_pair(a, b)
    if not x.ndim or not y.ndim:
        return x * y
    return _contract_vector_products("dot", x, y, max(y.ndim - 2, 0))


def inner(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Return the sums of products over the last axes of both; complex numbers as they are.

    >>> pb.inner([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    x, y = _vector_pair(a, b)
    if not x.ndim or not y.ndim:
        return x * y
    return _contract_vector_products("inner", x, y, y.ndim - 1)


def vdot(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Return the dot product of all elements, in row-major order, with `a` conjugated.

    >>> pb.vdot([[1, 2], [3, 4]], [[1, 1], [1, 1]]).item()
    10
    """
    x, y = (flatten(v) for v in _vector_pair(a, b))
    return _contract_vector_products("vdot", conj(x) if x.dtype.is_complex else x, y, 0)


def kron(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Return the Kronecker product: `b` in place of each element of `a`, multiplied by it.

    >>> pb.kron([[1, 2]], [[1], [3]]).tolist()
    [[1, 2], [3, 6]]
    """
    x, y = _vector_pair(a, b)
    rank = max(x.ndim, y.ndim)
    left, right = ((1,) * (rank - v.ndim) + v.shape for v in (x, y))
    spread = reshaped_to(x, tuple(n for m in left for n in (m, 1)))
    repeated = reshaped_to(y, tuple(n for m in right for n in (1, m)))
    return reshaped_to(spread * repeated, tuple(m * n for m, n in zip(left, right, strict=True)))


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the cross product of vectors of 2 or 3 elements; other dimensions broadcast.

    The vectors are along `axisa` of `a` and `axisb` of `b`, those of the result along `axisc`;
    `axis` stands for all three. Of vectors of 2 elements, which lie in a plane, the result is the
    one component that is not zero.

    >>> pb.cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _vector_pair(a, b)
    x, y = (
        moveaxis(v, axis_argument("cross", at, v.ndim), -1) for v, at in ((x, axisa), (y, axisb))
    )
    sizes = x.shape[-1], y.shape[-1]
    if not {2, 3}.issuperset(sizes):
        what = f"vectors must have 2 or 3 elements, got {sizes[0]} and {sizes[1]}"
        raise ShapeError(what, op="cross", code="E3003")
    x0, x1, x2 = _vector_components(x)
    y0, y1, y2 = _vector_components(y)
    last = x0 * y1 - x1 * y0
    if sizes == (2, 2):
        return last
    made = stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, last], axis=-1)
    return moveaxis(made, -1, axis_argument("cross", axisc, made.ndim))


def _vector_components(x: Tensor) -> list[Tensor]:
    """The three components of vectors along the last axis; the third of two is 0."""
    return [x[..., i] if i < x.shape[-1] else zeros_like(x[..., 0]) for i in range(3)]


def _vector_pair(a: ArrayLike, b: ArrayLike) -> tuple[Tensor, Tensor]:
    """Both operands as tensors of one dtype."""
    x, y = operator_operands(as_tensor(a), as_tensor(b))
    return wrap(x), wrap(y)


def _contract_vector_products(op: str, x: Tensor, y: Tensor, axis: int) -> Tensor:
    if x.shape[-1] != y.shape[axis]:
        got = f"{x._node.type} and {y._node.type}"
        raise ShapeError(f"contracted dimensions must agree, got {got}", op=op, code="E3003")
    return tensordot(x, y, ([x.ndim - 1], [axis]))


__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "vecdot",
]  # fmt: skip
