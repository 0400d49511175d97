"""Scattering: writes to places that index arrays name, the counterpart of `IndexArrays`.

Every op here takes `(x, updates, *indices)`. The index arrays name places in `x`, and the updates
are for what lies there, laid out as `IndexArrays` gives it. The result is `x` with the updates
combined in, also where a place is named twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError, UnsupportedOp
from pullback.graph.dtypes import bool_
from pullback.graph.node import operand
from pullback.ops.elementwise.base import check_kind
from pullback.ops.factor_rules import alike, rule
from pullback.ops.index.bounds import (
    in_range,
    index_shape,
    last_writes,
    require_in_range,
    same_integers,
    scatter,
    with_shared,
)
from pullback.ops.index.indexing import ByPlaces, IndexArrays
from pullback.ops.parts import Parts
from pullback.ops.prelude import (
    TABLE,
    Axis,
    Node,
    Op,
    Type,
    conjugate,
    ones,
    same_dtype,
    spread_all,
    zeros,
)
from pullback.ops.samples import real
from pullback.ops.text import GRADIENT


class Scatter(ByPlaces, abstract=True):
    """What all scatters share; an op states `ufunc`, `stablehlo` and its rules.

    A rule is split in two: `pull_x` and `pull_updates` give the cotangents, and are asked only
    for what is needed.
    """

    ufunc: ClassVar[Any]
    stablehlo: ClassVar[str]
    kinds: ClassVar[str] = "iufc"
    fallible: ClassVar[bool] = True
    parts = Parts(positions=2)
    divisible: ClassVar[bool] = True  # devices may write some of the updates each

    def infer(self, x: Type, updates: Type, *indices: Type) -> Type:
        check_kind(same_dtype(self.title, x, updates), self.kinds)
        shape = self.placed(x, indices)
        if updates.shape != shape:
            raise ShapeError(
                f"updates must have the shape of what the indices pick out of {x}, {list(shape)}, "
                f"got {updates}",
                code="E3001",
            )
        return x.with_shape(x.shape)

    def numpy(self, x: np.ndarray, updates: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        out = np.array(x)
        view, places = self.places(out, indices)
        rank, shared = indices[0].ndim, self.batched
        before = range(shared, shared + self.before)
        self.write(view, places, np.moveaxis(updates, before, range(rank, rank + self.before)))
        return out

    def write(self, out: np.ndarray, places: tuple, updates: np.ndarray) -> None:
        type(self).ufunc.at(out, places, updates)

    def hlo(self, b: Any, out: Type, x: Any, updates: Any, *indices: Any) -> Any:
        require_in_range(b, indices, self.dims, x.shape, self.batched + self.examples)
        if not updates.type.size or not x.type.size:
            return x
        return scatter(
            b, x, updates, indices, self.dims,
            lambda old, new: b.op(f"stablehlo.{self.stablehlo}", old, new, out=old.type),
            self.batched, self.before,
        )  # fmt: skip

    def factors(self, x: Type, updates: Type, *indices: Type) -> str:
        value, index, there = self.words(x, indices)
        if not self.divisible:
            whole = set(index[self.batched :])
            index, there = (["_" if w in whole else w for w in words] for words in (index, there))
        return rule([value, there, *[index] * len(indices)], [value])

    def take(self, x: Node, indices: Sequence[Node]) -> Node:
        return IndexArrays(*self.layout, self.examples)(x, *indices)

    def add(self, x: Node, updates: Node, indices: Sequence[Node]) -> Node:
        return ScatterAdd(*self.layout, self.examples)(x, updates, *indices)

    def several(self, index: Type) -> bool:
        """Whether one place may be named more than once."""
        return math.prod(index.shape[self.batched :]) > 1

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [
            self.pull_x(g, out, *xs) if need[0] else None,
            self.pull_updates(g, out, *xs) if need[1] else None,
            *[None] * len(self.dims),
        ]

    def pull_x(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        raise UnsupportedOp("does not say how", op=self.title)

    def pull_updates(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        raise UnsupportedOp("does not say how", op=self.title)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if not any(mapped[2:]) and not self.batched:
            # One write for all examples: their dimension is among those that are not indexed.
            return self.together(shared=False)(*spread_all(axis, xs[:2], mapped[:2]), *xs[2:])
        return self.together(shared=True)(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        yield cls((0,)), (real(4, 3), real(3, 3, salt=1), np.array([2, 0, 2], np.int64))
        columns, rows = np.array([[3, 1], [0, 3]], np.uint8), np.array([[1, 0], [1, 1]], np.int32)
        yield cls((2, 0)), (real(2, 3, 4), real(2, 2, 3, salt=1), columns, rows)
        yield cls((1,)), (real(3, 4), real(3, salt=1), np.int16(2))
        yield cls((0,)), (real(4), real(6, salt=1), np.array([1, 1, 3, 1, 0, 3], np.int64))
        yield cls((0,)), (real(4, 2), real(0, 2), np.zeros((0,), np.int64))
        yield cls((1,)), (real(0, 2), real(3, 0), np.array([1, 1, 0], np.int64))
        own = np.array([[2, 0, 2], [1, 1, 1]], np.int64)
        yield cls((2,), 1, 1), (real(2, 2, 3, 2), real(2, 2, 3, 2, salt=1), own)
        yield cls((1,), 0, 1), (real(2, 3, 2), real(2, 2, 3, 2, salt=1), own)


class ScatterAdd(Scatter):
    """`x` with the updates added."""

    ufunc = np.add
    stablehlo = "add"
    parts = Parts(counted_once=(0,), positions=2)
    text = GRADIENT

    def pull_x(self, g: Node, *_: Node) -> Node:
        return g

    def pull_updates(self, g: Node, out: Node, x: Node, updates: Node, *indices: Node) -> Node:
        return self.take(g, indices)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        if ts[1] is None:
            return ts[0]
        return self(ts[0] or zeros(xs[0].type), ts[1], *xs[2:])


class ScatterSet(Scatter):
    """`x` with the updates in place of what was there; of several for one place the last stays."""

    kinds = "biufc"
    divisible = False  # the last write counts

    def write(self, out: np.ndarray, places: tuple, updates: np.ndarray) -> None:
        out[places] = updates

    def hlo(self, b: Any, out: Type, x: Any, updates: Any, *indices: Any) -> Any:
        require_in_range(b, indices, self.dims, x.shape, self.batched + self.examples)
        if not updates.type.size or not x.type.size:
            return x
        if self.several(indices[0].type):
            # XLA leaves the order of writes open, and drops a write out of range: sent there,
            # all but the last for each place do nothing.
            first, *others = same_integers(b, indices, x.shape)
            extents = tuple(x.shape[d] for d in self.dims)
            last = last_writes(b, indices, extents, self.batched)
            indices = b.select(last, first, b.full(first.type, extents[0])), *others
        return scatter(b, x, updates, indices, self.dims, lambda old, new: new, self.batched,
                       self.before, unique=True)  # fmt: skip

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
        return select(TABLE["Reshape"](shape)(last), taken, 0)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        x, updates, *indices = xs
        return self(ts[0] or zeros(x.type), ts[1] or zeros(updates.type), *indices)


class ScatterMul(Scatter):
    """`x` with the updates multiplied in.

    The first derivative is exact everywhere. Higher ones are too, except where several updates
    name one place and one of them is 0: there the first derivative's zeros count as constant.
    """

    ufunc = np.multiply
    stablehlo = "multiply"
    divisible = False

    def multipliers(self, x: Node, updates: Node, indices: Sequence[Node]) -> Node:
        """The product of the updates for each place: what its element of `x` is multiplied by."""
        return self(ones(x.type), updates, *indices)

    def others(self, x: Node, updates: Node, indices: Sequence[Node]) -> Node:
        """For each update, the product of all else that goes into its place."""
        taken = self.take(x, indices)
        if not self.several(indices[0].type):
            return taken
        # Dividing the update out of the whole product needs updates that are not 0, so zeros
        # are replaced by 1 and counted; the common case of a place named once needs no division.
        zero = TABLE["Equal"]()(updates, zeros(updates.type))
        nonzero = select(zero, 1, updates)
        is_zero = select(zero, ones(updates.type), 0)
        other_zeros = self.take(self.add(zeros(x.type), is_zero, indices), indices) - is_zero
        product = self.take(self(x, nonzero, *indices), indices) / nonzero
        product = select(TABLE["Equal"]()(other_zeros, zeros(updates.type)), product, 0)
        count = self.take(self.add(zeros(x.type), ones(updates.type), indices), indices)
        return select(TABLE["Equal"]()(count, ones(updates.type)), taken, product)

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


class LastWrite(Op):
    """For each place that index arrays name: whether no later entry names the same place.

    `extents` are those of the indexed dimensions; order is row-major. Entries of different parts
    along the first `batched` dimensions never name the same place.
    """

    extents: tuple[int, ...]
    batched: int = 0
    differentiable: ClassVar[bool] = False  # from integers to bools
    fallible: ClassVar[bool] = True
    parts = Parts(positions=0)

    def infer(self, *indices: Type) -> Type:
        shape = index_shape(range(len(self.extents)), Type(self.extents, bool_), indices)
        return Type(shape, bool_)

    def numpy(self, *indices: np.ndarray) -> np.ndarray:
        places = in_range(indices, range(len(self.extents)), self.extents)
        places = np.broadcast_arrays(*with_shared(places, self.batched))
        columns = [p.ravel().tolist() for p in places]
        last = {place: i for i, place in enumerate(zip(*columns, strict=True))}
        out = np.zeros(places[0].size, bool)
        out[list(last.values())] = True
        return out.reshape(places[0].shape)

    def hlo(self, b: Any, out: Type, *indices: Any) -> Any:
        require_in_range(b, indices, range(len(self.extents)), self.extents)
        return last_writes(b, indices, self.extents, self.batched)

    def factors(self, *indices: Type) -> str:
        rank = indices[0].rank
        return alike(rank, tuple(range(self.batched, rank)), len(indices))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return LastWrite(self.extents, self.batched + 1)(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        yield cls((4,)), (np.array([2, 0, 2, 3, 2, 0], np.int64),)
        rows, columns = np.array([[1, 1], [0, 1]], np.uint8), np.array([[9, 3], [9, 9]], np.int16)
        yield cls((2, 300)), (rows, columns + np.int16(290))
        yield cls((3,)), (np.int64(1),)
        yield cls((3,)), (np.zeros((0, 2), np.int32),)
        yield cls((4,), 1), (np.array([[1, 3, 1], [3, 3, 0]], np.int64),)


def select(condition: Node, x: Any, y: Any) -> Node:
    """Elements of `x` where the condition holds, else of `y`; one of them may be a number."""
    like = x if isinstance(x, Node) else y
    return TABLE["Where"]()(condition, operand(x, like), operand(y, like))
