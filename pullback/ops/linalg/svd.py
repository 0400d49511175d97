"""The singular value decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import int32
from pullback.graph.op_kinds import SparseCotangentsKind
from pullback.ops.elementwise.complex_parts import Complex, Conj, Imag, Real
from pullback.ops.elementwise.division import reciprocal_or_zero
from pullback.ops.elementwise.functions import cast
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import (
    MatrixKernel,
    RealMatrixKernel,
    check_matrix_kernel_operands,
    each_matrix,
    either_kernel_failed,
    matrix_kernel_transpose,
    matrix_kernel_transposed_type,
    matrix_or_nan,
    matrix_or_zero,
)  # fmt: skip
from pullback.ops.linalg.matrix_rows_columns import (
    add_matrix_terms,
    as_column,
    as_row,
    columns,
    diagonal,
    diagonal_matrix,
    padded_matrix_columns,
    padded_matrix_rows,
    rows,
    scaled_columns,
)
from pullback.ops.prelude import Node, Type, result_nodes
from pullback.ops.samples import complex_samples, real


class SVD(MatrixKernel, RealMatrixKernel, SparseCotangentsKind):
    """The factors u, s and vh of x = u diag(s) vh.

    Singular values s are real, descending and not negative; u and the adjoint of vh have
    orthonormal columns, as many as singular values or, with `full`, as many as rows. A pair of
    singular vectors may be multiplied by any number of absolute value 1. Derivatives between
    vectors of equal singular values, and those that divide by a singular value of 0, are 0.
    """

    full: bool = False
    title = "svd"
    factors = fixed_factor_rule("... _ _ -> ... _ _, ... _, ... _ _")

    def infer(self, x: Type) -> tuple[Type, Type, Type]:
        check_matrix_kernel_operands(self, x)
        *batch, m, n = x.shape
        least = min(m, n)
        left = x.with_shape((*batch, m, m if self.full else least))
        right = x.with_shape((*batch, n if self.full else least, n))
        return left, x.with_shape((*batch, least)).with_dtype(x.dtype.real), right

    def numpy(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(each_matrix(lambda a: np.linalg.svd(a, self.full), x, finite=True))

    def on_cpu(self, b: Any, out: tuple[Type, ...], x: Any) -> Any:
        x, bad = matrix_or_zero(b, x)
        u, s, vh, info = _svd_by_lapack(b, x, out, "A" if self.full else "S")
        return matrix_or_nan(b, either_kernel_failed(b, info, bad), u, s, vh)

    def on_cuda(self, b: Any, out: tuple[Type, ...], x: Any) -> Any:
        return svd_on_cuda(b, out, x)

    def real_kernel(self, b: Any, out: tuple[Type, Type, Type], x: Any) -> Any:
        return b.matrix_kernel("svd", x, out=out)

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        (u, s, vh), (of_u, of_s, of_vh) = out, g
        v, p, q = adjoint(vh), u.type.shape[-1], vh.type.shape[-2]
        terms, outside = [], []
        if of_s is not None:
            middle = cast(diagonal_matrix(of_s), u.type.dtype)
            terms.append(padded_matrix_rows(padded_matrix_columns(middle, q), p))
        if of_u is not None:
            inner = MatMul()(adjoint(u), of_u)
            terms.append(_times_svd_values(_svd_turned(inner, padded_matrix_columns(s, p)), s, q))
            if u.type.dtype.is_complex:
                phase = diagonal_matrix(_svd_phase(inner, s))
                terms.append(padded_matrix_rows(padded_matrix_columns(phase, q), p))
            if not self.full and u.type.shape[-2] > p:
                rest = scaled_columns(_outside_svd(u, of_u), reciprocal_or_zero(s))
                outside.append(MatMul()(rest, vh))
        if of_vh is not None:
            of_v = adjoint(of_vh)
            inner = _svd_turned(MatMul()(vh, of_v), padded_matrix_columns(s, q))
            terms.append(adjoint(_times_svd_values(inner, s, p)))
            if not self.full and vh.type.shape[-1] > q:
                rest = scaled_columns(_outside_svd(v, of_v), reciprocal_or_zero(s))
                outside.append(MatMul()(u, adjoint(rest)))
        return [add_matrix_terms([MatMul()(MatMul()(u, add_matrix_terms(terms)), vh), *outside])]

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        if ts[0] is None:
            return None, None, None
        (u, s, vh), t = out, ts[0]
        v, p, q = adjoint(vh), u.type.shape[-1], vh.type.shape[-2]
        least = s.type.shape[-1]
        change = MatMul()(t, v)
        inner = MatMul()(adjoint(u), change)
        of_s = diagonal(Real()(rows(columns(inner, 0, least), 0, least)))
        left = _times_svd_values(inner, s, p)
        left = (left + adjoint(left)) * _svd_scales(padded_matrix_columns(s, p), u)
        right = _times_svd_values(adjoint(inner), s, q)
        right = (right + adjoint(right)) * _svd_scales(padded_matrix_columns(s, q), u)
        of_u, of_v = MatMul()(u, left), MatMul()(v, right)
        if u.type.dtype.is_complex:
            phase = padded_matrix_columns(
                _svd_phase(rows(columns(inner, 0, least), 0, least), s), p
            )
            of_u = of_u + scaled_columns(u, phase)
        if not self.full and u.type.shape[-2] > p:
            of_u = of_u + scaled_columns(_outside_svd(u, change), reciprocal_or_zero(s))
        if not self.full and vh.type.shape[-1] > q:
            change = MatMul()(adjoint(t), u)
            of_v = of_v + scaled_columns(_outside_svd(v, change), reciprocal_or_zero(s))
        return of_u, of_s, adjoint(of_v)

    @classmethod
    def samples(cls) -> Any:
        for shape in ((3, 3), (2, 4, 3), (2, 3)):
            yield cls(), (svd_sample(real(*shape)),)
        for shape in ((4, 3), (2, 2, 3)):  # one more vector: it is unique but for its sign
            yield cls(True), (svd_sample(real(*shape)),)
        for shape in ((2, 0), (0, 2, 2)):
            yield cls(shape[0] == 2), (real(*shape),)


class SingularValues(MatrixKernel, RealMatrixKernel):
    """The singular values of matrices, in descending order."""

    title = "svdvals"
    factors = fixed_factor_rule("... _ _ -> ... _")

    def infer(self, x: Type) -> Type:
        return SVD().infer(x)[1]

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return each_matrix(lambda a: np.linalg.svd(a, compute_uv=False), x, finite=True)

    def on_cpu(self, b: Any, out: Type, x: Any) -> Any:
        x, bad = matrix_or_zero(b, x)
        _, s, _, info = _svd_by_lapack(b, x, SVD().infer(x.type), "N")
        return matrix_or_nan(b, either_kernel_failed(b, info, bad), s)

    def on_cuda(self, b: Any, out: Type, x: Any) -> Any:
        return svd_on_cuda(b, SVD().infer(x.type), x)[1]

    def real_kernel(self, b: Any, out: Type, x: Any) -> Any:
        return b.matrix_kernel("singular_values", x, out=out)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return SVD().vjp((None, g, None), result_nodes(SVD()(xs[0])), xs, need)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return SVD().jvp(result_nodes(SVD()(xs[0])), xs, ts)[1]

    @classmethod
    def samples(cls) -> Any:
        for shape in ((2, 4, 3), (2, 3), (2, 0)):
            yield cls(), (svd_sample(real(*shape)),)
        yield cls(), (svd_sample(complex_samples(2, 3, 4)),)


def svd_sample(x: np.ndarray) -> np.ndarray:
    """Return a matrix whose singular values are apart."""
    return x + np.eye(*x.shape[-2:]) * (2 + 4 * np.arange(x.shape[-1]))


def _times_svd_values(x: Node, s: Node, size: int) -> Node:
    """Return x times the matrix with the singular values on its diagonal and `size` columns."""
    return padded_matrix_columns(scaled_columns(columns(x, 0, s.type.shape[-1]), s), size)


def _svd_scales(s: Node, like: Node) -> Node:
    """Return 1 / (s[j]**2 - s[i]**2) as matrices, or 0 where they are equal.

    A compiler may round the difference of squares once, and then it is not 0 on the diagonal.
    """
    row, column = as_row(s), as_column(s)
    return cast(reciprocal_or_zero((row - column) * (row + column)), like.type.dtype)


def _svd_turned(inner: Node, s: Node) -> Node:
    """Return the cotangent of a rotation among singular vectors."""
    return (inner - adjoint(inner)) * _svd_scales(s, inner)


def _outside_svd(u: Node, x: Node) -> Node:
    """Return the part of columns that is orthogonal to those of u."""
    return x - MatMul()(u, MatMul()(adjoint(u), x))


def _svd_phase(inner: Node, s: Node) -> Node:
    """Return the imaginary diagonal of a complex matrix, divided by the singular values."""
    least = s.type.shape[-1]
    part = Imag()(diagonal(rows(columns(inner, 0, least), 0, least)))
    part = part * reciprocal_or_zero(s)
    return Complex()(part * 0, part)


def _svd_by_lapack(b: Any, x: Any, out: tuple[Type, ...], mode: str) -> tuple[Any, Any, Any, Any]:
    """Write LAPACK's call: the left vectors, the values, the right vectors, and failures."""
    left, values, right = out
    types = (x.type, values, left, right, Type(x.shape[:-2], int32))
    _, s, u, vh, info = b.lapack("gesdd", x, out=types, mode=mode)
    return u, s, vh, info


