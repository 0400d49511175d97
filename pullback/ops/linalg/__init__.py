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
    permutation,
    polar,
    pseudoinverse,
    qr,
    roots,
    svd,
    sylvester,
    triangular_solve,
)
