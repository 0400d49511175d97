"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import int32
from pullback.graph.op_kinds import SparseCotangentsKind
from pullback.ops.elementwise.complex_parts import Real
from pullback.ops.elementwise.functions import cast
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import (
    MatrixKernel,
    RealMatrixKernel,
    check_matrix_kernel_operands,
    each_matrix,
    either_kernel_failed,
    matrix_kernel_lower_part,
    matrix_or_nan,
    matrix_or_zero,
)  # fmt: skip
from pullback.ops.linalg.matrix_rows_columns import (
    diagonal,
    diagonal_matrix,
    reciprocal_column_row_differences,
    scaled_columns,
)  # fmt: skip
from pullback.ops.linalg.triangles_hermitian import mirrored, unmirrored_triangle
from pullback.ops.prelude import Node, Type, result_nodes
from pullback.ops.samples import complex_samples, real


class Eigh(MatrixKernel, RealMatrixKernel, SparseCotangentsKind):
    """The eigenvalues of Hermitian matrices in ascending order, and their eigenvectors as columns.

    Only the lower triangle is read. An eigenvector may be multiplied by any number of absolute
    value 1; its derivative is orthogonal to it. Between eigenvectors of equal eigenvalues, which
    are not unique, the derivative is 0.
    """

    factors = fixed_factor_rule("... _ _ -> ... _, ... _ _")

    def infer(self, x: Type) -> tuple[Type, Type]:
        check_matrix_kernel_operands(self, x, square=True)
        return eigh_value_type(x), x

    def numpy(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(each_matrix(np.linalg.eigh, np.tril(x), finite=True))

    def on_cpu(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        return _eigh_by_lapack(b, x, out[0], "V")

    def on_cuda(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        return _eigh_by_lapack(b, x, out[0], "V")

    def real_kernel(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        return b.matrix_kernel("eigh", x, out=out)

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        (values, vectors), (of_values, of_vectors) = out, g
        if of_vectors is None:
            pulled = MatMul()(scaled_columns(vectors, of_values), adjoint(vectors))
            return [unmirrored_triangle(pulled)]
        inner = MatMul()(adjoint(vectors), of_vectors)
        inner = inner * cast(reciprocal_column_row_differences(values), inner.type.dtype)
        if of_values is not None:
            inner = inner + cast(diagonal_matrix(of_values), inner.type.dtype)
        return [unmirrored_triangle(MatMul()(MatMul()(vectors, inner), adjoint(vectors)))]

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        if ts[0] is None:
            return None, None
        values, vectors = out
        inner = MatMul()(MatMul()(adjoint(vectors), mirrored(ts[0])), vectors)
        turned = inner * cast(reciprocal_column_row_differences(values), inner.type.dtype)
        return diagonal(Real()(inner)), MatMul()(vectors, turned)

    @classmethod
    def samples(cls) -> Any:
        for shape in ((3, 3), (2, 4, 4), (0, 2, 2)):
            yield cls(), (hermitian_for_eigh(real(*shape)),)


class EigvalsH(MatrixKernel, RealMatrixKernel):
    """The eigenvalues of Hermitian matrices, ascending; only the lower triangle is read."""

    title = "eigvalsh"
    factors = fixed_factor_rule("... _ _ -> ... _")

    def infer(self, x: Type) -> Type:
        check_matrix_kernel_operands(self, x, square=True)
        return eigh_value_type(x)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return each_matrix(np.linalg.eigvalsh, np.tril(x), finite=True)

    def on_cpu(self, b: Any, out: Type, x: Any) -> Any:
        if x.shape[-1] > 32:  # LAPACK's blocks are not smaller
            return _eigh_values(b, x, out)
        return _eigh_by_lapack(b, x, out, "N")[0]

    def on_cuda(self, b: Any, out: Type, x: Any) -> Any:
        return _eigh_by_lapack(b, x, out, "V")[0]  # there is no routine without eigenvectors

    def real_kernel(self, b: Any, out: Type, x: Any) -> Any:
        return b.matrix_kernel("eigh", x, out=out)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        found = result_nodes(Eigh()(xs[0]))
        return Eigh().vjp((g, None), found, xs, need)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return Eigh().jvp(result_nodes(Eigh()(xs[0])), xs, ts)[0]

    @classmethod
    def samples(cls) -> Any:
        yield from [(cls(), arrays) for _, arrays in Eigh.samples()]
        yield cls(), (hermitian_for_eigh(complex_samples(2, 3, 3)),)


def eigh_value_type(x: Type) -> Type:
    return x.with_shape(x.shape[:-1]).with_dtype(x.dtype.real)


def hermitian_for_eigh(x: np.ndarray) -> np.ndarray:
    """Return a Hermitian matrix whose eigenvalues are apart."""
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2 + np.diag(3.0 * np.arange(x.shape[-1]))


def _eigh_by_lapack(b: Any, x: Any, values: Type, mode: str) -> tuple[Any, Any]:
    """Write the call of the eigenvalue routine: eigenvalues, and eigenvectors if mode is V."""
    x, bad = matrix_or_zero(b, x, matrix_kernel_lower_part(b, x))
    out = (x.type, values, Type(x.shape[:-2], int32))
    if b.platform == "cpu":
        # The other triangle would need no transpose of x, but give vectors of other signs.
        vectors, found, info = b.lapack("syevd", x, out=out, in_place=True, mode=mode, uplo="L")
    else:
        vectors, found, info = b.cusolver(
            "cusolver_syevd", x, out=out, lower=True, algorithm=chr(0)
        )
    return matrix_or_nan(b, either_kernel_failed(b, info, bad), found, vectors)


def _eigh_values(b: Any, x: Any, values: Type) -> Any:
    """Write the eigenvalues of large matrices, through tridiagonal ones.

    The kernel for eigenvalues alone gives LAPACK so little memory that it reduces matrices to
    tridiagonal ones column by column. The kernel for this reduction does it in blocks, and the
    other one leaves a matrix alone that is tridiagonal.
    """
    x, bad = matrix_or_zero(b, x, matrix_kernel_lower_part(b, x))
    # By columns, the memory of x is its conjugate: its upper triangle is the lower one of x.
    (*batch, n), info = values.shape, Type(values.shape[:-1], int32)
    beside = values.with_shape((*batch, n - 1))
    out = (x.type, values, beside, beside.with_dtype(x.dtype), info)
    _, main, off, _, _ = b.lapack("sytrd", x, out=out, by_rows=True, in_place=True, uplo="U")
    x = _lower_eigh_tridiagonal(b, main, off)
    _, found, failed = b.lapack(
        "syevd", x, out=(x.type, values, info), in_place=True, mode="N", uplo="L"
    )
    return matrix_or_nan(b, either_kernel_failed(b, failed, bad), found)


def _lower_eigh_tridiagonal(b: Any, main: Any, below: Any) -> Any:
    """Write matrices with these diagonals, and zeros above."""
    *batch, n = main.shape
    last = b.full(below.type.with_shape((*batch, 1)), 0)
    below = b.op("stablehlo.concatenate", below, last, out=main.type, dimension=len(batch))
    rows, columns = (b.iota((n, n), int32, d) for d in (0, 1))
    distance = b.op("stablehlo.subtract", rows, columns, out=rows.type)
    made = b.full(main.type.with_shape((*batch, n, n)), 0)
    for k, x in ((1, below), (0, main)):
        there = b.broadcast(b.compare("EQ", distance, b.full(distance.type, k)), made.shape)
        spread = b.broadcast_in_dim(x, made.shape, (*range(len(batch)), len(batch) + 1))
        made = b.select(there, spread, made)
    return made
