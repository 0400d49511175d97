"""Triangles, diagonals and Hermitian matrices, as formulas over nodes and as StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.graph.dtypes import int32
from pullback.ops.elementwise.complex_parts import Real
from pullback.ops.elementwise.functions import cast, equal, greater, greater_equal, where
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.matrix_kernel import check_matrix_kernel_operands
from pullback.ops.prelude import Node, Type
from pullback.ops.samples import complex_samples, real
from pullback.ops.shape.iota import Iota
from pullback.ops.wrap.identity import IdentityOp


def triangle_rows_and_columns(shape: Sequence[int]) -> tuple[Node, Node]:
    """Return the row and the column of each element of matrices."""
    matrix = tuple(shape[-2:])
    return Iota(matrix, 0, int32)(), Iota(matrix, 1, int32)()


def lower_triangle(x: Node, strict: bool = False) -> Node:
    """Return the lower triangle of matrices, with or without the diagonal."""
    rows, columns = triangle_rows_and_columns(x.type.shape)
    return where((greater if strict else greater_equal)(rows, columns), x, 0)


def upper_triangle(x: Node, strict: bool = False) -> Node:
    """Return the upper triangle of matrices, with or without the diagonal."""
    rows, columns = triangle_rows_and_columns(x.type.shape)
    return where((greater if strict else greater_equal)(columns, rows), x, 0)


def triangle(x: Node, lower: bool, strict: bool = False) -> Node:
    return (lower_triangle if lower else upper_triangle)(x, strict)


def on_diagonal(x: Node) -> Node:
    """Return matrices with everything off the diagonal replaced by 0."""
    return where(equal(*triangle_rows_and_columns(x.type.shape)), x, 0)


def off_diagonal(x: Node) -> Node:
    """Return matrices with the diagonal replaced by 0."""
    return where(equal(*triangle_rows_and_columns(x.type.shape)), 0, x)


def eye_like(x: Type) -> Node:
    """Return an identity matrix of the dtype, with the last dimension's size."""
    n = x.shape[-1]
    rows, columns = triangle_rows_and_columns((n, n))
    return cast(equal(rows, columns), x.dtype)


def lower_triangle_half_diagonal(x: Node) -> Node:
    """Return the lower triangle with half the diagonal: with its adjoint, it adds up to x if x is
    Hermitian."""
    low = lower_triangle(x)
    return low - on_diagonal(x) * 0.5


def real_diagonal(x: Node) -> Node:
    """Return the diagonal's real part as a matrix."""
    return cast(on_diagonal(Real()(x)), x.type.dtype)


def mirrored(x: Node) -> Node:
    """Return the Hermitian matrix that the lower triangle states; the diagonal is made real."""
    part = lower_triangle(x, strict=True)
    return part + adjoint(part) + real_diagonal(x)


def unmirrored_triangle(g: Node) -> Node:
    """Return the adjoint of `mirrored`: the cotangent of the triangle."""
    return lower_triangle(g + adjoint(g), strict=True) + real_diagonal(g)


def hermitian_part(x: Node) -> Node:
    """Return (x + adjoint of x) / 2."""
    return (x + adjoint(x)) * 0.5


class Hermitian(IdentityOp):
    """Returns its operand, of which one triangle will be read as a Hermitian matrix.

    Its derivative is that of (x + adjoint of x) / 2, so gradients of functions of a Hermitian
    matrix are Hermitian too: they do not depend on which triangle is read.
    """

    factors = fixed_factor_rule("... _ _ -> ... _ _")

    def infer(self, x: Type) -> Type:
        check_matrix_kernel_operands(self, x, square=True)
        return x

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [hermitian_part(g)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else hermitian_part(ts[0])

    @classmethod
    def samples(cls) -> Any:
        yield from [(cls(), (x,)) for x in (real(3, 3), complex_samples(2, 3, 3), real(0, 2, 2))]
