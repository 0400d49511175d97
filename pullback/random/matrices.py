"""Random vectors and matrices that need a factorization.

Their bits may depend on the linear algebra library of the machine, unlike those of other samplers.
"""

from __future__ import annotations

from typing import Literal

from pullback import linalg
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import checked_integer_argument, shape_argument
from pullback.functions.arithmetic import abs, sqrt
from pullback.functions.products import matmul
from pullback.functions.shape import expand_dims, squeeze
from pullback.functions.where_take import where
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import float32, float64
from pullback.lazy.operators import as_tensor
from pullback.lazy.record import record_at_one_line
from pullback.lazy.tensor import Tensor
from pullback.random.arguments import random_dtype_argument, random_key_argument
from pullback.random.continuous import normal
from pullback.typing import ArrayLike, DTypeLike, Shape


@with_argument_checks
def multivariate_normal(
    key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None, method: Literal["cholesky", "eigh", "svd"] = "cholesky",
) -> Tensor:  # fmt: skip
    """Return normal vectors with a mean and a covariance matrix, differentiable in both.

    `shape` is that of the result without its last axis; by default `mean` without its last axis and
    `cov` without its last two broadcast. "cholesky" needs a positive definite matrix; "eigh" and
    "svd" also take a singular one. Bits may depend on the machine's linear algebra library.

    >>> x = pb.random.multivariate_normal(pb.random.key(0), [0.0, 9.0], [[1.0, 0.0], [0.0, 4.0]])
    >>> x.shape
    (2,)
    """
    op = "random.multivariate_normal"
    wanted = random_dtype_argument(op, dtype, mean, cov)
    random_key_argument(op, key)
    with record_at_one_line():
        wide = float64 if wanted is float64 else float32
        center, matrix = as_tensor(mean).astype(wide), as_tensor(cov).astype(wide)
        n = center.shape[-1] if center.ndim else -1
        if matrix.shape[-2:] != (n, n) or n < 0:
            given = f"got {center._node.type} and {matrix._node.type}"
            raise ShapeError(f"mean and cov must be [..., n] and [..., n, n], {given}", op=op)
        factor = _random_matrix_root(op, matrix, method)
        batch = (center[..., None] + matrix[..., :1]).shape[:-2]
        outer = batch if shape is None else shape_argument(op, shape)
        unit = normal(key, (*outer, n, 1), wide)
        return (center + squeeze(matmul(factor, unit), -1)).astype(wanted)


def _random_matrix_root(op: str, matrix: Tensor, method: str) -> Tensor:
    """Return a matrix whose product with its transpose is the given one."""
    if method == "cholesky":
        return linalg.cholesky(matrix)
    if method == "eigh":
        values, vectors = linalg.eigh(matrix)
        return vectors * expand_dims(sqrt(where(values > 0, values, 0)), -2)
    if method == "svd":
        left, values, _ = linalg.svd(matrix)
        return left * expand_dims(sqrt(values), -2)
    raise ArgumentError(f'method must be "cholesky", "eigh" or "svd", got {method!r}', op=op)


@with_argument_checks
def orthogonal(
    key: ArrayLike, n: int, shape: Shape = (), dtype: DTypeLike | None = None, m: int | None = None
) -> Tensor:
    """Return n x m matrices with orthonormal columns (or rows), uniformly distributed.

    They are square by default. For a complex dtype they are unitary. Bits may depend on the
    machine's linear algebra library.

    >>> q = pb.random.orthogonal(pb.random.key(0), 3)
    >>> bool(pb.allclose(q @ q.T, pb.eye(3), atol=1e-5))
    True
    """
    op = "random.orthogonal"
    wanted = random_dtype_argument(op, dtype, kinds="fc")
    rows = checked_integer_argument(op, n, "n")
    columns = rows if m is None else checked_integer_argument(op, m, "m")
    if rows < 0 or columns < 0:
        raise ArgumentError(f"sizes must not be negative, got {rows} and {columns}", op=op)
    with record_at_one_line():
        tall, wide = max(rows, columns), min(rows, columns)
        computed = float32 if wanted.bits == 16 else wanted
        gaussian = normal(key, (*shape_argument(op, shape), tall, wide), computed)
        q, r = linalg.qr(gaussian)
        diagonal = linalg.diagonal(r)
        size = abs(diagonal)
        phases = diagonal / where(size > 0, size, 1)
        q = q * expand_dims(phases, -2)  # makes the factorization unique, so q is uniform
        return (q if rows >= columns else q.mT).astype(wanted)
