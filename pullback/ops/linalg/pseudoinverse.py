"""The pseudoinverse of matrices of any rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.ops.elementwise.functions import cast, greater, where
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import check_matrix_kernel_operands
from pullback.ops.linalg.svd import SVD
from pullback.ops.prelude import Axis, Composite, Node, Type, result_nodes, spread_all, zeros
from pullback.ops.reduce.extrema import Max
from pullback.ops.samples import complex_samples, real
from pullback.ops.shape.squeeze_flip_axes import ExpandDims


class PseudoInverse(Composite):
    """The pseudoinverse of matrices; the second operand says which singular values count as 0.

    These are the ones that are at most so many times the largest: one real number for each matrix.

    The derivative is that among matrices of the same rank. Elsewhere the pseudoinverse jumps.
    """

    title = "pinv"
    factors = fixed_factor_rule("... _ _, ... -> ... _ _")

    def infer(self, x: Type, tolerance: Type) -> Type:
        check_matrix_kernel_operands(self, x)
        *lead, m, n = x.shape
        wanted = Type(tuple(lead), x.dtype.real)
        if tolerance != wanted:
            raise ShapeError(f"needs tolerances {wanted} for {x}, got {tolerance}", code="E3001")
        return x.with_shape((*lead, n, m))

    def expand(self, x: Node, tolerance: Node) -> Node:
        rank = x.type.rank
        if 0 in x.type.shape[-2:]:
            return zeros(self.infer(x.type, tolerance.type))
        left, values, right = result_nodes(SVD()(x))
        limit = ExpandDims((rank - 2,))(tolerance) * Max((rank - 2,), True)(values)
        counts = greater(values, limit)
        inverse = where(counts, 1 / where(counts, values, 1), 0)
        scaled = adjoint(right) * cast(ExpandDims((rank - 2,))(inverse), x.type.dtype)
        return MatMul()(scaled, adjoint(left))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, p, product = xs[0], out, MatMul()
        to, back = adjoint(g), adjoint(p)
        first = product(product(back, g), back)
        inner = product(product(back, p), to)
        second = inner - product(product(inner, p), x)
        outer = product(product(to, p), back)
        third = outer - product(x, product(p, outer))
        return [second + third - first, None]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        x, t, p, product = xs[0], ts[0], out, MatMul()
        if t is None:
            return None
        to, back = adjoint(t), adjoint(p)
        first = product(product(p, t), p)
        inner = product(product(to, back), p)
        second = inner - product(p, product(x, inner))
        outer = product(product(p, back), to)
        third = outer - product(product(outer, x), p)
        return second + third - first

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        for x in (real(3, 2), real(2, 2, 3), complex_samples(3, 2), real(2, 0), real(0, 2, 2)):
            yield cls(), (x, np.full(x.shape[:-2], 1e-3))
