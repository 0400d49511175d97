"""Row exchanges of a factorization with pivots, and permutations of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import int32
from pullback.ops.elementwise.functions import both, equal, greater, where
from pullback.ops.factor_rules import factor_rule, fixed_factor_rule, named_factors
from pullback.ops.helpers import jvp_in_first
from pullback.ops.index.along_axis import TakeAlongAxis
from pullback.ops.index.lowering import gather
from pullback.ops.prelude import Axis, Composite, Node, Op, Parts, Type, spread_all
from pullback.ops.reduce.extrema import Max
from pullback.ops.samples import integers, real
from pullback.ops.shape.concat_pad import Concat
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.movement import Reshape
from pullback.ops.shape.slicing import Slice


class PivotPermutation(Composite):
    """The permutation of `size` rows that exchanges make: row i with row pivots[i], in order.

    Row i of the permuted matrix is row permutation[i] of the matrix.
    """

    size: int
    differentiable: ClassVar[bool] = False
    factors = fixed_factor_rule("... _ -> ... _")
    parts = Parts(positions=0)

    def infer(self, pivots: Type) -> Type:
        if pivots.dtype is not int32 or pivots.rank < 1 or pivots.shape[-1] > self.size:
            what = f"needs i32 pivots, at most one for each of {self.size} rows, got {pivots}"
            raise (DTypeError if pivots.dtype is not int32 else ShapeError)(what)
        return pivots.with_shape((*pivots.shape[:-1], self.size))

    def numpy(self, pivots: np.ndarray) -> np.ndarray:
        made = np.empty((*pivots.shape[:-1], self.size), np.int32)
        made[...] = np.arange(self.size)
        for batch in np.ndindex(pivots.shape[:-1]):
            for i, p in enumerate(pivots[batch]):
                made[batch][[i, p]] = made[batch][[p, i]]
        return made

    def expand(self, pivots: Node) -> Node:
        # When row i takes its turn, row q is the one that the last exchange with q, by row j < i,
        # put there: the one that was row j before its own turn. Chains of such rows are followed in
        # steps that double, without a loop over rows.
        *batch, count = pivots.type.shape
        rank, n = len(batch) + 1, self.size
        position = Iota((*batch, n), rank - 1, int32)()
        if count < n:
            start = (0,) * (rank - 1)
            rest = Slice((*start, count), (*batch, n), (1,) * rank)(position)
            pivots = Concat(rank - 1)(pivots, rest)
        if n < 2:
            return pivots
        first = self._last_exchange(pivots, position)  # of the row itself, before its turn
        content = where(greater(0, first), position, first)
        for _ in range(max(1, math.ceil(math.log2(n)))):
            content = TakeAlongAxis(rank - 1, True)(content, content)
        last = self._last_exchange(pivots, pivots)
        moved = TakeAlongAxis(rank - 1, True)(content, where(greater(0, last), 0, last))
        return where(greater(0, last), pivots, moved)

    def _last_exchange(self, pivots: Node, rows: Node) -> Node:
        """Return for each turn i the last turn j < i that exchanged with rows[i], or -1."""
        *batch, n = pivots.type.shape
        square, rank = (*batch, n, n), len(batch) + 2
        turn, before = Iota(square, rank - 2, int32)(), Iota(square, rank - 1, int32)()
        column, row = Reshape((*batch, n, 1))(rows), Reshape((*batch, 1, n))(pivots)
        found = both(greater(turn, before), equal(column, row))
        return Max((rank - 1,), False)(where(found, before, -1))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*xs)

    @classmethod
    def samples(cls) -> Any:
        for shape, size in (((5,), 5), ((2, 4), 6), ((1,), 1), ((0,), 0), ((0,), 3), ((0, 2), 2)):
            rows = np.arange(shape[-1])
            drawn = integers(*shape, high=100) % np.maximum(size - rows, 1) + rows
            yield cls(size), (drawn.astype(np.int32),)


class ReorderRows(Op):
    """The rows of matrices in the order of a permutation, or of its inverse."""

    inverse: bool = False
    parts = Parts(linear_in=(0,), positions=1)
    jvp = jvp_in_first

    def infer(self, x: Type, permutation: Type) -> Type:
        if x.rank < 2 or permutation.shape != x.shape[:-1] or not permutation.dtype.is_integer:
            raise ShapeError(f"needs an index for each row of {x}, got {permutation}")
        return x

    def numpy(self, x: np.ndarray, permutation: np.ndarray) -> np.ndarray:
        order = np.argsort(permutation, axis=-1) if self.inverse else permutation
        return np.take_along_axis(x, order[..., None], axis=-2)

    def hlo(self, b: Any, out: Type, x: Any, permutation: Any) -> Any:
        rank, n = len(x.shape), x.shape[-2]
        if self.inverse and n:
            # The place of each index: a sum is faster than a sort or a scatter.
            square = Type((*permutation.shape, n), permutation.dtype)
            at = b.broadcast_in_dim(permutation, square.shape, tuple(range(rank - 1)))
            wanted, place = (b.iota(square.shape, square.dtype, d) for d in (rank - 1, rank - 2))
            place = b.select(b.compare("EQ", at, wanted), place, b.full(square, 0))
            permutation = b.reduce("add", place, 0, (rank - 2,))
        return gather(b, out, x, [permutation], (rank - 2,), rank - 2, 0)

    def factors(self, x: Type, permutation: Type) -> str:
        words = [*named_factors(x.rank - 2), "_"]
        return factor_rule([[*words, "k"], words], [[*words, "k"]])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [ReorderRows(not self.inverse)(g, xs[1]), None]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        order = np.random.default_rng(0).permuted
        for shape in ((4, 3), (2, 3, 2), (0, 2), (2, 3, 0)):
            for inverse in (False, True):
                rows = np.broadcast_to(np.arange(shape[-2], dtype=np.int32), shape[:-1])
                yield cls(inverse), (real(*shape), order(rows, axis=-1))
