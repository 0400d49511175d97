"""The QR factorization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import int32
from pullback.graph.op_kinds import SparseCotangentsKind
from pullback.ops.elementwise.complex_parts import Complex, Imag
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import (
    MatrixKernel,
    RealMatrixKernel,
    check_matrix_kernel_operands,
)
from pullback.ops.linalg.matrix_rows_columns import (
    add_matrix_terms,
    columns,
    padded_matrix_columns,
    padded_matrix_rows,
    rows,
)
from pullback.ops.linalg.triangles_hermitian import lower_triangle, on_diagonal
from pullback.ops.linalg.triangular_solve import TriangularSolve
from pullback.ops.prelude import Node, Type
from pullback.ops.samples import complex_samples, real
from pullback.ops.shape.concat_pad import Concat


class QR(MatrixKernel, RealMatrixKernel, SparseCotangentsKind):
    """The factors q, with orthonormal columns, and r, upper triangular, of x = q r.

    q has as many columns as x has rows or columns, whichever are fewer, or with `complete` as many
    as rows. The columns that are added then are not unique; their derivative has no part in
    each other's direction. If the first columns of x are linearly dependent, the derivative is not
    finite.
    """

    complete: bool = False
    title = "qr"
    factors = fixed_factor_rule("... _ _ -> ... _ _, ... _ _")

    def infer(self, x: Type) -> tuple[Type, Type]:
        check_matrix_kernel_operands(self, x)
        *batch, m, n = x.shape
        size = m if self.complete else min(m, n)
        return x.with_shape((*batch, m, size)), x.with_shape((*batch, size, n))

    def numpy(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.linalg.qr(x, "complete" if self.complete else "reduced"))

    def on_cpu(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        return _qr_by_householder(b, out, x, b.lapack, "geqrf", "orgqr")

    def on_cuda(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        return _qr_by_householder(b, out, x, b.cusolver, "cusolver_geqrf", "cusolver_orgqr")

    def real_kernel(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        return b.matrix_kernel("qr", x, out=out)

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        # From the forward rule backwards: x = q r changes r by `inner`, and q by `turn`, which are
        # parts of the change of x times the inverse of r (`pulled` is its cotangent).
        (q, r), (of_q, of_r) = out, g
        *_, m, n = xs[0].type.shape
        least = min(m, n)
        first, head = columns(q, 0, least), rows(r, 0, least)
        of_turn: list[Node] = []
        of_inner: list[Node] = []
        pulled: list[Node] = []
        of_x: list[Node] = []
        if of_q is not None:
            of_first = columns(of_q, 0, least)
            of_turn.append(MatMul()(adjoint(first), of_first))
            if m > least:
                pulled.append(of_first)
                of_inner.append(-of_turn[0])
            if q.type.shape[-1] > least:
                rest, of_rest = (columns(v, least, m) for v in (q, of_q))
                pulled.append(-MatMul()(MatMul()(rest, adjoint(of_rest)), first))
        if of_r is not None:
            of_head = rows(of_r, 0, least)
            of_x.append(MatMul()(first, of_head))
            of_turn.append(-MatMul()(of_head, adjoint(head)))
        of_inner.append(_qr_antihermitian_pull(add_matrix_terms(of_turn)))
        pulled.append(MatMul()(first, add_matrix_terms(of_inner)))
        corner = columns(head, 0, least)
        of_columns = adjoint(TriangularSolve(False, "N")(corner, adjoint(add_matrix_terms(pulled))))
        return [add_matrix_terms([*of_x, padded_matrix_columns(of_columns, n)])]

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        if ts[0] is None:
            return None, None
        (q, r), t = out, ts[0]
        *_, m, n = t.type.shape
        least = min(m, n)
        first, head = columns(q, 0, least), rows(r, 0, least)
        corner = columns(head, 0, least)
        change = adjoint(TriangularSolve(False, "C")(corner, adjoint(columns(t, 0, least))))
        inner = MatMul()(adjoint(first), change)
        turn = _qr_antihermitian(inner)
        of_q = MatMul()(first, turn)
        if m > least:
            of_q = of_q + (change - MatMul()(first, inner))
        if q.type.shape[-1] > least:
            rest = columns(q, least, m)
            of_rest = -MatMul()(first, MatMul()(adjoint(change), rest))
            of_q = Concat(q.type.rank - 1)(of_q, of_rest)
        of_r = MatMul()(adjoint(first), t) - MatMul()(turn, head)
        return of_q, padded_matrix_rows(of_r, r.type.shape[-2])

    @classmethod
    def samples(cls) -> Any:
        for shape in ((2, 4, 3), (2, 4), (0, 2), (0, 3, 2)):
            yield cls(), (real(*shape),)
        for shape in ((4, 3), (2, 2, 3), (3, 0)):
            yield cls(True), (real(*shape),)
        for shape in ((2, 3, 3), (4, 2), (2, 3)):
            yield cls(), (complex_samples(*shape),)


def _qr_antihermitian(x: Node) -> Node:
    """Return the antihermitian matrix with the lower triangle of x; its diagonal is imaginary."""
    low = lower_triangle(x, strict=True)
    made = low - adjoint(low)
    return made + _qr_imaginary_diagonal(x) if x.type.dtype.is_complex else made


def _qr_antihermitian_pull(g: Node) -> Node:
    """Return the adjoint of `_qr_antihermitian`."""
    made = lower_triangle(g - adjoint(g), strict=True)
    return made + _qr_imaginary_diagonal(g) if g.type.dtype.is_complex else made


def _qr_imaginary_diagonal(x: Node) -> Node:
    part = on_diagonal(Imag()(x))
    return Complex()(part * 0, part)


def _qr_by_householder(
    b: Any, out: tuple[Type, Type], x: Any, call: Any, factorize: str, generate: str
) -> tuple[Any, Any]:
    """Write the factorization into reflections, and the product of the reflections."""
    left, right = out
    *batch, m, n = x.shape
    least, size = min(m, n), left.shape[-1]
    scales = x.type.with_shape((*batch, least))
    packed, taus = call(factorize, x, out=(x.type, scales))
    zero = [0] * len(batch)
    top = hlo_slice_instruction(b, packed, [*zero, 0, 0], [*batch, *right.shape[-2:]])
    r, c = (b.iota(right.shape, int32, len(batch) + d) for d in (0, 1))
    upper = b.select(b.compare("LE", r, c), top, b.full(right, 0))
    vectors = hlo_slice_instruction(b, packed, [*zero, 0, 0], [*batch, m, least])
    if size > least:
        vectors = b.op(
            "stablehlo.pad", vectors, b.constant(0, x.dtype), out=left,
            edge_padding_low=(*zero, 0, 0), edge_padding_high=(*zero, 0, size - least),
            interior_padding=(*zero, 0, 0),
        )  # fmt: skip
    (q,) = call(generate, vectors, taus, out=(left,))
    return q, upper
