"""Equations without a unique solution: rank, pseudoinverse, least squares, condition."""

from __future__ import annotations

import math
from typing import NamedTuple

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import float_node, literal_argument, record_as
from pullback.functions.arithmetic import abs as absolute
from pullback.functions.comparisons import isnan
from pullback.functions.complex_parts import conj, real
from pullback.functions.creation import zeros
from pullback.functions.diagonals import tril, triu
from pullback.functions.products import matmul
from pullback.functions.reductions import any as any_of
from pullback.functions.reductions import max as largest
from pullback.functions.reductions import min as smallest
from pullback.functions.reductions import sum
from pullback.functions.shape import broadcast_to, expand_dims, matrix_transpose, squeeze
from pullback.functions.where_take import where
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import int64
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor, wrap
from pullback.linalg.arguments import float_linalg_arguments, linalg_results
from pullback.linalg.norms import MatrixOrder, matrix_norm, norm_rounding_tolerance
from pullback.linalg.solvers import inv
from pullback.ops.linalg.eigh import EigvalsH
from pullback.ops.linalg.pseudoinverse import PseudoInverse
from pullback.ops.linalg.svd import SVD, SingularValues
from pullback.ops.linalg.triangles_hermitian import Hermitian
from pullback.typing import ArrayLike


class LstsqResult(NamedTuple):
    """The result of `lstsq`."""

    x: Tensor
    residuals: Tensor
    rank: Tensor
    s: Tensor


