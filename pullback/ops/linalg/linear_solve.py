"""The base of solvers of linear systems, with the rules that they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pullback.errors import ArgumentError, ShapeError
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import check_matrix_kernel_operands
from pullback.ops.linalg.matrix_rows_columns import swap_rows_columns
from pullback.ops.prelude import Axis, Node, Op, Type, conjugate, spread
from pullback.ops.shape.movement import Reshape, Transpose

TRANSPOSES = ("N", "T", "C")


def _trans_of_linear_solve(op: Any) -> str:
    return op.trans


class LinearSolve(Op, abstract=True):
    """The solution x of op(a) x = b: op is the matrix itself (`trans` is N), its transpose (T) or
    its adjoint (C). A class has the field `trans`."""

    factors = fixed_factor_rule("... _ _, ... _ k -> ... _ k")

    def __post_init__(self) -> None:
        if _trans_of_linear_solve(self) not in TRANSPOSES:
            raise ArgumentError(
                f"trans must be 'N', 'T' or 'C', got {_trans_of_linear_solve(self)!r}",
                op=self.title,
            )

    def infer(self, *xs: Type) -> Any:
        a, b = xs
        check_matrix_kernel_operands(self, a, b, square=True)
        if a.shape[:-1] != b.shape[:-1]:
            what = f"needs right-hand sides with as many rows as the matrix, got {a} and {b}"
            raise ShapeError(what, code="E3003", extents=(a.shape[-1], b.shape[-2]))
        return b

    def with_trans(self, trans: str) -> Op:
        """Return the solver for another `trans`."""
        names = [f.name for f in dataclasses.fields(self)]
        return type(self)(*[trans if n == "trans" else getattr(self, n) for n in names])

    def stated(self, g: Node) -> Node:
        """Return the part of a matrix that the solver reads."""
        return g

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        a, trans = xs[0], _trans_of_linear_solve(self)
        if trans == "T":
            of_b = conjugate(self.with_trans("N")(a, conjugate(g)))
        else:
            of_b = self.with_trans("C" if trans == "N" else "N")(a, g)
        if not need[0]:
            return [None, of_b]
        if trans == "N":
            product = MatMul()(of_b, adjoint(out))
        else:
            product = MatMul()(out, adjoint(of_b))
            product = conjugate(product) if trans == "T" else product
        return [self.stated(-product), of_b if need[1] else None]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        of_a, t = ts
        if of_a is not None:
            of_a = self.stated(of_a)
            if _trans_of_linear_solve(self) != "N":
                of_a = (
                    swap_rows_columns(of_a)
                    if _trans_of_linear_solve(self) == "T"
                    else adjoint(of_a)
                )
            change = MatMul()(of_a, out)
            t = -change if t is None else t - change
        return None if t is None else self(xs[0], t)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        a, b = xs
        if mapped[0]:
            return self(a, b if mapped[1] else spread(b, axis))
        # One matrix for all examples: their right-hand sides are columns of one system.
        rank = b.type.rank
        columns = Transpose((*range(1, rank - 1), 0, rank - 1))(b)
        shape = columns.type.shape
        found = self(a, Reshape((*shape[:-2], shape[-2] * shape[-1]))(columns))
        return Transpose((rank - 2, *range(rank - 2), rank - 1))(Reshape(shape)(found))
