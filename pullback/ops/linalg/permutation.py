"""Row exchanges of a factorization with pivots, and permutations of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import int32
from pullback.ops.elementwise.functions import both, equal, greater, less, where
from pullback.ops.factor_rules import factor_rule, factor_rule_names, fixed_factor_rule
from pullback.ops.helpers import jvp_in_first
from pullback.ops.index.along_axis import TakeAlongAxis
from pullback.ops.index.index_lowering import gather
from pullback.ops.prelude import Axis, Composite, Node, Op, Parts, Type, spread_all
from pullback.ops.reduce.extrema import Max, Min
from pullback.ops.samples import integer_samples, real
from pullback.ops.shape.concat_pad import Concat
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.movement import Reshape
from pullback.ops.shape.slicing import Slice


class PivotPermutation(Composite):
    """The permutation of `size` rows that exchanges make: row i with row pivots[i], in order.

    Row i of the permuted matrix is row permutation[i] of the matrix. With `inverse`, the exchanges
    are undone, from the last to the first.
    """

    size: int
    inverse: bool = False
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
            exchanges = list(enumerate(pivots[batch]))
            for i, p in reversed(exchanges) if self.inverse else exchanges:
                made[batch][[i, p]] = made[batch][[p, i]]
        return made

    def expand(self, pivots: Node) -> Node:
        *batch, count = pivots.type.shape
        rank, n = len(batch) + 1, self.size
        position = Iota((*batch, n), rank - 1, int32)()
        if count < n:
            start = (0,) * (rank - 1)
            rest = Slice((*start, count), (*batch, n), (1,) * rank)(position)
            pivots = Concat(rank - 1)(pivots, rest)
        if n < 2:
            return pivots
        return (self._undone if self.inverse else self._done)(pivots, position)

    def _done(self, pivots: Node, position: Node) -> Node:
        # At turn i, place q has the row that the last turn j < i with pivots[j] = q brought there:
        # the one that was in place j before its turn. That row is found in the same way.
        turn, before = _permutation_turns(pivots)
        own = _permutation_turn_found(
            Max,
            both(greater(turn, before), _permutation_turn_matches(position, pivots)),
            before,
            -1,
        )
        there = _followed_permutation(where(less(own, 0), position, own))
        last = _permutation_turn_found(
            Max, both(greater(turn, before), _permutation_turn_matches(pivots, pivots)), before, -1
        )
        moved = _take_by_permutation(there, where(less(last, 0), 0, last))
        return where(less(last, 0), pivots, moved)

    def _undone(self, pivots: Node, position: Node) -> Node:
        # Turns run backwards. Turn i brings row i to place pivots[i], and to place i what is there:
        # row j if a turn j > i has put it there, else what turn pivots[i] has left.
        turn, other = _permutation_turns(pivots)
        n = self.size
        after = _permutation_turn_found(
            Min, both(less(turn, other), _permutation_turn_matches(pivots, pivots)), other, n
        )
        root = _followed_permutation(where(less(after, n), position, pivots))
        left = _take_by_permutation(where(less(after, n), after, position), root)
        own = _permutation_turn_found(
            Min, both(greater(turn, other), _permutation_turn_matches(position, pivots)), other, n
        )
        return where(less(own, n), own, left)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*xs)

    @classmethod
    def samples(cls) -> Any:
        for shape, size in (((2, 4), 6), ((1,), 1), ((0,), 3), ((0, 2), 2)):
            rows = np.arange(shape[-1])
            drawn = integer_samples(*shape, high=100) % np.maximum(size - rows, 1) + rows
            yield cls(size, shape[0] == 2), (drawn.astype(np.int32),)
        drawn = integer_samples(3, 9, high=100) % (9 - np.arange(9)) + np.arange(9)
        yield from [(cls(9, inverse), (drawn.astype(np.int32),)) for inverse in (False, True)]


def _permutation_turns(pivots: Node) -> tuple[Node, Node]:
    """Return the numbers of two turns, along the rows and columns of a table of pairs."""
    shape = (*pivots.type.shape, pivots.type.shape[-1])
    rank = len(shape)
    return Iota(shape, rank - 2, int32)(), Iota(shape, rank - 1, int32)()


def _permutation_turn_matches(places: Node, pivots: Node) -> Node:
    """Return a table of whether the place of one turn is the pivot of another."""
    *batch, n = pivots.type.shape
    return equal(Reshape((*batch, n, 1))(places), Reshape((*batch, 1, n))(pivots))


def _permutation_turn_found(reduction: Any, found: Node, other: Node, none: int) -> Node:
    """Return the last or first of the turns that were found, or `none`."""
    return reduction((found.type.rank - 1,), False)(where(found, other, none))


def _take_by_permutation(x: Node, indices: Node) -> Node:
    return TakeAlongAxis(x.type.rank - 1, True)(x, indices)


def _followed_permutation(places: Node) -> Node:
    """Return where each chain of places ends, in steps that double."""
    for _ in range(math.ceil(math.log2(places.type.shape[-1]))):
        places = _take_by_permutation(places, places)
    return places


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
        words = [*factor_rule_names(x.rank - 2), "_"]
        return factor_rule([[*words, "k"], words], [[*words, "k"]])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [ReorderRows(not self.inverse)(g, xs[1]), None]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        order = np.random.default_rng(0).permuted
        for shape in ((2, 4, 3), (0, 2)):
            for inverse in (False, True):
                rows = np.broadcast_to(np.arange(shape[-2], dtype=np.int32), shape[:-1])
                yield cls(inverse), (real(*shape), order(rows, axis=-1))
