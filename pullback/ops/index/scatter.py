"""Scatters: writes to positions that index arrays select, the counterpart of `IndexArrays`.

Every op takes `(x, updates, *indices)`. The updates have the shape of what `IndexArrays` selects
from `x` with the same indices. The result is `x` with the updates combined in, also where a
position is selected twice.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.functions import equal, where
from pullback.ops.factor_rules import factor_rule, indexed_factors
from pullback.ops.helpers import conjugate, ones, same_dtype, spread_all, zeros
from pullback.ops.index.bounds import require_index_within_bounds
from pullback.ops.index.dynamic_slice import DynamicUpdateAdd, DynamicUpdateSlice
from pullback.ops.index.index_lowering import (
    lower_index_integers,
    lower_last_index_writes,
    lower_scatter,
)
from pullback.ops.index.indexing import WHOLE_ROWS, ArrayIndexingOp, IndexArrays
from pullback.ops.index.last_write import LastWrite
from pullback.ops.index.table_rows import add_table_rows
from pullback.ops.prelude import GRADIENT, Axis, Node, Parts, Type
from pullback.ops.samples import integer_samples, real
from pullback.ops.shape.movement import Reshape
from pullback.ops.traits import HasKernel


class Scatter(ArrayIndexingOp, abstract=True):
    """The base of scatters; an op states `ufunc`, `stablehlo` and its rules. `pull_x` and
    `pull_updates` give the cotangents where they are needed."""

    ufunc: ClassVar[Any]
    stablehlo: ClassVar[str]
    kinds: ClassVar[str] = "iufc"
    parts = Parts(positions=2)
    divisible: ClassVar[bool] = True  # each device may write some of the updates

    def infer(self, x: Type, updates: Type, *indices: Type) -> Type:
        check_elementwise_kind(same_dtype(self.title, x, updates), self.kinds)
        shape = self.selected(x, indices)
        if updates.shape != shape:
            what = f"updates must have the shape that the indices select from {x}, {list(shape)}"
            raise ShapeError(f"{what}, got {updates}", code="E3001")
        return x.with_shape(x.shape)

    def numpy(self, x: np.ndarray, updates: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        out = np.array(x)
        view, positions = self.positions_in(out, indices)
        rank, shared = indices[0].ndim, self.batched
        before = range(shared, shared + self.before)
        self.write(view, positions, np.moveaxis(updates, before, range(rank, rank + self.before)))
        return out

    def write(self, out: np.ndarray, positions: tuple, updates: np.ndarray) -> None:
        type(self).ufunc.at(out, positions, updates)

    def hlo(self, b: Any, out: Type, x: Any, updates: Any, *indices: Any) -> Any:
        require_index_within_bounds(b, indices, self.dims, x.shape, self.batched + self.examples)
        if not updates.type.size or not x.type.size:
            return x
        indices = self.writes(b, x, indices)
        return lower_scatter(
            b, x, updates, indices, self.dims, self.stablehlo, self.batched, self.before
        )

    def writes(self, b: Any, x: Any, indices: tuple) -> tuple:
        """The index arrays as the instruction needs them."""
        return indices

    def factors(self, x: Type, updates: Type, *indices: Type) -> str:
        value, index, selected = indexed_factors(x.rank, indices[0].rank, *self.layout)
        if not self.divisible:
            whole = set(index[self.batched :])
            index, selected = (["_" if w in whole else w for w in s] for s in (index, selected))
        return factor_rule([value, selected, *[index] * len(indices)], [value])

    def take(self, x: Node, indices: Sequence[Node]) -> Node:
        return IndexArrays(*self.layout, self.examples)(x, *indices)

    def add(self, x: Node, updates: Node, indices: Sequence[Node]) -> Node:
        return ScatterAdd(*self.layout, self.examples)(x, updates, *indices)

    def several(self, index: Type) -> bool:
        """Whether a position may be selected more than once."""
        return math.prod(index.shape[self.batched :]) > 1

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        of_x = self.pull_x(g, out, *xs) if need[0] else None
        of_updates = self.pull_updates(g, out, *xs) if need[1] else None
        return [of_x, of_updates, *[None] * len(self.dims)]

    @abstractmethod
    def pull_x(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        """The cotangent of `x`."""

    @abstractmethod
    def pull_updates(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        """The cotangent of the updates."""

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if not any(mapped[2:]) and not self.batched:
            # One write for all examples: the mapped axis is one of those that are not indexed.
            return self.widened(shared=False)(*spread_all(axis, xs[:2], mapped[:2]), *xs[2:])
        return self.widened(shared=True)(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        yield cls((0,)), (real(4, 3), real(3, 3, salt=1), np.array([2, 0, 2], np.int64))
        columns, rows = np.array([[3, 1], [0, 3]], np.uint8), np.array([[1, 0], [1, 1]], np.int32)
        yield cls((2, 0)), (real(2, 3, 4), real(2, 2, 3, salt=1), columns, rows)
        yield cls((0,)), (real(5, 4), real(2, 3, 4, salt=1), integer_samples(2, 3, high=5))
        yield cls((1,)), (real(3, 4), real(3, salt=1), np.int16(2))
        yield cls((0,)), (real(4), real(6, salt=1), np.array([1, 1, 3, 1, 0, 3], np.int64))
        yield cls((0,)), (real(4, 2), real(0, 2), np.zeros((0,), np.int64))
        yield cls((1,)), (real(0, 2), real(3, 0), np.array([1, 1, 0], np.int64))
        own = np.array([[2, 0, 2], [1, 1, 1]], np.int64)
        yield cls((2,), 1, 1), (real(2, 2, 3, 2), real(2, 2, 3, 2, salt=1), own)
        yield cls((1,), 0, 1), (real(2, 3, 2), real(2, 2, 3, 2, salt=1), own)


class ScatterAdd(Scatter, HasKernel):
    """`x` with the updates added."""

    ufunc, stablehlo = np.add, "add"
    parts = Parts(counted_once=(0,), positions=2)
    text = GRADIENT
    jvp = DynamicUpdateAdd.jvp  # type: ignore[assignment]

    def kernel(self, b: Any, out: Type, x: Any, updates: Any, *indices: Any) -> Any:
        whole = self.layout == WHOLE_ROWS
        made = add_table_rows(b, out, x, updates, *indices) if whole else None
        if made is not None:
            require_index_within_bounds(b, indices, self.dims, x.shape, self.examples)
        return made

    def pull_x(self, g: Node, *_: Node) -> Node:
        return g

    def pull_updates(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        return self.take(g, indices)


class ScatterSet(Scatter):
    """`x` with elements replaced by the updates; of several for one position the last one stays."""

    stablehlo = "set"
    kinds = "biufc"
    divisible = False  # the last write counts
    jvp = DynamicUpdateSlice.jvp  # type: ignore[assignment]

    def write(self, out: np.ndarray, positions: tuple, updates: np.ndarray) -> None:
        out[positions] = updates

    def writes(self, b: Any, x: Any, indices: tuple) -> tuple:
        """XLA leaves the order of writes open, and drops a write out of range: all writes but the
        last to each position are sent there."""
        if not self.several(indices[0].type):
            return indices
        first, *others = lower_index_integers(b, indices, x.shape)
        sizes = tuple(x.shape[d] for d in self.dims)
        last = lower_last_index_writes(b, indices, sizes, self.batched)
        return b.select(last, first, b.full(first.type, sizes[0])), *others

    def pull_x(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        return self(g, zeros(updates.type), *indices)

    def pull_updates(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        taken = self.take(g, indices)
        first, shared = indices[0].type, self.batched
        if not self.several(first):
            return taken
        last = LastWrite(tuple(x.type.shape[d] for d in self.dims), shared)(*indices)
        rest = (1,) * (taken.type.rank - first.rank - self.before)
        shape = (*first.shape[:shared], *(1,) * self.before, *first.shape[shared:], *rest)
        return where(Reshape(shape)(last), taken, 0)


class ScatterMul(Scatter):
    """`x` with the updates multiplied in.

    The first derivative is exact everywhere. Higher ones are too, except where several updates go
    to one position and one of them is 0: there the first derivative's zeros count as constant.
    """

    ufunc, stablehlo = np.multiply, "multiply"
    divisible = False

    def multipliers(self, x: Node, updates: Node, indices: Sequence[Node]) -> Node:
        """For each element of `x`, the product of its updates."""
        return self(ones(x.type), updates, *indices)

    def others(self, x: Node, updates: Node, indices: Sequence[Node]) -> Node:
        """For each update, the product of everything else at its position."""
        taken = self.take(x, indices)
        if not self.several(indices[0].type):
            return taken
        # Dividing the update out of the whole product needs updates that are not 0, so zeros are
        # replaced by 1 and counted. A position that is selected once needs no division.
        zero = equal(updates, zeros(updates.type))
        nonzero = where(zero, 1, updates)
        is_zero = where(zero, ones(updates.type), 0)
        other_zeros = self.take(self.add(zeros(x.type), is_zero, indices), indices) - is_zero
        product = self.take(self(x, nonzero, *indices), indices) / nonzero
        product = where(equal(other_zeros, zeros(updates.type)), product, 0)
        count = self.take(self.add(zeros(x.type), ones(updates.type), indices), indices)
        return where(equal(count, ones(updates.type)), taken, product)

    def pull_x(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        return g * conjugate(self.multipliers(x, updates, indices))

    def pull_updates(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        return self.take(g, indices) * conjugate(self.others(x, updates, indices))

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        x, updates, *indices = xs
        tangent = ts[0] and ts[0] * self.multipliers(x, updates, indices)
        if ts[1] is None:
            return tangent
        change = ts[1] * self.others(x, updates, indices)
        return self.add(tangent or zeros(x.type), change, indices)
