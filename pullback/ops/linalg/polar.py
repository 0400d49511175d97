"""The unitary factor of the polar decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.errors import ShapeError
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.lu_solve_inverse import Solve
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import check_matrix_kernel_operands
from pullback.ops.linalg.matrix_rows_columns import swap_rows_columns
from pullback.ops.linalg.svd import SVD
from pullback.ops.linalg.sylvester import Sylvester
from pullback.ops.linalg.triangles_hermitian import hermitian_part
from pullback.ops.prelude import Axis, Composite, Node, Type, result_nodes
from pullback.ops.samples import complex_samples, real


class UnitaryFactor(Composite):
    """The matrix u with orthonormal columns for which x is u times a positive semidefinite matrix;
    x has at least as many rows as columns.

    It is smooth where x has full rank, also where singular values are equal, so its derivative is
    not that of its singular vectors.
    """

    factors = fixed_factor_rule("... _ _ -> ... _ _")

    def infer(self, x: Type) -> Type:
        check_matrix_kernel_operands(self, x)
        if x.shape[-2] < x.shape[-1]:
            what = f"needs at least as many rows as columns, got {x}"
            raise ShapeError(what, code="E3003", extents=x.shape[-2:])
        return x

    def expand(self, x: Node) -> Node:
        if 0 in x.type.shape:
            return x
        u, _, vh = result_nodes(SVD()(x))
        return MatMul()(u, vh)

    # With p the Hermitian factor, du is u w plus the part of dx p^-1 that is orthogonal to u, where
    # w solves p w + w p = u* dx - dx* u.

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        t = ts[0]
        if t is None:
            return None
        p, inner = _hermitian_polar_factor(out, xs[0]), MatMul()(adjoint(out), t)
        made = MatMul()(out, Sylvester()(p, p, inner - adjoint(inner)))
        return made + _outside_polar_factor(out, p, t)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        p = _hermitian_polar_factor(out, xs[0])
        inner = Sylvester()(p, p, MatMul()(adjoint(out), g))
        return [MatMul()(out, inner - adjoint(inner)) + _outside_polar_factor(out, p, g)]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*xs)

    @classmethod
    def samples(cls) -> Any:
        for x in (real(2, 3, 3), complex_samples(3, 2), real(0, 0), real(0, 3, 2)):
            yield cls(), (x,)


def _hermitian_polar_factor(u: Node, x: Node) -> Node:
    return hermitian_part(MatMul()(adjoint(u), x))


def _outside_polar_factor(u: Node, p: Node, t: Node) -> Node:
    """Return the part of t that is orthogonal to u, times the inverse of p."""
    if u.type.shape[-2] == u.type.shape[-1]:
        return t * 0
    rest = t - MatMul()(u, MatMul()(adjoint(u), t))
    return swap_rows_columns(Solve("T")(p, swap_rows_columns(rest)))
