"""Systems of linear equations with a triangular matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.ops.linalg.linear_solve import TRANSPOSES, LinearSolve
from pullback.ops.linalg.matrix_kernel import (
    MatrixKernel,
    RealMatrixKernel,
    matrix_kernel_transpose,
    matrix_kernel_transposed_type,
)
from pullback.ops.linalg.triangles_hermitian import triangle
from pullback.ops.prelude import Node, Type
from pullback.ops.samples import complex_samples, diagonally_dominant, real


class TriangularSolve(LinearSolve, MatrixKernel, RealMatrixKernel):
    """The solution x of op(a) x = b with the lower or upper triangle of a; the rest is not read.

    op is the matrix itself (`trans` is N), its transpose (T) or its adjoint (C). With
    `unit_diagonal`, the diagonal counts as ones. A zero on the diagonal gives infinities or NaN.
    """

    lower: bool = True
    trans: str = "N"
    unit_diagonal: bool = False

    def stated(self, g: Node) -> Node:
        return triangle(g, self.lower, strict=self.unit_diagonal)

    def numpy(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        from scipy.linalg.blas import get_blas_funcs  # heavy

        made, trsm = np.empty_like(b), get_blas_funcs("trsm", (a, b))
        options = {"lower": self.lower, "diag": self.unit_diagonal}
        for i in np.ndindex(b.shape[:-2]) if b.size else ():
            made[i] = trsm(1, a[i], b[i], trans_a=TRANSPOSES.index(self.trans), **options)
        return made

    def on_cpu(self, b: Any, out: Type, a: Any, rhs: Any) -> Any:
        # The kernel takes matrices by columns, so the memory of a for its transpose.
        uplo, diag = "U" if self.lower else "L", "U" if self.unit_diagonal else "N"
        n, k = rhs.shape[-2:]
        conjugate = self.trans == "C" and a.dtype.is_complex
        if (k == 1 or 16 * k <= n) and not conjugate:
            trans = "T" if self.trans == "N" else "N"
            return b.lapack(
                "trsm", a, rhs, out=(out,), by_rows=(0,), in_place=True, side="L", uplo=uplo,
                trans_x=trans, diag=diag,
            )[0]  # fmt: skip
        # Also that of many right-hand sides, so that they need no transposes: x.T op(a).T is b.T.
        (made,) = b.lapack(
            "trsm", a, matrix_kernel_transpose(b, rhs), out=(matrix_kernel_transposed_type(out),),
            by_rows=(0,), in_place=True, side="R", uplo=uplo, trans_x=self.trans, diag=diag,
        )  # fmt: skip
        return matrix_kernel_transpose(b, made)

    def real_kernel(self, b: Any, out: Type, a: Any, rhs: Any) -> Any:
        flags = self.lower + 2 * (self.trans != "N") + 4 * self.unit_diagonal
        return b.matrix_kernel("triangular_solve", a, rhs, out=out, flags=flags)

    def on_cuda(self, b: Any, out: Type, a: Any, rhs: Any) -> Any:
        small = b.small_matrix_kernel(
            "triangular_solve", a, rhs, out=out, lower=self.lower, transposed=self.trans != "N",
            unit=self.unit_diagonal,
        )  # fmt: skip
        if small is not None:
            return small
        names = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
        return b.op(
            "stablehlo.triangular_solve", a, rhs, out=out, left_side=True, lower=self.lower,
            unit_diagonal=self.unit_diagonal,
            transpose_a=f"#stablehlo<transpose {names[self.trans]}>",
        )  # fmt: skip

    @classmethod
    def samples(cls) -> Any:
        for lower in (True, False):
            for trans, unit in (("N", False), ("T", True), ("C", False)):
                a, b = (
                    diagonally_dominant(complex_samples(2, 3, 3)),
                    complex_samples(2, 3, 2, salt=1),
                )
                yield cls(lower, trans, unit), (a, b)
        for batch, n, k in (((), 3, 2), ((), 0, 2), ((2,), 1, 0)):
            yield cls(), (diagonally_dominant(real(*batch, n, n)), real(*batch, n, k, salt=1))
