"""Products of matrices, and of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.ops.elementwise.elementwise import align_elementwise_operand, check_elementwise_kind
from pullback.ops.factor_rules import factor_rule, fixed_factor_rule
from pullback.ops.linalg.contraction import (
    Contraction,
    adjoint,
    contraction_column,
    dot_general,
    numpy_contraction,
)
from pullback.ops.linalg.dot_general import DotGeneral
from pullback.ops.prelude import CORE, Axis, Node, Type, broadcast_shapes, conjugate, same_dtype
from pullback.ops.samples import complex_samples, real
from pullback.ops.shape.movement import Broadcast
from pullback.ops.traits import HasSumOverRows


class MatMul(Contraction, HasSumOverRows):
    """The product of matrices in the last two dimensions; the others broadcast."""

    title = "matmul"
    text = CORE
    factors = fixed_factor_rule("... m k, ... k n -> ... m n")

    def infer(self, x: Type, y: Type) -> Type:
        if x.rank < 2 or y.rank < 2:
            what = f"operands must have rank 2 or more, got {x} @ {y}"
            raise ShapeError(what, code="E3002", ranks=(x.rank, y.rank))
        check_elementwise_kind(same_dtype(self.title, x, y), self.kinds)
        if x.shape[-1] != y.shape[-2]:
            what = f"inner dimensions must agree, got {x} @ {y}"
            raise ShapeError(what, code="E3003", extents=(x.shape[-1], y.shape[-2]))
        batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
        return x.with_shape((*batch, x.shape[-2], y.shape[-1]))

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return numpy_contraction(x, y)

    def hlo(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        # A batch dimension that only one operand has is a free dimension of that operand: it is
        # not repeated in memory.
        rank = len(out.shape)
        x, own = _matmul_without_ones(b, x, rank)
        y, others = _matmul_without_ones(b, y, rank)
        missing = [i for i in others if i not in own]
        copies = x.type.size * math.prod([out.shape[i] for i in missing])
        if missing and 2 * copies < y.type.size + out.size:
            # Repeat a small `x`: else `y` and the result would be transposed, because y's free
            # dimensions belong between the rows.
            dims = sorted([*own, *missing])
            kept, count = [dims.index(i) for i in own], len(dims)
            shape = (*[out.shape[i] for i in dims], *x.shape[-2:])
            x = b.broadcast_in_dim(x, shape, [*kept, count, count + 1])
            own = dims
        inner = rank  # not in the result
        at_x, at_y = [*own, rank - 2, inner], [*others, inner, rank - 1]
        shared = [i for i in own if i in others]
        batch = tuple(at_x.index(i) for i in shared), tuple(at_y.index(i) for i in shared)
        product = dot_general(b, x, y, ((at_x.index(inner),), (at_y.index(inner),)), batch)
        order = [*shared, *(i for i in (*at_x, *at_y) if i not in shared and i != inner)]
        if order != sorted(order):
            product = b.transpose(product, [order.index(i) for i in sorted(order)])
        return b.reshape(product, out.shape)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, y = xs
        left = self(g, adjoint(y)) if need[0] else None
        right = None
        if need[1] and x.type.rank > 2 and y.type.rank == 2:
            # One product over all rows: a sum of products would take more memory, and rows merged
            # into one dimension could not be split along several axes of a mesh.
            rows = tuple(range(x.type.rank - 1))
            right = DotGeneral((rows, rows), ((), ()))(conjugate(x), g)
        elif need[1]:
            right = self(adjoint(x), g)
        return [left, right]

    def sum_over_rows(self, x: Node, y: Node) -> Node:
        rank = max(x.type.rank, y.type.rank) - 1
        x, y = (align_elementwise_operand(v, rank) for v in (x, y))
        shape = broadcast_shapes(x.type.shape[:-2], y.type.shape[:-2])
        x, y = (
            v if v.type.shape[:-2] == shape else Broadcast((*shape, *v.type.shape[-2:]))(v)
            for v in (x, y)
        )
        batch = tuple(range(1, rank - 1))
        return DotGeneral(((0, rank), (0, rank - 1)), (batch, batch))(x, y)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        rank = max(x.type.rank - has for x, has in zip(xs, mapped, strict=True))
        return self(
            *[
                align_elementwise_operand(x, rank) if has else x
                for x, has in zip(xs, mapped, strict=True)
            ]
        )

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4), real(4, 2, salt=1))
        yield cls(), (real(2, 1, 3, 4), real(1, 5, 4, 6, salt=1))
        yield cls(), (real(2, 3, 4), real(4, 5, salt=1))
        yield cls(), (real(2, 3), real(4, 3, 2, salt=1))
        yield cls(), (real(2, 3, 2, 4), real(3, 4, 3, salt=1))
        yield cls(), (real(1, 3, 4), real(1, 4, 2, salt=1))
        yield cls(), (complex_samples(2, 2, 3), complex_samples(3, 2, salt=1))
        for left, right in (((3, 0), (0, 2)), ((0, 3), (3, 2)), ((0, 2, 3), (3, 2))):
            yield cls(), (real(*left), real(*right))


class Dot(Contraction):
    """The product of vectors and matrices: the last dimension of x with the first of y."""

    text = CORE

    def infer(self, x: Type, y: Type) -> Type:
        if not {x.rank, y.rank} <= {1, 2}:
            what = f"operands must have rank 1 or 2, got {x} and {y}"
            raise ShapeError(what, code="E3002", ranks=(x.rank, y.rank))
        check_elementwise_kind(same_dtype(self.title, x, y), self.kinds)
        if x.shape[-1] != y.shape[0]:
            what = f"inner dimensions must agree, got {x} and {y}"
            raise ShapeError(what, code="E3003", extents=(x.shape[-1], y.shape[0]))
        return x.with_shape((*x.shape[:-1], *y.shape[1:]))

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(numpy_contraction(x, y))

    def hlo(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        return dot_general(b, x, y, ((len(x.shape) - 1,), (0,)), ((), ()))

    def factors(self, x: Type, y: Type) -> str:
        return factor_rule([["m", "k"][-x.rank :], ["k", "n"][: y.rank]],
                    [["m"][: x.rank - 1] + ["n"][: y.rank - 1]])  # fmt: skip

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, y = xs
        if x.type.rank == y.type.rank == 2:
            return MatMul().vjp(g, out, xs, need)
        left = right = None
        if need[0] and y.type.rank == 2:
            left = self(g, adjoint(y))
        elif need[0]:
            left = (contraction_column(g) if x.type.rank == 2 else g) * conjugate(y)
        if need[1] and x.type.rank == 2:
            right = self(adjoint(x), g)
        elif need[1]:
            right = conjugate(contraction_column(x) if y.type.rank == 2 else x) * g
        return [left, right]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        ranks = [x.type.rank - has for x, has in zip(xs, mapped, strict=True)]
        if ranks == [2, 2]:
            return MatMul().batch(axis, xs, mapped)
        if ranks[0] == 1 and not mapped[1]:
            return self(*xs)
        return DotGeneral(((ranks[0] - 1,), (0,)), ((), ())).batch(axis, xs, mapped)

    @classmethod
    def samples(cls) -> Any:
        for left, right in (((4,), (4,)), ((3, 4), (4,)), ((3,), (3, 2)), ((3, 2), (2, 4))):
            yield cls(), (real(*left), real(*right, salt=1))
        yield cls(), (complex_samples(3, 2), complex_samples(2, salt=1))
        yield cls(), (complex_samples(2), complex_samples(2, 3, salt=1))
        yield cls(), (real(0), real(0))


def _matmul_without_ones(b: Any, x: Any, rank: int) -> tuple[Any, list[int]]:
    """Matrices without their batch dimensions of size 1, and the dimensions that the remaining
    ones become in a result of the given rank."""
    kept = [i for i, n in enumerate(x.shape[:-2]) if n != 1]
    offset = rank - len(x.shape)
    return b.reshape(x, [*(x.shape[i] for i in kept), *x.shape[-2:]]), [i + offset for i in kept]
