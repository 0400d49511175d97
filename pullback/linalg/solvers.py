"""Systems of linear equations, inverses and determinants."""

from __future__ import annotations

import math
from typing import NamedTuple

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import argument_node, float_node, record_as
from pullback.functions.shape import broadcast_shapes, broadcast_to, spread_to_shape, squeeze
from pullback.graph.argument_checks import checked_flag_argument, with_argument_checks
from pullback.graph.dtypes import int32
from pullback.graph.node import Node
from pullback.lazy.operators import cast_node
from pullback.lazy.tensor import Tensor, wrap
from pullback.linalg.arguments import float_linalg_arguments, linalg_results, trans_argument
from pullback.ops.linalg.det_cofactors import Det
from pullback.ops.linalg.determinant import SlogDet
from pullback.ops.linalg.lu_solve_inverse import Inverse, Solve
from pullback.ops.linalg.permutation import PivotPermutation, ReorderRows
from pullback.ops.linalg.triangular_solve import TriangularSolve
from pullback.ops.op import Op
from pullback.ops.shape.movement import Reshape, Transpose
from pullback.ops.shape.squeeze_flip_axes import ExpandDims, Squeeze
from pullback.typing import ArrayLike

__all__ = [
    "SlogdetResult", "cho_solve", "det", "inv", "lu_solve", "slogdet", "solve", "solve_triangular",
]  # fmt: skip


