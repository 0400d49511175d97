"""Determinants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import int32
from pullback.graph.op_kinds import SparseCotangentsKind
from pullback.ops.elementwise.arithmetic import Abs, Sign
from pullback.ops.elementwise.complex_parts import Complex, Imag, Real
from pullback.ops.elementwise.exponential import Log
from pullback.ops.elementwise.functions import cast, equal, where
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.lu_solve_inverse import LU, Inverse, Solve
from pullback.ops.linalg.matrix_kernel import check_matrix_kernel_operands
from pullback.ops.linalg.matrix_rows_columns import diagonal
from pullback.ops.linalg.triangles_hermitian import on_diagonal
from pullback.ops.prelude import Composite, Node, Type, conjugate, constant_node, result_nodes
from pullback.ops.reduce.reductions import Prod, Sum
from pullback.ops.samples import complex_samples, diagonally_dominant, real
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.movement import Reshape


def trace(x: Node) -> Node:
    """Return the sum over the diagonal of matrices."""
    return Sum((x.type.rank - 2, x.type.rank - 1), False)(on_diagonal(x))


def determinants_as_matrices(x: Node) -> Node:
    """Return numbers as matrices with one element, which broadcast."""
    return Reshape((*x.type.shape, 1, 1))(x)


def determinant_pivots(x: Node) -> Node:
    """Return the diagonal of the LU factorization, negative for rows that were exchanged: its
    product is the determinant."""
    factors, exchanged = result_nodes(LU(columns=True)(x))
    pivots = diagonal(factors)
    stays = equal(exchanged, Iota(exchanged.type.shape, exchanged.type.rank - 1, int32)())
    return where(stays, pivots, -pivots)


class SlogDet(Composite, SparseCotangentsKind):
    """The sign of the determinant and the logarithm of its absolute value.

    The sign of a complex determinant is a number of absolute value 1. A singular matrix has the
    sign 0 and the logarithm minus infinity.
    """

    title = "slogdet"
    factors = fixed_factor_rule("... _ _ -> ..., ...")

    def infer(self, x: Type) -> tuple[Type, Type]:
        check_matrix_kernel_operands(self, x, square=True)
        number = x.with_shape(x.shape[:-2])
        return number, number.with_dtype(x.dtype.real)

    def expand(self, x: Node) -> tuple[Node, Node]:
        pivots = determinant_pivots(x)
        last = (pivots.type.rank - 1,)
        return Prod(last, False)(Sign()(pivots)), Sum(last, False)(Log()(Abs()(pivots)))

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        (x,), (of_sign, of_size) = xs, g
        if x.type.dtype.is_complex:
            turn = None if of_sign is None else -Imag()(conjugate(of_sign) * out[0])
            of_size = constant_node(0, x.type.dtype.real) if of_size is None else of_size
            scale = cast(of_size, x.type.dtype) if turn is None else Complex()(of_size, turn)
        elif of_size is None:
            return [None]
        else:
            scale = of_size
        return [determinants_as_matrices(scale) * adjoint(Inverse()(x))]

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        if ts[0] is None:
            return None, None
        change = trace(Solve()(xs[0], ts[0]))
        if not xs[0].type.dtype.is_complex:
            return None, change
        turn = Imag()(change)
        return Complex()(turn * 0, turn) * out[0], Real()(change)

    @classmethod
    def samples(cls) -> Any:
        for x in (real(2, 4, 4), complex_samples(3, 3)):
            yield cls(), (diagonally_dominant(x) * np.where(np.arange(x.shape[-1]), 1, -1),)
        for shape in ((0, 2, 2), (2, 0, 0)):
            yield cls(), (real(*shape),)
