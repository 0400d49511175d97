"""The LU factorization with row exchanges, and systems of linear equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import int32
from pullback.ops.elementwise.functions import equal, where
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.linear_solve import LinearSolve
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import (
    MatrixKernel,
    RealMatrixKernel,
    check_matrix_kernel_operands,
    matrix_kernel_transpose,
    matrix_kernel_transposed_type,
)  # fmt: skip
from pullback.ops.linalg.matrix_rows_columns import diagonal, swap_rows_columns
from pullback.ops.linalg.permutation import PivotPermutation, ReorderRows
from pullback.ops.linalg.triangles_hermitian import (  # fmt: skip
    eye_like,
    lower_triangle,
    upper_triangle,
)
from pullback.ops.linalg.triangular_solve import TriangularSolve
from pullback.ops.prelude import Composite, Node, Type, constant_node, result_nodes
from pullback.ops.reduce.reductions import Any_
from pullback.ops.samples import complex_samples, diagonally_dominant, real
from pullback.ops.shape.concat_pad import Concat, Pad
from pullback.ops.shape.movement import Broadcast, Reshape
from pullback.ops.shape.slicing import Slice

LARGE = 384  # rows of a matrix whose inverse is found in blocks


class LU(MatrixKernel, RealMatrixKernel):
    """The factors of a matrix whose rows were exchanged, and the exchanges.

    The first result has the upper triangular factor in its upper triangle and the lower triangular
    one, whose diagonal is 1, below. Row i was exchanged with row pivots[i], in order; pivots are
    i32 and count from 0. A singular matrix has a zero on the diagonal. With `columns`, columns were
    exchanged, and the upper triangular factor has the diagonal of ones.
    """

    columns: bool = (
        False  # this is faster: kernels take matrices by columns, so transposes are free
    )
    title = "lu"
    factors = fixed_factor_rule("... _ _ -> ... _ _, ... _")

    def infer(self, x: Type) -> tuple[Type, Type]:
        check_matrix_kernel_operands(self, x)
        return x, x.with_shape((*x.shape[:-2], min(x.shape[-2:]))).with_dtype(int32)

    def numpy(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from scipy.linalg.lapack import get_lapack_funcs  # heavy

        factors = np.empty(x.shape, x.dtype)
        pivots = np.empty((*x.shape[:-2], min(x.shape[-2:])), np.int32)
        getrf = get_lapack_funcs("getrf", (x,))
        for i in np.ndindex(x.shape[:-2]) if x.size else ():
            made, pivots[i], _ = getrf(x[i].T if self.columns else x[i])
            factors[i] = made.T if self.columns else made
        return factors, pivots

    def on_cpu(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        types = (*out, Type(x.shape[:-2], int32))
        if not self.columns or x.shape[-2] == x.shape[-1]:
            found = b.lapack("getrf", x, out=types, by_rows=self.columns, in_place=True)
            return self._counted_from_0(b, *found)
        types = (matrix_kernel_transposed_type(x.type), *types[1:])
        found = b.lapack("getrf", matrix_kernel_transpose(b, x), out=types, in_place=True)
        return self._counted_from_0(b, matrix_kernel_transpose(b, found[0]), *found[1:])

    def on_cuda(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        small = b.small_matrix_kernel("lu", x, out=out, columns=self.columns)
        if small is not None:
            return small
        types = (*out, Type(x.shape[:-2], int32))
        if self.columns:
            types = (matrix_kernel_transposed_type(x.type), *types[1:])
            found = b.cusolver("cusolver_getrf", matrix_kernel_transpose(b, x), out=types)
            return self._counted_from_0(b, matrix_kernel_transpose(b, found[0]), *found[1:])
        return self._counted_from_0(b, *b.cusolver("cusolver_getrf", x, out=types))

    def real_kernel(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        return b.matrix_kernel("lu", x, out=out, flags=int(self.columns))

    def _counted_from_0(self, b: Any, factors: Any, pivots: Any, info: Any) -> Any:
        one = b.full(pivots.type, 1)
        return factors, b.op("stablehlo.subtract", pivots, one, out=pivots.type)

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        if self.columns:
            (found,) = LU().vjp(
                (swap_rows_columns(g[0]), None),
                (swap_rows_columns(out[0]), out[1]),
                (swap_rows_columns(xs[0]),),
                need,
            )
            return [swap_rows_columns(found)]
        factors, pivots = out
        lower, upper = _lu_parts(factors)
        unit = lower_triangle(lower, strict=True) + eye_like(lower.type)
        inner = lower_triangle(MatMul()(adjoint(unit), g[0]), strict=True)
        inner = inner + upper_triangle(MatMul()(g[0], adjoint(upper_triangle(upper))))
        inner = TriangularSolve(True, "C", True)(lower, inner)
        inner = adjoint(TriangularSolve(False, "N")(upper, adjoint(inner)))
        rows = PivotPermutation(factors.type.shape[-2])(pivots)
        return [ReorderRows(inverse=True)(inner, rows)]

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        if ts[0] is None:
            return None, None
        if self.columns:
            found, _ = LU().jvp(
                (swap_rows_columns(out[0]), out[1]),
                (swap_rows_columns(xs[0]),),
                (swap_rows_columns(ts[0]),),
            )
            return swap_rows_columns(found), None
        factors, pivots = out
        lower, upper = _lu_parts(factors)
        moved = ReorderRows()(ts[0], PivotPermutation(factors.type.shape[-2])(pivots))
        inner = TriangularSolve(True, "N", True)(lower, moved)
        inner = adjoint(TriangularSolve(False, "C")(upper, adjoint(inner)))
        unit = lower_triangle(lower, strict=True) + eye_like(lower.type)
        below = MatMul()(unit, lower_triangle(inner, strict=True))
        return below + MatMul()(upper_triangle(inner), upper_triangle(upper)), None

    @classmethod
    def samples(cls) -> Any:
        for shape in ((3, 3), (2, 4, 3), (2, 4), (0, 3), (0, 2, 2)):
            yield cls(), (real(*shape),)
        yield cls(), (complex_samples(2, 3, 3),)
        for x in (real(3, 3), complex_samples(2, 2, 3)):
            yield cls(True), (x,)


class Solve(LinearSolve, Composite, RealMatrixKernel):
    """The solution x of op(a) x = b, by an LU factorization.

    op is the matrix itself (`trans` is N), its transpose (T) or its adjoint (C). A singular matrix
    gives NaN.
    """

    trans: str = "N"
    infer = LinearSolve.infer
    vjp, jvp, batch = LinearSolve.vjp, LinearSolve.jvp, LinearSolve.batch  # type: ignore

    def expand(self, a: Node, b: Node) -> Node:
        factors, pivots = result_nodes(LU(columns=True)(a))
        n = a.type.shape[-1]
        if self.trans == "N":
            found = TriangularSolve(False, "N", True)(factors, TriangularSolve(True)(factors, b))
            found = ReorderRows()(found, PivotPermutation(n, inverse=True)(pivots))
        else:
            found = ReorderRows()(b, PivotPermutation(n)(pivots))
            found = TriangularSolve(False, self.trans, True)(factors, found)
            found = TriangularSolve(True, self.trans)(factors, found)
        return _lu_or_singular(found, factors)

    def real_kernel(self, b: Any, out: Type, a: Any, rhs: Any) -> Any:
        factors, pivots = _lu_factored(b, a)
        trans = "N" if self.trans == "N" else "T"
        return b.matrix_kernel("lu_solve", factors, pivots, rhs, out=out, flags=ord(trans))

    def on_cuda(self, b: Any, out: Type, a: Any, rhs: Any) -> Any:
        return b.small_matrix_kernel("solve", a, rhs, out=out, transposed=self.trans != "N")

    @classmethod
    def samples(cls) -> Any:
        for trans in ("N", "T", "C"):
            a, b = diagonally_dominant(complex_samples(2, 3, 3)), complex_samples(2, 3, 2, salt=1)
            yield cls(trans), (a, b)
        for batch, n, k in (((), 3, 2), ((), 0, 2), ((2,), 1, 0)):
            yield cls(), (diagonally_dominant(real(*batch, n, n)), real(*batch, n, k, salt=1))


class Inverse(Composite, RealMatrixKernel):
    """The inverse of square matrices; that of a singular one is NaN."""

    factors = fixed_factor_rule("... _ _ -> ... _ _")

    def infer(self, x: Type) -> Type:
        check_matrix_kernel_operands(self, x, square=True)
        return x

    def expand(self, x: Node) -> Node:
        n = x.type.shape[-1]
        if n < LARGE:
            # The identity's rows are reordered before the systems are solved, not the result's.
            return swap_rows_columns(Solve("T")(x, _lu_identities(x.type.shape[:-1], x.type)))
        factors, pivots = result_nodes(LU(columns=True)(x))
        found = TriangularSolve(False, "N", True)(factors, _lu_lower_inverse(factors))
        found = ReorderRows()(found, PivotPermutation(n, inverse=True)(pivots))
        return _lu_or_singular(found, factors)

    def real_kernel(self, b: Any, out: Type, x: Any) -> Any:
        return b.matrix_kernel("lu_inverse", *_lu_factored(b, x), out=out)

    def on_cuda(self, b: Any, out: Type, x: Any) -> Any:
        return b.small_matrix_kernel("inverse", x, out=out)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        back = adjoint(out)
        return [-MatMul()(MatMul()(back, g), back)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else -MatMul()(MatMul()(out, ts[0]), out)

    @classmethod
    def samples(cls) -> Any:
        for x in (real(3, 3), complex_samples(2, 2, 2), real(0, 2, 2)):
            yield cls(), (diagonally_dominant(x),)


def _lu_factored(b: Any, x: Any) -> Any:
    """Write the factors and pivots, in a call that XLA computes once if several ops write it."""
    op = LU(columns=True)
    return op.real_kernel(b, op.infer(x.type), x)


def _lu_or_singular(found: Node, factors: Node) -> Node:
    """Return what was found, or NaN for matrices whose factors have a zero on the diagonal."""
    pivot = diagonal(factors)
    singular = Any_((pivot.type.rank - 1,), True)(equal(pivot, 0))
    return where(Reshape((*singular.type.shape, 1))(singular), np.nan, found)


def _lu_identities(shape: Sequence[int], x: Type) -> Node:
    """Return identity matrices of the dtype of x; the shape has one of their two dimensions."""
    return Broadcast((*shape, shape[-1]))(eye_like(x.with_shape(tuple(shape))))


def _lu_lower_inverse(x: Node) -> Node:
    """Return the inverse of the lower triangle of large matrices.

    In blocks [[a, 0], [b, c]] it is [[1/a, 0], [-1/c b 1/a, 1/c]], for which LAPACK solves systems
    of half the size: it does not know that half of the identity is 0.
    """
    *batch, n, _ = x.type.shape
    rank, zero, half = len(batch) + 2, (0,) * len(batch), n // 2
    a, b, c = (
        Slice((*zero, *start), (*batch, *stop), (1,) * rank)(x)
        for start, stop in (((0, 0), (half, half)), ((half, 0), (n, half)), ((half, half), (n, n)))
    )
    first = TriangularSolve(True)(a, _lu_identities((*batch, half), x.type))
    rest = _lu_identities((*batch, n - half), x.type)
    below = Concat(rank - 1)(-MatMul()(b, first), rest)
    above = Pad((*zero, 0, 0), (*zero, 0, n - half), (0,) * rank)(
        first, constant_node(0, x.type.dtype)
    )
    return Concat(rank - 2)(above, TriangularSolve(True)(c, below))


def _lu_parts(factors: Node) -> tuple[Node, Node]:
    """Return square matrices with the lower factor below the diagonal, and with the upper factor.

    Those of a wide or tall matrix are completed by rows and columns of the identity.
    """
    *batch, m, n = factors.type.shape
    if m == n:
        return factors, factors
    least, rank, zero = min(m, n), len(batch) + 2, constant_node(0, factors.type.dtype)
    steps, none = (1,) * rank, (0,) * rank
    lower = Slice(none, (*batch, m, least), steps)(factors)
    lower = Pad(none, (*none[2:], 0, m - least), none)(lower, zero)
    upper = Slice(none, (*batch, least, n), steps)(factors)
    upper = Pad(none, (*none[2:], n - least, 0), none)(upper, zero)
    if n > least:
        corner = Slice((least, 0), (n, n), (1, 1))(eye_like(upper.type))
        upper = upper + Pad((least, 0), (0, 0), (0, 0))(corner, zero)
    return lower, upper
