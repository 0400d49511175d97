"""Products of matrices and vectors; dimensions before them broadcast."""

from __future__ import annotations

from pullback.errors import ShapeError
from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.complex_parts import conj
from pullback.functions.composed import composed
from pullback.functions.products import matmul
from pullback.typing import ArrayLike


@composed
def matvec(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the products of matrices and vectors: the last dimensions of both are summed.

    >>> pb.matvec([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    a, v = as_tensor(x1), as_tensor(x2)
    _check_matrix_vector_ranks("matvec", a, v)
    return matmul(a, v[..., None])[..., 0]


@composed
def vecmat(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the products of vectors, which are conjugated, and matrices.

    >>> pb.vecmat([1, 1], [[1, 2], [3, 4]]).tolist()
    [4, 6]
    """
    v, a = as_tensor(x1), as_tensor(x2)
    _check_matrix_vector_ranks("vecmat", a, v)
    return matmul(conj(v)[..., None, :], a)[..., 0, :]


def _check_matrix_vector_ranks(op: str, a: Tensor, v: Tensor) -> None:
    if a.ndim < 2 or v.ndim < 1:
        message = f"needs a matrix and a vector, got {a._node.type} and {v._node.type}"
        raise ShapeError(message, op=op, code="E3002")


__all__ = ["matvec", "vecmat"]
