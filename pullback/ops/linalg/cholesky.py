"""The Cholesky factorization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import int32
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import (
    MatrixKernel,
    RealMatrixKernel,
    check_matrix_kernel_operands,
    each_matrix,
    matrix_kernel_lower_part,
    matrix_or_nan,
)  # fmt: skip
from pullback.ops.linalg.triangles_hermitian import (
    lower_triangle_half_diagonal,
    mirrored,
    unmirrored_triangle,
)
from pullback.ops.linalg.triangular_solve import TriangularSolve
from pullback.ops.prelude import Node, Type
from pullback.ops.samples import complex_samples, real


class Cholesky(MatrixKernel, RealMatrixKernel):
    """The lower triangular L with a positive diagonal for which L times its adjoint is x.

    Only the lower triangle of x is read. A matrix that is not positive definite gives NaN; one
    that contains NaN may keep zeros above the diagonal.
    """

    factors = fixed_factor_rule("... _ _ -> ... _ _")

    def infer(self, x: Type) -> Type:
        check_matrix_kernel_operands(self, x, square=True)
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return each_matrix(np.linalg.cholesky, x)

    # The routines take the memory of x, which is Hermitian, for its transpose: that has the upper
    # factor L transposed, so its memory is that of L.

    def on_cpu(self, b: Any, out: Type, x: Any) -> Any:
        types = (out, Type(out.shape[:-2], int32))
        found = b.lapack("potrf", x, out=types, by_rows=True, in_place=True, uplo="U")
        return self._finished(b, *found)

    def on_cuda(self, b: Any, out: Type, x: Any) -> Any:
        if (small := b.small_matrix_kernel("cholesky", x, out=out)) is not None:
            return small
        types = (out, Type(out.shape[:-2], int32))
        return self._finished(
            b, *b.cusolver("cusolver_potrf", x, out=types, by_rows=True, lower=False)
        )

    def real_kernel(self, b: Any, out: Type, x: Any) -> Any:
        return b.matrix_kernel("cholesky", x, out=out)

    def _finished(self, b: Any, factor: Any, info: Any) -> Any:
        return matrix_or_nan(b, info, matrix_kernel_lower_part(b, factor))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        inner = lower_triangle_half_diagonal(MatMul()(adjoint(out), g))
        back = TriangularSolve(True, "C")  # by the adjoint of the factor
        return [unmirrored_triangle(adjoint(back(out, adjoint(back(out, inner)))))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        if ts[0] is None:
            return None
        solve = TriangularSolve(True, "N")
        inner = solve(out, adjoint(solve(out, mirrored(ts[0]))))
        return MatMul()(out, lower_triangle_half_diagonal(inner))

    @classmethod
    def samples(cls) -> Any:
        for x in (real(2, 4, 4), complex_samples(3, 3)):
            yield cls(), (cholesky_sample(x),)
        yield from [(cls(), (real(*shape),)) for shape in ((0, 2, 2), (2, 0, 0))]


def cholesky_sample(x: np.ndarray) -> np.ndarray:
    """Return a Hermitian matrix with eigenvalues of 1 or more."""
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])
