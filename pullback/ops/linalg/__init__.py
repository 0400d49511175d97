"""Products of vectors, matrices and tensors, factorizations and solvers of matrices."""

from pullback.ops.linalg import (  # noqa: F401
    cholesky,
    cofactor,
    determinant,
    dot_general,
    eig,
    eigh,
    einsum,
    exponential,
    lu,
    matmul,
    matrix_roots_logs,
    permutation,
    polar,
    pseudoinverse,
    qr,
    svd,
    sylvester,
    triangular_solve,
)
