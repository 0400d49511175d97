"""Products of vectors, matrices and tensors, factorizations and solvers of matrices."""

from pullback.ops.linalg import (  # noqa: F401
    cholesky,
    determinant,
    dot_general,
    eigh,
    einsum,
    exponential,
    lu,
    matmul,
    permutation,
    pseudoinverse,
    qr,
    svd,
    triangular_solve,
)
