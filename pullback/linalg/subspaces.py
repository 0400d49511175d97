"""Orthonormal bases of the range and the null space of a matrix."""

from __future__ import annotations

from pullback.errors import ShapeError
from pullback.functions.arguments import float_node
from pullback.functions.composed import composed
from pullback.lazy.tensor import Tensor, wrap
from pullback.linalg.arguments import matrix_adjoint
from pullback.linalg.factorizations import svd
from pullback.linalg.least_squares import matrix_rank
from pullback.typing import ArrayLike

__all__ = ["null_space", "orth"]


@composed
def orth(a: ArrayLike, rcond: float | None = None) -> Tensor:
    """Return an orthonormal basis of the range of a matrix, as columns.

    Its size is the rank, which is read: singular values count that are larger than `rcond` times
    the largest one (by default the larger size of the matrix times the rounding unit).

    >>> abs(pb.linalg.orth([[0.0, 0.0], [3.0, 0.0]])).numpy().round(5).tolist()
    [[0.0], [1.0]]
    """
    x = _matrix_of_subspace("linalg.orth", a)
    u, _, _ = svd(x, full_matrices=False)
    return u[:, : int(matrix_rank(x.detach(), rtol=rcond).item())]


@composed
def null_space(a: ArrayLike, rcond: float | None = None) -> Tensor:
    """Return an orthonormal basis of the vectors that a matrix maps to 0, as columns.

    Its size depends on the rank, which is read; `rcond` is that of `orth`.

    >>> abs(pb.linalg.null_space([[1.0, 0.0]])).numpy().round(5).tolist()
    [[0.0], [1.0]]
    """
    x = _matrix_of_subspace("linalg.null_space", a)
    _, _, vh = svd(x, full_matrices=True)
    return matrix_adjoint(vh)[:, int(matrix_rank(x.detach(), rtol=rcond).item()) :]


def _matrix_of_subspace(name: str, a: ArrayLike) -> Tensor:
    x = wrap(float_node(a))
    if x.ndim != 2:
        raise ShapeError(f"needs one matrix, got {x._node.type}", op=name, code="E3002")
    return x
