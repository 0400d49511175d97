"""Products of vectors, matrices and tensors, factorizations and solvers of matrices."""

from pullback.ops.linalg import (  # noqa: F401
    cholesky,
    det_cofactors,
    determinant,
    dot_general,
    eig,
    eigh,
    einsum_expansion,
    lu_solve_inverse,
    matmul_dot,
    matrix_exponential,
    matrix_roots_logs,
    permutation,
    polar,
    pseudoinverse,
    qr,
    svd,
    sylvester,
    triangular_solve,
)
