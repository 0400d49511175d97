"""Eigenvalues and eigenvectors of general matrices, which are complex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import int32
from pullback.graph.op_kinds import SparseCotangentsKind
from pullback.ops.elementwise.complex_parts import COMPLEX_OF, Real
from pullback.ops.elementwise.functions import cast
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.lu_solve_inverse import Solve
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import (
    MatrixKernel,
    check_matrix_kernel_operands,
    each_matrix,
    either_kernel_failed,
    matrix_or_nan,
    matrix_or_zero,
)  # fmt: skip
from pullback.ops.linalg.matrix_rows_columns import (
    add_matrix_terms,
    diagonal,
    diagonal_matrix,
    reciprocal_column_row_differences,
    scaled_columns,
)  # fmt: skip
from pullback.ops.prelude import Node, Type, conjugate, result_nodes
from pullback.ops.samples import complex_samples, real


class Eig(MatrixKernel, SparseCotangentsKind):
    """The eigenvalues of square matrices, and their eigenvectors as columns; both are complex.

    Eigenvectors have length 1. They may be multiplied by any number of absolute value 1; the
    derivative of one is orthogonal to it. Between eigenvectors of equal eigenvalues, the
    derivative is 0; if there are not enough of them, it is not finite.
    """

    factors = fixed_factor_rule("... _ _ -> ... _, ... _ _")

    def infer(self, x: Type) -> tuple[Type, Type]:
        check_matrix_kernel_operands(self, x, square=True)
        made = x.with_dtype(COMPLEX_OF.get(x.dtype, x.dtype))
        return made.with_shape(x.shape[:-1]), made

    def numpy(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        def complex_eig(a: np.ndarray) -> tuple[np.ndarray, ...]:
            return tuple([y.astype(np.result_type(x, 1j)) for y in np.linalg.eig(a)])

        return each_matrix(complex_eig, x, finite=True)

    def on_cpu(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        values, vectors, failed = _eig_by_lapack(b, x, out, "V")
        return matrix_or_nan(b, failed, values, vectors)

    def on_cuda(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        values, vectors, failed = _eig_on_cuda(b, x, out, True)
        return matrix_or_nan(b, failed, values, vectors)

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        (values, vectors), (of_values, of_vectors) = out, g
        back = adjoint(vectors)
        terms = []
        if of_values is not None:
            terms.append(diagonal_matrix(of_values))
        if of_vectors is not None:
            inner = MatMul()(back, of_vectors)
            along = scaled_columns(MatMul()(back, vectors), diagonal(inner))
            terms.append((inner - along) * conjugate(reciprocal_column_row_differences(values)))
        made = Solve("C")(vectors, MatMul()(add_matrix_terms(terms), back))
        return [made if xs[0].type.dtype.is_complex else Real()(made)]

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        if ts[0] is None:
            return None, None
        values, vectors = out
        change = MatMul()(cast(ts[0], vectors.type.dtype), vectors)
        inner = Solve()(vectors, change)
        moved = MatMul()(vectors, inner * reciprocal_column_row_differences(values))
        along = diagonal(MatMul()(adjoint(vectors), moved))
        return diagonal(inner), moved - scaled_columns(vectors, along)

    @classmethod
    def samples(cls) -> Any:
        for shape in ((3, 3), (2, 4, 4), (0, 2, 2)):  # with real eigenvalues
            yield cls(), (real(*shape) / 4 + np.diag(3.0 * np.arange(shape[-1])),)


class Eigvals(MatrixKernel):
    """The eigenvalues of square matrices, which are complex."""

    factors = fixed_factor_rule("... _ _ -> ... _")

    def infer(self, x: Type) -> Type:
        return Eig().infer(x)[0]

    def numpy(self, x: np.ndarray) -> np.ndarray:
        def complex_eigvals(a: np.ndarray) -> np.ndarray:
            return np.linalg.eigvals(a).astype(np.result_type(x, 1j))

        return each_matrix(complex_eigvals, x, finite=True)

    def on_cpu(self, b: Any, out: Type, x: Any) -> Any:
        values, _, failed = _eig_by_lapack(b, x, Eig().infer(x.type), "N")
        return matrix_or_nan(b, failed, values)

    def on_cuda(self, b: Any, out: Type, x: Any) -> Any:
        values, _, failed = _eig_on_cuda(b, x, Eig().infer(x.type), False)
        return matrix_or_nan(b, failed, values)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return Eig().vjp((g, None), result_nodes(Eig()(xs[0])), xs, need)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return Eig().jvp(result_nodes(Eig()(xs[0])), xs, ts)[0]

    @classmethod
    def samples(cls) -> Any:
        yield from [(cls(), arrays) for _, arrays in Eig.samples()]
        yield cls(), (real(4, 4),)
        yield cls(), (complex_samples(2, 3, 3),)


def _eig_by_lapack(b: Any, x: Any, out: tuple[Type, Type], right: str) -> tuple[Any, Any, Any]:
    """Write LAPACK's call: eigenvalues, eigenvectors (if `right` is V), and failures."""
    x, bad = matrix_or_zero(b, x)
    values, vectors = out
    info, options = Type(x.shape[:-2], int32), {"compute_left": "N", "compute_right": right}
    if x.dtype.is_complex:
        types: tuple[Type, ...] = (values, vectors, vectors, info)
        found, _, made, failed = b.lapack("geev", x, out=types, **options)
    else:
        part = values.with_dtype(x.dtype)
        types = (part, part, vectors, vectors, info)
        re, im, _, made, failed = b.lapack("geev", x, out=types, **options)
        found = b.op("stablehlo.complex", re, im, out=values)
    return found, made, either_kernel_failed(b, failed, bad)


def _eig_on_cuda(b: Any, x: Any, out: tuple[Type, Type], right: bool) -> tuple[Any, Any, Any]:
    """The same with the CUDA plugin's routine, for complex matrices: of real ones it would pack
    each two conjugate eigenvectors into two real ones."""
    x, bad = matrix_or_zero(b, b.convert(x, out[1].dtype))
    values, vectors = out
    types = (vectors, values, vectors, vectors, Type(x.shape[:-2], int32))
    _, found, _, made, failed = b.cusolver("cusolver_geev", x, out=types, left=False, right=right)
    return found, made, either_kernel_failed(b, failed, bad)
