"""Systems of linear equations, inverses and determinants."""

from __future__ import annotations

from typing import NamedTuple

from pullback.functions.arguments import float_node, record_as
from pullback.graph.arguments import validated
from pullback.lazy.tensor import Tensor
from pullback.linalg.arguments import float_operands, recorded_results, solved, trans_argument
from pullback.ops.linalg.cofactor import Det
from pullback.ops.linalg.determinant import SlogDet
from pullback.ops.linalg.lu import Inverse, Solve
from pullback.ops.linalg.triangular_solve import TriangularSolve
from pullback.typing import ArrayLike

__all__ = ["SlogdetResult", "det", "inv", "slogdet", "solve", "solve_triangular"]


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
    return solved("linalg.solve", Solve(), *float_operands(x1, x2))


@validated
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
    return solved(name, op, *float_operands(a, b))


def inv(x: ArrayLike) -> Tensor:
    """Return the inverse of square matrices. That of a singular matrix is NaN.

    >>> pb.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
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
    return SlogdetResult(*recorded_results("linalg.slogdet", SlogDet(), float_node(x)))