class SlogdetResult(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


def solve(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the solution x of the linear equations x1 @ x = x2, where x1 is square.

    `x2` is a vector, or a stack of matrices whose columns are right-hand sides; leading dimensions
    broadcast. If x1 is singular, the result is NaN.

    >>> pb.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    return _apply_solver("linalg.solve", Solve(), *float_linalg_arguments(x1, x2))


@with_argument_checks
def solve_triangular(
    a: ArrayLike, b: ArrayLike, trans: int | str = 0, lower: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:  # fmt: skip
    """Return the solution x of the linear equations a @ x = b, where a is triangular.

    Only the upper triangle of `a` is read, or the lower one, without its diagonal if that counts as
    ones (`unit_diagonal`). With `trans` 1 or "T" the matrix is transposed, with 2 or "C" it is
    conjugated too. A zero on the diagonal gives infinities or NaN.

    >>> pb.linalg.solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 5.0], lower=True).tolist()
    [1.0, 1.0]
    """
    name = "linalg.solve_triangular"
    op = TriangularSolve(lower, trans_argument(name, trans), unit_diagonal)
    return _apply_solver(name, op, *float_linalg_arguments(a, b))


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> Tensor:
    """Return the solution x of the linear equations a @ x = b, given `cho_factor(a)`.

    >>> factor = pb.linalg.cho_factor([[4.0, 2.0], [2.0, 2.0]], lower=True)
    >>> pb.linalg.cho_solve(factor, [6.0, 4.0]).tolist()
    [1.0, 1.0]
    """
    name = "linalg.cho_solve"
    factor, lower = _solver_pair(name, c_and_lower, "the factor and whether it is lower triangular")
    lower = checked_flag_argument(name, lower, "lower")
    c, rhs = float_linalg_arguments(factor, b)
    first, second = ("N", "C") if lower else ("C", "N")
    found = _apply_solver(name, TriangularSolve(lower, first), c, rhs)
    return _apply_solver(name, TriangularSolve(lower, second), c, found._node)


def lu_solve(lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: int | str = 0) -> Tensor:
    """Return the solution x of the linear equations a @ x = b, given `lu_factor(a)`.

    With `trans` 1 or "T" the matrix is transposed, with 2 or "C" it is conjugated too.

    >>> factors = pb.linalg.lu_factor([[1.0, 2.0], [2.0, 2.0]])
    >>> pb.linalg.lu_solve(factors, [3.0, 4.0]).tolist()
    [1.0, 1.0]
    """
    name = "linalg.lu_solve"
    factors, pivots = _solver_pair(
        name, lu_and_piv, "the factors and pivots that lu_factor returns"
    )
    letter = trans_argument(name, trans)
    x, rhs = float_linalg_arguments(factors, b)
    exchanged = argument_node(pivots)
    if not exchanged.type.dtype.is_integer or exchanged.type.shape != x.type.shape[:-1]:
        what = f"pivots must be an integer for each row of {x.type}, got {exchanged.type}"
        raise ArgumentError(what, op=name)
    if not rhs.type.rank:
        raise ShapeError(f"b must be a vector or matrices, got {rhs.type}", op=name)
    rows = record_as(name, PivotPermutation(x.type.shape[-1]), cast_node(exchanged, int32))
    if rhs.type.rank == 1:
        column = record_as(name, ExpandDims((1,)), rhs)
        return squeeze(_apply_lu_solver(name, x, rows, column._node, letter), -1)
    return _apply_lu_solver(name, x, rows, rhs, letter)


def _apply_lu_solver(name: str, x: Node, rows: Tensor, rhs: Node, letter: str) -> Tensor:
    first, second = TriangularSolve(True, letter, True), TriangularSolve(False, letter)
    if letter == "N":
        found = _apply_solver(name, first, x, _reorder_solver_rows(name, rhs, rows, False))
        return _apply_solver(name, second, x, found._node)
    found = _apply_solver(name, first, x, _apply_solver(name, second, x, rhs)._node)
    return wrap(_reorder_solver_rows(name, found._node, rows, True))


def _reorder_solver_rows(name: str, b: Node, rows: Tensor, inverse: bool) -> Node:
    """Reorder the rows of matrices, which broadcast with `rows`."""
    batch = broadcast_shapes(rows.shape[:-1], b.type.shape[:-2])
    n, k = b.type.shape[-2:]
    given = broadcast_to(wrap(b), (*batch, n, k)), broadcast_to(rows, (*batch, n))
    return record_as(name, ReorderRows(inverse), *[x._node for x in given])._node


def _solver_pair(name: str, value: object, what: str) -> tuple:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ArgumentError(f"the first argument must be a pair, {what}", op=name)
    return tuple(value)


def inv(x: ArrayLike) -> Tensor:
    """Return the inverse of square matrices. That of a singular matrix is NaN.

    >>> pb.linalg.inv([[2.0, 0.0], [2.0, 4.0]]).tolist()
    [[0.5, 0.0], [-0.25, 0.25]]
    """
    return record_as("linalg.inv", Inverse(), float_node(x))


def det(x: ArrayLike) -> Tensor:
    """Return the determinant of square matrices; its gradient is right at singular ones too.

    >>> pb.linalg.det([[2.0, 1.0], [1.0, 2.0]]).item()
    3.0
    """
    return record_as("linalg.det", Det(), float_node(x))


def slogdet(x: ArrayLike) -> SlogdetResult:
    """Return the sign of the determinant and the logarithm of its absolute value.

    The sign of a complex determinant has absolute value 1. A singular matrix has the sign 0 and
    the logarithm -inf.

    >>> sign, logabsdet = pb.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.0)
    """
    return SlogdetResult(*linalg_results("linalg.slogdet", SlogDet(), float_node(x)))


def _apply_solver(name: str, op: Op, a: Node, b: Node) -> Tensor:
    """Apply a solver: `b` is a vector, or a stack of matrices that broadcasts with `a`."""
    if b.type.rank == 1:
        column = record_as(name, ExpandDims((1,)), b)
        found = _apply_solver(name, op, a, column._node)
        return record_as(name, Squeeze((found.ndim - 1,)), found._node)
    if a.type.rank < 2 or b.type.rank < 2 or a.type.shape[:-1] == b.type.shape[:-1]:
        return record_as(name, op, a, b)
    if a.type.shape[-1] != b.type.shape[-2]:
        what = f"needs right-hand sides with as many rows as the matrix, got {a.type} and {b.type}"
        raise ShapeError(what, op=name, code="E3003")
    if a.type.rank == 2:
        return _apply_solver_to_columns(name, op, a, b)
    try:
        batch = broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
    except ShapeError:
        what = f"leading dimensions must broadcast, got {a.type} and {b.type}"
        raise ShapeError(what, op=name, code="E3001") from None
    pair = [spread_to_shape(wrap(x), (*batch, *x.type.shape[-2:]))._node for x in (a, b)]
    return record_as(name, op, *pair)


def _apply_solver_to_columns(name: str, op: Op, a: Node, b: Node) -> Tensor:
    """Solve for a stack of right-hand sides as columns of one system, which is factorized once."""
    rank = b.type.rank
    to_columns = (rank - 2, *range(rank - 2), rank - 1)
    columns = record_as(name, Transpose(to_columns), b)
    n, *rest = columns.shape
    flat = record_as(name, Reshape((n, math.prod(rest))), columns._node)
    found = record_as(name, op, a, flat._node)
    back = (*range(1, rank - 1), 0, rank - 1)
    apart = record_as(name, Reshape(columns.shape), found._node)
    return record_as(name, Transpose(back), apart._node)
