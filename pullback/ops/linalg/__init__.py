"""Products of vectors, matrices and tensors."""

from pullback.ops.linalg import dot_general, einsum, matmul  # noqa: F401
