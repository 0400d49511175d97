"""Factorizations of matrices."""

from __future__ import annotations

from typing import Literal, NamedTuple, overload

from pullback.errors import ArgumentError
from pullback.functions.arguments import float_node, record_as
from pullback.functions.creation import arange, eye
from pullback.functions.diagonals import tril, triu
from pullback.functions.shape import broadcast_to
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import int32
from pullback.graph.node import Node
from pullback.lazy.tensor import Tensor
from pullback.linalg.arguments import hermitian_argument, linalg_results, matrix_adjoint
from pullback.ops.linalg.cholesky import Cholesky
from pullback.ops.linalg.lu_solve_inverse import LU
from pullback.ops.linalg.permutation import PivotPermutation, ReorderRows
from pullback.ops.linalg.qr import QR
from pullback.ops.linalg.svd import SVD, SingularValues
from pullback.typing import ArrayLike

__all__ = [
    "CholeskyFactor", "LUFactor", "LUResult", "QRResult", "SVDResult", "cho_factor",
    "cholesky", "lu", "lu_factor", "qr", "svd", "svdvals",
]  # fmt: skip


class LUResult(NamedTuple):
    """The result of `lu`."""

    P: Tensor
    L: Tensor
    U: Tensor


class QRResult(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """The result of `svd`: x = U @ diag(S) @ Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@overload
def qr(x: ArrayLike, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...
@overload
def qr(x: ArrayLike, mode: Literal["r"]) -> Tensor: ...
@with_argument_checks
def qr(x: ArrayLike, mode: Literal["reduced", "complete", "r"] = "reduced") -> QRResult | Tensor:
    """Return Q, whose columns are orthonormal, and R, upper triangular, with x = Q @ R.

    Q has as many columns as `x` has rows or columns, whichever are fewer, or in the mode "complete"
    as many as rows. The mode "r" returns R alone.

    >>> Q, R = pb.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> R.numpy().round(2)
    array([[-5. , -2.2],
           [ 0. ,  0.4]], dtype=float32)
    """
    name = "linalg.qr"
    if mode not in ("reduced", "complete", "r"):
        what = f'mode must be "reduced", "complete" or "r", got {mode!r}'
        raise ArgumentError(what, op=name)
    found = QRResult(*linalg_results(name, QR(mode == "complete"), float_node(x)))
    return found.R if mode == "r" else found


@overload
def svd(
    x: ArrayLike, full_matrices: bool = True, compute_uv: Literal[True] = True
) -> SVDResult: ...
@overload
def svd(x: ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False]) -> Tensor: ...
@with_argument_checks
def svd(x: ArrayLike, full_matrices: bool = True, compute_uv: bool = True) -> SVDResult | Tensor:
    """Return the singular value decomposition, x = U @ diag(S) @ Vh.

    The singular values S are real and descending. U and Vh are square, or with `full_matrices`
    false have as many columns and rows as there are singular values. Without `compute_uv`, return S
    alone, as `svdvals` does.

    >>> U, S, Vh = pb.linalg.svd([[3.0, 0.0], [0.0, -4.0]])
    >>> S.tolist()
    [4.0, 3.0]
    """
    name = "linalg.svd"
    if not compute_uv:
        return record_as(name, SingularValues(), float_node(x))
    return SVDResult(*linalg_results(name, SVD(full_matrices), float_node(x)))


def svdvals(x: ArrayLike) -> Tensor:
    """Return the singular values of matrices, in descending order.

    >>> pb.linalg.svdvals([[3.0, 0.0], [0.0, -4.0]]).tolist()
    [4.0, 3.0]
    """
    return record_as("linalg.svdvals", SingularValues(), float_node(x))


@with_argument_checks
def cholesky(x: ArrayLike, upper: bool = False) -> Tensor:
    """Return the lower triangular factor L of positive definite matrices, x = L @ adjoint(L).

    With `upper`, return the upper triangular factor U, x = adjoint(U) @ U. The lower triangle of
    `x` is read, or the upper one; gradients are Hermitian. A matrix that is not positive definite
    gives NaN.

    >>> pb.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    return _factorization_by_cholesky("linalg.cholesky", float_node(x), upper)


def _factorization_by_cholesky(name: str, x: Node, upper: bool) -> Tensor:
    found = record_as(name, Cholesky(), hermitian_argument(name, x, upper))
    return matrix_adjoint(found) if upper else found


class CholeskyFactor(NamedTuple):
    """The result of `cho_factor`."""

    factor: Tensor
    lower: bool


@with_argument_checks
def cho_factor(a: ArrayLike, lower: bool = False) -> CholeskyFactor:
    """Return a triangular factor of positive definite matrices for `cho_solve`, and `lower`.

    >>> factor, lower = pb.linalg.cho_factor([[4.0, 2.0], [2.0, 2.0]])
    >>> pb.linalg.cho_solve((factor, lower), [6.0, 4.0]).tolist()
    [1.0, 1.0]
    """
    name = "linalg.cho_factor"
    return CholeskyFactor(_factorization_by_cholesky(name, float_node(a), not lower), lower)


@overload
def lu(a: ArrayLike, permute_l: Literal[False] = False, p_indices: bool = False) -> LUResult: ...
@overload
def lu(
    a: ArrayLike, permute_l: Literal[True], p_indices: bool = False
) -> tuple[Tensor, Tensor]: ...
@with_argument_checks
def lu(
    a: ArrayLike, permute_l: bool = False, p_indices: bool = False
) -> LUResult | tuple[Tensor, Tensor]:
    """Return P, L and U with a = P @ L @ U: a permutation, a lower triangular matrix whose diagonal
    is 1, and an upper triangular matrix.

    With `permute_l`, return P @ L and U. With `p_indices`, P is a vector of row indices and
    a = L[P] @ U.

    >>> P, L, U = pb.linalg.lu([[1.0, 2.0], [2.0, 2.0]])
    >>> P.tolist(), L.tolist(), U.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]])
    """
    name = "linalg.lu"
    factors, pivots = linalg_results(name, LU(), float_node(a))
    m, n = factors.shape[-2:]
    least = min(m, n)
    lower = tril(factors[..., :least], -1) + eye(m, least, dtype=factors.dtype)
    upper = triu(factors[..., :least, :])
    rows = record_as(name, PivotPermutation(m), pivots._node)
    back = ReorderRows(inverse=True)
    if permute_l:
        return record_as(name, back, lower._node, rows._node), upper
    dtype = int32 if p_indices else factors.dtype.real
    shape = (*factors.shape[:-2], m, 1 if p_indices else m)
    moved = arange(m, dtype=dtype)[:, None] if p_indices else eye(m, dtype=dtype)
    order = record_as(name, back, broadcast_to(moved, shape)._node, rows._node)
    return LUResult(order[..., 0] if p_indices else order, lower, upper)


class LUFactor(NamedTuple):
    """The result of `lu_factor`."""

    lu: Tensor
    piv: Tensor


def lu_factor(a: ArrayLike) -> LUFactor:
    """Return the LU factorization of matrices for `lu_solve`: both factors in one matrix, and the
    row with which each row was exchanged.

    >>> lu, piv = pb.linalg.lu_factor([[1.0, 2.0], [2.0, 2.0]])
    >>> lu.tolist(), piv.tolist()
    ([[2.0, 2.0], [0.5, 1.0]], [1, 1])
    """
    return LUFactor(*linalg_results("linalg.lu_factor", LU(), float_node(a)))
