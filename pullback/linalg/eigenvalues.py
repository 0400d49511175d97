"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pullback.errors import ArgumentError
from pullback.functions.arguments import float_node, record_as
from pullback.graph.node import Node
from pullback.lazy.tensor import Tensor
from pullback.linalg.arguments import hermitian_argument, linalg_results
from pullback.ops.linalg.eig import Eig, Eigvals
from pullback.ops.linalg.eigh import Eigh, EigvalsH
from pullback.typing import ArrayLike

__all__ = ["EigResult", "EighResult", "eig", "eigh", "eigvals", "eigvalsh"]


class EigResult(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def eig(x: ArrayLike) -> EigResult:
    """Return the eigenvalues of square matrices, in no order, and the eigenvectors: both complex.

    Column i of `eigenvectors`, which has length 1, belongs to eigenvalue i.

    >>> values, vectors = pb.linalg.eig([[0.0, 1.0], [-1.0, 0.0]])
    >>> values.numpy().round(5).imag.tolist()
    [1.0, -1.0]
    """
    return EigResult(*linalg_results("linalg.eig", Eig(), float_node(x)))


def eigvals(x: ArrayLike) -> Tensor:
    """Return the eigenvalues of square matrices, in no order; they are complex.

    >>> pb.linalg.eigvals([[0.0, 1.0], [-1.0, 0.0]]).numpy().round(5).imag.tolist()
    [1.0, -1.0]
    """
    return record_as("linalg.eigvals", Eigvals(), float_node(x))


def eigh(x: ArrayLike, UPLO: Literal["L", "U"] = "L") -> EighResult:
    """Return the eigenvalues of Hermitian matrices in ascending order, and the eigenvectors.

    Column i of `eigenvectors` belongs to eigenvalue i. Only the lower triangle of `x` is read, or
    the upper one if `UPLO` is "U"; gradients are Hermitian.

    >>> values, vectors = pb.linalg.eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> values.numpy().round(5).tolist()
    [1.0, 3.0]
    """
    name = "linalg.eigh"
    return EighResult(*linalg_results(name, Eigh(), _hermitian_for_eigenvalues(name, x, UPLO)))


def eigvalsh(x: ArrayLike, UPLO: Literal["L", "U"] = "L") -> Tensor:
    """Return the eigenvalues of Hermitian matrices, in ascending order.

    Only the lower triangle of `x` is read, or the upper one if `UPLO` is "U".

    >>> pb.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]]).numpy().round(5).tolist()
    [1.0, 3.0]
    """
    name = "linalg.eigvalsh"
    return record_as(name, EigvalsH(), _hermitian_for_eigenvalues(name, x, UPLO))


def _hermitian_for_eigenvalues(name: str, x: ArrayLike, uplo: object) -> Node:
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise ArgumentError(f'UPLO must be "L" or "U", got {uplo!r}', op=name)
    return hermitian_argument(name, float_node(x), uplo.upper() == "U")
