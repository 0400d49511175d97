"""Linear algebra: factorizations, solvers, norms and functions of matrices."""
