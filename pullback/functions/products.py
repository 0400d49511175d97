"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    Tensor,
    apply,
    as_tensor,
    axis_of,
    integer,
    node_of,
    operands,
    ordered_axes,
)
from pullback.graph.dtypes import int64
from pullback.graph.node import constant
from pullback.graph.table import TABLE
from pullback.lazy.record import record


def matmul(x1: Any, x2: Any) -> Tensor:
    """The matrix product, over the last two dimensions; vectors are rows on the left, columns
    on the right.

    >>> import pullback as pb
    >>> pb.matmul([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    x1, x2 = as_tensor(x1), as_tensor(x2)
    a, b = node_of(x1), node_of(x2)
    if a.type.dtype is not b.type.dtype:
        a, b = operands(x1, x2)
    ranks = a.type.rank, b.type.rank
    if min(ranks) == 0:
        raise ShapeError(
            f"operands must have rank 1 or more, got {a.type} @ {b.type}",
            op="matmul",
            code="E3002",
        )
    if min(ranks) >= 2:
        return apply("MatMul", a, b)
    if max(ranks) <= 2:
        return apply("Dot", a, b)
    if ranks[0] == 1:
        row = record(TABLE["ExpandDims"]((0,)), (a,))._node
        made = apply("MatMul", row, b)
        return record(TABLE["Squeeze"]((made.ndim - 2,)), (made._node,))
    column = record(TABLE["ExpandDims"]((1,)), (b,))._node
    made = apply("MatMul", a, column)
    return record(TABLE["Squeeze"]((made.ndim - 1,)), (made._node,))


def tensordot(x1: Any, x2: Any, axes: Any = 2) -> Tensor:
    """The sum of products over pairs of axes: the last `axes` of x1 with the first of x2, or
    two lists of axes.

    >>> import pullback as pb
    >>> pb.tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]]).item()
    5
    """
    a, b = operands(as_tensor(x1), as_tensor(x2))
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ArgumentError(
                f"axes must be a number or two lists, got {axes}", op="tensordot",
            )  # fmt: skip
        left = ordered_axes("tensordot", axes[0], a.type.rank)
        right = ordered_axes("tensordot", axes[1], b.type.rank)
    else:
        count = integer("tensordot", axes, "the number of axes")
        left = tuple(axis_of("tensordot", i - count, a.type.rank) for i in range(count))
        right = tuple(axis_of("tensordot", i, b.type.rank) for i in range(count))
    return record(TABLE["DotGeneral"]((left, right), ((), ())), (a, b))


def vecdot(x1: Any, x2: Any, axis: int = -1) -> Tensor:
    """The product of vectors along an axis; the first is conjugated, the others broadcast.

    >>> import pullback as pb
    >>> pb.vecdot([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    a, b = operands(as_tensor(x1), as_tensor(x2))
    low = min(a.type.rank, b.type.rank)
    place = axis_of("vecdot", axis, low) - low  # from the end: broadcasting aligns the ends
    extents = a.type.shape[place], b.type.shape[place]
    if extents[0] != extents[1]:
        raise ShapeError(
            f"vectors must have one length, got {a.type} and {b.type}", op="vecdot", code="E3003",
        )  # fmt: skip
    if a.type.dtype.is_complex:
        a = apply("Conj", a)._node
    product = apply("Mul", a, b)
    return record(TABLE["Sum"]((product.ndim + place,), False), (product._node,))


def outer(x1: Any, x2: Any) -> Tensor:
    """All products of an element of one vector with an element of another.

    >>> import pullback as pb
    >>> pb.outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = operands(as_tensor(x1), as_tensor(x2))
    if a.type.rank != 1 or b.type.rank != 1:
        raise ShapeError(
            f"needs two vectors, got {a.type} and {b.type}", op="outer",
            code="E3002",
        )  # fmt: skip
    return record(TABLE["DotGeneral"](((), ()), ((), ())), (a, b))


def einsum(subscripts: str, *operands_: Any) -> Tensor:
    """The sum of products that an index expression says, as in NumPy.

    >>> import pullback as pb
    >>> pb.einsum("ij,j->i", [[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    if not operands_:
        raise ArgumentError("needs at least one operand", op="einsum")
    nodes = operands(*[as_tensor(x) for x in operands_])
    return record(TABLE["Einsum"](subscripts), tuple(nodes))


def diagonal(x: Any, offset: int = 0) -> Tensor:
    """The diagonal of the last two dimensions, `offset` places above the main one.

    >>> import pullback as pb
    >>> pb.diagonal([[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    x = as_tensor(x)
    rows, columns = _matrix("diagonal", x)
    first, start = max(-offset, 0), max(offset, 0)
    n = max(min(rows - first, columns - start), 0)
    square = x[..., first : first + n, start : start + n]
    return record(TABLE["Einsum"]("...ii->...i"), (node_of(square),))


def matrix_trace(x: Any, offset: int = 0) -> Tensor:
    """The sum of the diagonal of the last two dimensions (`pb.trace` records programs).

    >>> import pullback as pb
    >>> pb.matrix_trace([[1, 2], [3, 4]]).item()
    5
    """
    from pullback.functions.reductions import sum

    return sum(diagonal(x, offset), axis=-1)


def tril(x: Any, k: int = 0) -> Tensor:
    """The lower triangle of the last two dimensions, up to the `k`-th diagonal; zeros above.

    >>> import pullback as pb
    >>> pb.tril([[1, 2], [3, 4]]).tolist()
    [[1, 0], [3, 4]]
    """
    return _triangle("tril", x, k, "GreaterEqual")


def triu(x: Any, k: int = 0) -> Tensor:
    """The upper triangle of the last two dimensions, from the `k`-th diagonal; zeros below.

    >>> import pullback as pb
    >>> pb.triu([[1, 2], [3, 4]]).tolist()
    [[1, 2], [0, 4]]
    """
    return _triangle("triu", x, k, "LessEqual")


def _triangle(op: str, x: Any, k: int, compare: str) -> Tensor:
    """The elements whose row plus `k` compares with their column."""
    x = as_tensor(x)
    shape = _matrix(op, x)
    rows, columns = (record(TABLE["Iota"](shape, i, int64), ())._node for i in (0, 1))
    shift = constant(integer(op, k, "k"), int64)
    inside = apply(compare, apply("Add", rows, shift)._node, columns)._node
    return apply("Where", inside, node_of(x), constant(0, x.dtype))


def _matrix(op: str, x: Tensor) -> tuple[int, int]:
    if x.ndim < 2:
        raise ShapeError(f"needs rank 2 or more, got {x._node.type}", op=op, code="E3002")
    return x.shape[-2], x.shape[-1]