def svd_on_cuda(b: Any, out: tuple[Type, ...], x: Any) -> Any:
    """Write the calls of the CUDA plugin: the Jacobi method for matrices of up to 1,024 rows and
    columns, else the QR method, which wants at least as many rows as columns."""
    left, s, right = out
    x, bad = matrix_or_zero(b, x)
    *batch, m, n = x.shape
    info = Type(tuple(batch), int32)
    full = left.shape[-1] == m and right.shape[-2] == n
    if max(m, n) <= 1024:
        small = not full and min(m, n) > 32  # the routine for small ones has no reduced form
        u_type = left if small else x.type.with_shape((*batch, m, m))
        v_type = (
            matrix_kernel_transposed_type(right) if small else x.type.with_shape((*batch, n, n))
        )
        _, values, u, v, failed = b.cusolver(
            "cusolver_gesvdj", x, out=(x.type, s, u_type, v_type, info),
            full_matrices=not small, compute_uv=True,
        )  # fmt: skip
        zero = [0] * len(batch)
        u = hlo_slice_instruction(b, u, [*zero, 0, 0], [*batch, *left.shape[-2:]])
        vh = Conj().lower(b, matrix_kernel_transposed_type(v.type), matrix_kernel_transpose(b, v))
        vh = hlo_slice_instruction(b, vh, [*zero, 0, 0], [*batch, *right.shape[-2:]])
    elif m >= n:
        _, values, u, vh, failed = b.cusolver(
            "cusolver_gesvd", x, out=(x.type, s, left, right, info), full_matrices=full,
            compute_uv=True, transposed=False,
        )  # fmt: skip
    else:
        types = (
            matrix_kernel_transposed_type(x.type),
            s,
            matrix_kernel_transposed_type(right),
            matrix_kernel_transposed_type(left),
            info,
        )
        _, values, v, ut, failed = b.cusolver(
            "cusolver_gesvd", matrix_kernel_transpose(b, x), out=types, full_matrices=full,
            compute_uv=True, transposed=False,
        )  # fmt: skip
        u, vh = matrix_kernel_transpose(b, ut), matrix_kernel_transpose(b, v)
    return matrix_or_nan(b, either_kernel_failed(b, failed, bad), u, values, vh)
