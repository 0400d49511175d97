"""Products of vectors and matrices, and powers of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.errors import ShapeError
from pullback.functions.arguments import (
    axis_argument,
    checked_integer_argument,
    converted_argument,
    fresh_argument,
)
from pullback.functions.creation import eye
from pullback.functions.diagonals import diagonal as diagonal_of
from pullback.functions.products import cross as cross_of_any
from pullback.functions.products import matmul, outer, tensordot, vecdot
from pullback.functions.reductions import sum
from pullback.functions.shape import broadcast_to, matrix_transpose
from pullback.graph.argument_checks import checked_sequence_argument, with_argument_checks
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.linalg.solvers import inv
from pullback.typing import ArrayLike, DTypeLike


@with_argument_checks
def diagonal(x: ArrayLike, offset: int = 0) -> Tensor:
    """Return the diagonal of the last two dimensions, `offset` places above the main one.

    >>> pb.linalg.diagonal([[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    a = as_tensor(x)
    if a.ndim < 2:
        what = f"needs matrices, so a rank of 2 or more, got {a._node.type}"
        raise ShapeError(what, op="linalg.diagonal", code="E3002")
    return diagonal_of(a, offset, -2, -1)


@with_argument_checks
def trace(x: ArrayLike, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """Return the sum of the diagonal of the last two dimensions.

    >>> pb.linalg.trace([[1, 2], [3, 4]]).item()
    5
    """
    return sum(diagonal(x, offset), axis=-1, dtype=dtype)


@with_argument_checks
def cross(x1: ArrayLike, x2: ArrayLike, axis: int = -1) -> Tensor:
    """Return the cross product of vectors of three elements along an axis; others broadcast.

    >>> pb.linalg.cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    a, b = as_tensor(x1), as_tensor(x2)
    for x in (a, b):
        if x.shape[axis_argument("linalg.cross", axis, x.ndim)] != 3:
            what = f"needs 3 elements along axis {axis}, got {x._node.type}"
            raise ShapeError(what, op="linalg.cross", code="E3003")
    return cross_of_any(a, b, axis=axis)


def matrix_power(x: ArrayLike, n: int) -> Tensor:
    """Return the product of `n` factors that are all the matrix; of its inverse if `n` < 0.

    >>> pb.linalg.matrix_power([[1, 1], [0, 1]], 5).tolist()
    [[1, 5], [0, 1]]
    """
    count = checked_integer_argument("linalg.matrix_power", n, "n")
    a = as_tensor(x)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        what = f"x must be a square matrix, or a stack of them, got {a._node.type}"
        raise ShapeError(what, op="linalg.matrix_power", code="E3003")
    if count == 0:
        return broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    if count < 0:
        a, count = inv(a), -count
    result = None
    while count:  # the binary digits of the exponent, the last first
        if count & 1:
            result = a if result is None else matmul(result, a)
        count >>= 1
        a = matmul(a, a) if count else a
    assert result is not None  # the exponent has a digit that is 1
    return fresh_argument(result)


def multi_dot(arrays: Sequence[ArrayLike]) -> Tensor:
    """Return the product of several matrices, multiplied in the order with the fewest operations.

    The first may be a row vector and the last a column vector.

    >>> pb.linalg.multi_dot([[1, 2], [[1, 0], [0, 2]], [1, 1]]).item()
    5
    """
    op = "linalg.multi_dot"
    factors = [
        converted_argument(op, as_tensor, a)
        for a in checked_sequence_argument(op, arrays, "arrays")
    ]
    if len(factors) < 2:
        raise ShapeError(f"arrays must be two matrices or more, got {len(factors)}", op=op)
    for i, a in enumerate(factors):
        ends = i in (0, len(factors) - 1)
        if a.ndim != 2 and not (ends and a.ndim == 1):
            what = "must be a matrix, or a vector if it is the first or the last"
            raise ShapeError(f"arrays[{i}] {what}, got {a._node.type}", op=op, code="E3002")
    shapes = [a.shape for a in factors]
    first, last = shapes[0], shapes[-1]
    rows = [1 if len(first) == 1 else first[0], *[s[-2] for s in shapes[1:-1]], last[0]]
    for i, columns in enumerate([first[-1], *[s[-1] for s in shapes[1:-1]]]):
        if columns != rows[i + 1]:
            got = f"{factors[i]._node.type} and {factors[i + 1]._node.type}"
            raise ShapeError(f"inner dimensions must agree, got {got}", op=op, code="E3003")
    sizes = [*rows, 1 if len(last) == 1 else last[-1]]
    splits = _product_order(sizes)

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return factors[i]
        return matmul(product(i, splits[i][j]), product(splits[i][j] + 1, j))

    return product(0, len(factors) - 1)


def _product_order(sizes: Sequence[int]) -> list[list[int]]:
    """Return where to split the product of matrices i to j, of shapes sizes[i], sizes[i + 1]."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    splits = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], splits[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return splits


__all__ = [
    "cross", "diagonal", "matmul", "matrix_power", "matrix_transpose", "multi_dot", "outer",
    "tensordot", "trace", "vecdot",
]  # fmt: skip
