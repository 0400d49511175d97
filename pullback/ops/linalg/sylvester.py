"""The Sylvester equation a x + x b = c, which derivatives of functions of matrices solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.errors import ShapeError
from pullback.graph.dtypes import complex128, float64
from pullback.ops.elementwise.complex_parts import Real
from pullback.ops.elementwise.functions import cast
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint, contraction_column
from pullback.ops.linalg.eig import Eig
from pullback.ops.linalg.lu_solve_inverse import Solve
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import check_matrix_kernel_operands
from pullback.ops.linalg.matrix_rows_columns import as_row, swap_rows_columns
from pullback.ops.linalg.triangles_hermitian import eye_like
from pullback.ops.prelude import Axis, Composite, Node, Type, result_nodes, spread_all
from pullback.ops.samples import complex_samples, diagonally_dominant, real
from pullback.ops.shape.movement import Reshape

LARGEST = 1024  # unknowns of a system that is solved as it is


class Sylvester(Composite):
    """The solution x of a x + x b = c; NaN or infinite if an eigenvalue of a is one of -b.

    Up to 1,024 unknowns are found by an LU factorization of the whole system. Larger equations are
    transformed to diagonal ones by eigenvectors, and corrected once: matrices without a full set
    of eigenvectors are beyond that.
    """

    factors = fixed_factor_rule("... _ _, ... _ _, ... _ _ -> ... _ _")

    def infer(self, a: Type, b: Type, c: Type) -> Type:
        check_matrix_kernel_operands(self, a, b, c, square=True)
        m, n = a.shape[-1], b.shape[-1]
        if b.shape[-2] != n or c.shape != (*a.shape[:-2], m, n) or a.shape[:-2] != b.shape[:-2]:
            what = f"needs square a and b, and c with the rows of a and columns of b, got {a}, {b}"
            raise ShapeError(f"{what} and {c}", code="E3003")
        return c

    def expand(self, a: Node, b: Node, c: Node) -> Node:
        if 0 in c.type.shape:
            return c
        small = a.type.shape[-1] * b.type.shape[-1] <= LARGEST
        solve = _sylvester_system if small else _sylvester_eigenvectors
        wide = complex128 if c.type.dtype.is_complex else float64
        return cast(solve(*[cast(x, wide) for x in (a, b, c)]), c.type.dtype)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        y = self(adjoint(xs[0]), adjoint(xs[1]), g)
        x = adjoint(out)
        return [-MatMul()(y, x) if need[0] else None, -MatMul()(x, y) if need[1] else None, y]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        a, b, t = ts
        for change in (
            None if a is None else MatMul()(a, out), None if b is None else MatMul()(out, b)
        ):  # fmt: skip
            if change is not None:
                t = -change if t is None else t - change
        return None if t is None else self(xs[0], xs[1], t)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        for make, lead, m, n in (
            (real, (2,), 3, 2),
            (complex_samples, (), 2, 3),
            (real, (0,), 2, 2),
        ):
            a, b = (diagonally_dominant(make(*lead, k, k, salt=k)) for k in (m, n))
            yield cls(), (a, b, make(*lead, m, n, salt=5))


def _sylvester_system(a: Node, b: Node, c: Node) -> Node:
    """Solve for the columns of x as one vector: (1 kron a + b.T kron 1) x = c."""
    *batch, m, n = c.type.shape
    left = Reshape((*batch, 1, m, 1, m))(a) * Reshape((n, 1, n, 1))(eye_like(b.type))
    right = Reshape((*batch, n, 1, n, 1))(swap_rows_columns(b)) * Reshape((1, m, 1, m))(
        eye_like(a.type)
    )
    matrix = Reshape((*batch, m * n, m * n))(left + right)
    found = Solve()(matrix, Reshape((*batch, m * n, 1))(swap_rows_columns(c)))
    return swap_rows_columns(Reshape((*batch, n, m))(found))


def _sylvester_eigenvectors(a: Node, b: Node, c: Node) -> Node:
    (of_a, u), (of_b, v) = result_nodes(Eig()(a)), result_nodes(Eig()(b))
    sums = contraction_column(of_a) + as_row(of_b)

    def solved(c: Node) -> Node:
        inner = Solve()(u, MatMul()(cast(c, complex128), v)) / sums
        made = swap_rows_columns(Solve("T")(v, swap_rows_columns(MatMul()(u, inner))))
        return made if c.type.dtype.is_complex else Real()(made)

    x = solved(c)
    return x + solved(c - MatMul()(a, x) - MatMul()(x, b))