@with_argument_checks
def matrix_rank(
    x: ArrayLike, tol: ArrayLike | None = None, hermitian: bool = False, *,
    rtol: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the rank of matrices: how many singular values are larger than `tol`.

    `rtol` is a tolerance relative to the largest singular value. By default it is the larger size
    of the matrix times the rounding unit of its dtype. With `hermitian`, matrices are Hermitian and
    only their lower triangle is read.

    >>> pb.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).item()
    1
    """
    op = "linalg.matrix_rank"
    if tol is not None and rtol is not None:
        raise ArgumentError("tol and rtol must not both be given", op=op)
    a = wrap(float_node(x))
    if a.ndim < 2:
        return any_of(a != 0).astype(int64)
    kind = EigvalsH() if hermitian else SingularValues()
    sizes = absolute(record_as(op, kind, a._node))
    if not sizes.shape[-1]:
        return zeros(a.shape[:-2], dtype=int64)
    if tol is None:
        limit = _least_squares_tolerance(op, a, rtol) * largest(sizes, -1)
    else:
        limit = _least_squares_per_matrix(op, "tol", a, tol)
    return sum((sizes > expand_dims(limit, -1)).astype(int64), -1)


@with_argument_checks
def pinv(
    x: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *,
    rcond: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the pseudoinverse of matrices, which maps b to the shortest least-squares solution.

    Singular values that are at most `rtol` times the largest count as 0; by default, `rtol` is the
    larger size of the matrix times the rounding unit of its dtype. `rcond` is another name for it.
    With `hermitian`, matrices are Hermitian and only their lower triangle is read.

    The derivative is that among matrices of the same rank, and finite for every rank.

    >>> pb.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    op = "linalg.pinv"
    if rtol is not None and rcond is not None:
        raise ArgumentError("rtol and rcond are the same: give one of them", op=op)
    tolerance = rcond if rtol is None else rtol
    return _least_squares_inverse(op, wrap(float_node(x)), tolerance, hermitian)


def lstsq(a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None) -> LstsqResult:
    """Return the shortest x for which the sum of squares of a @ x - b is least.

    The result also has the sums of squares themselves, the rank of `a` and its singular values.
    Singular values that are at most `rcond` times the largest count as 0; by default, `rcond` is
    the larger size of `a` times the rounding unit of its dtype. `b` is a vector, or a matrix whose
    columns are right-hand sides. Dimensions before those of matrices are those of a stack.

    The sums of squares are empty if `a` does not have more rows than columns, as in NumPy. Shapes
    do not depend on values here, so they are given also if the rank is smaller than that.

    >>> x, residuals, rank, s = pb.linalg.lstsq([[1.0], [1.0]], [1.0, 3.0])
    >>> round(x.item(), 4), round(residuals.item(), 4), rank.item()
    (2.0, 2.0, 1)
    """
    op = "linalg.lstsq"
    left, right = (wrap(n) for n in float_linalg_arguments(a, b))
    if (
        left.ndim < 2
        or right.ndim < 1
        or left.shape[-2] != right.shape[-2 if right.ndim > 1 else 0]
    ):
        got = f"{left._node.type} and {right._node.type}"
        what = "needs matrices a, and b with as many rows as a has"
        raise ShapeError(f"{what}, got {got}", op=op, code="E3003")
    vector = right.ndim == 1
    columns = expand_dims(right, -1) if vector else right
    solution = matmul(_least_squares_inverse(op, left, rcond, False), columns)
    m, n = left.shape[-2:]
    if m > n:
        missed = absolute(columns - matmul(left, solution))
        residuals = sum(missed * missed, -2)
    else:
        residuals = zeros((*solution.shape[:-2], 0), dtype=left.dtype.real)
    # the same decomposition as in the pseudoinverse, so that the compiler merges them
    values = linalg_results(op, SVD(), left._node)[1]
    if min(m, n):
        limit = _least_squares_tolerance(op, left, rcond) * largest(values, -1)
    else:
        limit = zeros(())
    rank = sum((values > expand_dims(limit, -1)).astype(int64), -1)
    return LstsqResult(squeeze(solution, -1) if vector else solution, residuals, rank, values)


def cond(x: ArrayLike, p: MatrixOrder = None) -> Tensor:
    """Return the condition number of matrices: a norm of them times that of their inverses.

    `p` is the `ord` of `matrix_norm`. Without it, and for 2, this is the largest singular value
    divided by the smallest one, for -2 the reverse. It is infinite for a singular matrix.

    >>> pb.linalg.cond([[4.0, 0.0], [0.0, 2.0]]).item()
    2.0
    """
    op = "linalg.cond"
    a = wrap(float_node(x))
    if a.ndim < 2 or 0 in a.shape[-2:]:
        raise ShapeError(f"needs matrices that are not empty, got {a._node.type}", op=op)
    if p is None or p in (2, -2):
        values = record_as(op, SingularValues(), a._node)
        most, least = largest(values, -1), smallest(values, -1)
        made = least / most if p == -2 else most / least
    else:
        made = matrix_norm(a, ord=p) * matrix_norm(inv(a), ord=p)
    # NaN, unless it was in x, comes from a matrix that has no inverse
    return where(
        isnan(made) & ~any_of(isnan(a), (-2, -1)), literal_argument(math.inf, made.dtype), made
    )


def _least_squares_inverse(op: str, a: Tensor, rtol: ArrayLike | None, hermitian: bool) -> Tensor:
    if a.ndim < 2:
        what = f"needs matrices, so a rank of 2 or more, got {a._node.type}"
        raise ShapeError(what, op=op, code="E3002")
    matrix = _least_squares_hermitian(record_as(op, Hermitian(), a._node)) if hermitian else a
    tolerance = _least_squares_tolerance(op, a, rtol)
    return record_as(op, PseudoInverse(), matrix._node, tolerance._node)


def _least_squares_hermitian(x: Tensor) -> Tensor:
    """The Hermitian matrices that the lower triangles state."""
    below, diagonal = tril(x, -1), real(tril(triu(x)))
    return below + conj(matrix_transpose(below)) + diagonal


def _least_squares_tolerance(op: str, a: Tensor, rtol: ArrayLike | None) -> Tensor:
    """The relative tolerance of singular values, for each matrix."""
    given = literal_argument(norm_rounding_tolerance(a), a.dtype.real) if rtol is None else rtol
    return _least_squares_per_matrix(op, "rtol", a, given)


def _least_squares_per_matrix(op: str, name: str, a: Tensor, value: ArrayLike) -> Tensor:
    given = as_tensor(value)
    if given.dtype.is_complex:
        raise ArgumentError(f"{name} must be real, got {given._node.type}", op=op)
    try:
        return broadcast_to(given.astype(a.dtype.real), a.shape[:-2])
    except ShapeError:
        what = f"{name} must be one number, or one for each matrix of {a._node.type}"
        raise ShapeError(f"{what}, got {given._node.type}", op=op) from None


__all__ = ["LstsqResult", "cond", "lstsq", "matrix_rank", "pinv"]
