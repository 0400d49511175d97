"""Determinants, and their derivatives: cofactors.

All derivatives of a determinant exist at singular matrices too, where formulas with the inverse do
not. There they are computed from the singular value decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import int32
from pullback.graph.graph import Graph
from pullback.ops.elementwise.arithmetic import Abs
from pullback.ops.elementwise.functions import cast, either, equal, less_equal, where
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.determinant import determinant_pivots, determinants_as_matrices, trace
from pullback.ops.linalg.lu_solve_inverse import Inverse
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import check_matrix_kernel_operands
from pullback.ops.linalg.matrix_rows_columns import (
    as_column,
    diagonal,
    diagonal_matrix,
    scaled_columns,
    swap_rows_columns,
)
from pullback.ops.linalg.svd import SVD
from pullback.ops.linalg.triangles_hermitian import off_diagonal
from pullback.ops.prelude import (
    TABLE,
    Axis,
    Composite,
    Node,
    Type,
    conjugate,
    constant_node,
    result_nodes,
    spread_all,
)
from pullback.ops.reduce.extrema import Max, Min
from pullback.ops.reduce.reductions import Any_, Prod, Sum
from pullback.ops.samples import complex_samples, diagonally_dominant, real
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.movement import Reshape


class Det(Composite):
    """The determinant of square matrices."""

    factors = fixed_factor_rule("... _ _ -> ...")

    def infer(self, x: Type) -> Type:
        check_matrix_kernel_operands(self, x, square=True)
        return x.with_shape(x.shape[:-2])

    def expand(self, x: Node) -> Node:
        pivots = determinant_pivots(x)
        return Prod((pivots.type.rank - 1,), False)(pivots)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [determinants_as_matrices(g) * conjugate(Cofactors()(xs[0]))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        if ts[0] is None:
            return None
        rank = ts[0].type.rank
        return Sum((rank - 2, rank - 1), False)(Cofactors()(xs[0]) * ts[0])

    @classmethod
    def samples(cls) -> Any:
        yield from [(cls(), (x,)) for x in cofactor_samples()]
        yield from [(cls(), (real(*shape),)) for shape in ((2, 4, 4), (1, 1), (2, 0, 0))]


class Cofactors(Composite):
    """The matrix of cofactors: the derivative of the determinant by each element."""

    factors = fixed_factor_rule("... _ _ -> ... _ _")

    def infer(self, x: Type) -> Type:
        check_matrix_kernel_operands(self, x, square=True)
        return x

    def expand(self, x: Node) -> Node:
        return _cofactors_unless_singular(_cofactors, _cofactors_by_svd, 0.0, x)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [conjugate(CofactorChange()(xs[0], conjugate(g)))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else CofactorChange()(xs[0], ts[0])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Any:
        return self(*xs)

    @classmethod
    def samples(cls) -> Any:
        yield from [(cls(), (x,)) for x in cofactor_samples()]


class CofactorChange(Composite):
    """The derivative of the cofactors of the first operand in the direction of the second."""

    factors = fixed_factor_rule("... _ _, ... _ _ -> ... _ _")

    def infer(self, x: Type, t: Type) -> Type:
        check_matrix_kernel_operands(self, x, t, square=True)
        return x

    def expand(self, x: Node, t: Node) -> Node:
        # The formula with inverses loses digits long before a matrix is singular.
        bound = float(np.finfo(x.dtype.real.numpy).eps) ** 0.25
        return _cofactors_unless_singular(_cofactor_change, _cofactor_change_by_svd, bound, x, t)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Any:
        return self(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        for x in cofactor_samples():
            t = complex_samples(*x.shape, salt=1) if np.iscomplexobj(x) else real(*x.shape, salt=1)
            yield cls(), (x, t)


def cofactor_samples() -> Any:
    yield real(0, 2, 2)  # the first sample is tried in most ways, and this one compiles fast
    yield diagonally_dominant(complex_samples(2, 2, 2))
    yield np.array([[1.0, 2.0, 3.0], [2.0, 5.0, 4.0], [3.0, 6.0, 9.0]])  # of rank 2


def _cofactors_unless_singular(
    regular: Callable, singular: Callable, bound: float, *xs: Node
) -> Node:
    """Return `regular(*xs)`, or `singular(*xs)` if the smallest pivot of the first operand, or of
    one matrix of a stack, is at most `bound` times the largest."""
    if 0 in xs[0].type.shape:
        return xs[0]
    sizes = Abs()(determinant_pivots(xs[0]))
    last = (sizes.type.rank - 1,)
    poor = less_equal(Min(last, False)(sizes), Max(last, False)(sizes) * bound)
    found = Any_(tuple(range(poor.type.rank)), False)(poor)
    branches = []
    for formula in (regular, singular):
        inputs = [TABLE["Input"](f"x{i}", x.shape, x.dtype)() for i, x in enumerate(xs)]
        branches.append(Graph(inputs, [formula(*inputs)]))
    return result_nodes(TABLE["Cond"](tuple(branches))(found, *xs))[0]


def _determinant_of_cofactors(x: Node) -> Node:
    return determinants_as_matrices(Det().expand(x))


def _cofactors(x: Node) -> Node:
    return _determinant_of_cofactors(x) * swap_rows_columns(Inverse()(x))


def _cofactor_change(x: Node, t: Node) -> Node:
    inverse = Inverse()(x)
    moved = MatMul()(inverse, t)
    whole = determinants_as_matrices(trace(moved)) * inverse - MatMul()(moved, inverse)
    return _determinant_of_cofactors(x) * swap_rows_columns(whole)


def _cofactors_by_svd(x: Node) -> Node:
    u, s, vh = result_nodes(SVD()(x))
    made = MatMul()(scaled_columns(u, _cofactor_products(s, 1)), vh)
    return _determinant_of_cofactors(u) * _determinant_of_cofactors(vh) * conjugate(made)


def _cofactor_change_by_svd(x: Node, t: Node) -> Node:
    u, s, vh = result_nodes(SVD()(x))
    inner = MatMul()(MatMul()(adjoint(u), t), adjoint(vh))
    products = cast(_cofactor_products(s, 2), x.type.dtype)
    on = MatMul()(off_diagonal(products), as_column(diagonal(inner)))
    changed = diagonal_matrix(Reshape(on.type.shape[:-1])(on)) - off_diagonal(
        products * swap_rows_columns(inner)
    )
    made = MatMul()(MatMul()(conjugate(u), changed), conjugate(vh))
    return _determinant_of_cofactors(u) * _determinant_of_cofactors(vh) * made


def _cofactor_products(s: Node, count: int) -> Node:
    """Return the products of all numbers but one, as vectors, or but two, as matrices."""
    *batch, n = s.type.shape
    shape = (*batch, *(n,) * count, n)
    rank = len(shape)
    last = Iota(shape, rank - 1, int32)()
    left_out = equal(Iota(shape, rank - 2, int32)(), last)
    if count == 2:
        left_out = either(left_out, equal(Iota(shape, rank - 3, int32)(), last))
    factors = Reshape((*batch, *(1,) * count, n))(s)
    return Prod((rank - 1,), False)(where(left_out, constant_node(1, s.type.dtype), factors))
