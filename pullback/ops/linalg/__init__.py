"""Products of vectors, matrices and tensors, factorizations and solvers of matrices."""

from pullback.ops.linalg import (  # noqa: F401
    cholesky,
    determinant,
    dot_general,
    einsum,
    lu,
    matmul,
    permutation,
    triangular_solve,
)  # fmt: skip
