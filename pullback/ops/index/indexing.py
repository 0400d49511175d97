"""Indexing: elements picked by position. An index out of range is an error, never a clamped read.

Indices count from 0; the API adds the extent to negative ones before it records these ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import DType, dtype, int32, int64
from pullback.ops.elementwise.base import cast, check_kind
from pullback.ops.factor_rules import named, placed, rule
from pullback.ops.imported import Imported
from pullback.ops.index.bounds import (
    gather,
    in_range,
    index_shape,
    out_of_range,
    placed_shape,
    require_in_range,
    with_shared,
)
from pullback.ops.parts import Parts
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type, constant, spread_all, zeros
from pullback.ops.reduce.reductions import check_axes
from pullback.ops.samples import integers, real
from pullback.ops.shape.movement import Movement, moved
from pullback.ops.text import Text
from pullback.ops.traits import Positioned


class Iota(Op):
    """Each element's position along `axis`."""

    shape: tuple[int, ...]
    axis: int
    dtype: DType
    differentiable: ClassVar[bool] = False  # no operands
    imported = Imported(("iota",))

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        (out,) = i.types
        return cls(out.shape, i["iota_dimension"], out.dtype)

    def infer(self) -> Type:
        check_kind(self.dtype, "iufc")
        check_axes((self.axis,), len(self.shape))
        return Type(self.shape, self.dtype)

    def numpy(self) -> np.ndarray:
        places = np.arange(self.shape[self.axis]).astype(self.dtype.numpy)
        after = (1,) * (len(self.shape) - self.axis - 1)
        return np.broadcast_to(places.reshape(-1, *after), self.shape)

    def hlo(self, b: Any, out: Type) -> Any:
        if self.dtype.is_integer and self.dtype.bits >= 32:
            return b.iota(self.shape, self.dtype, self.axis)
        # counted in wide integers: small types would stop growing, and complex has no iota
        return b.convert(b.iota(self.shape, int64, self.axis), self.dtype)

    def factors(self) -> str:
        return rule([], [named(len(self.shape))])

    def part(
        self, xs: Sequence[Node], out: Type, whole: Type, begin: Callable[[int], Node]
    ) -> Node:
        if out.shape[self.axis] == self.shape[self.axis]:
            return Iota(out.shape, self.axis, self.dtype)()
        return cast(Iota(out.shape, self.axis, int64)() + begin(self.axis), self.dtype)

    @classmethod
    def samples(cls) -> Any:
        for name in ("i8", "u16", "i32", "i64", "f16", "bf16", "f64", "complex64"):
            yield cls((3, 300), 1, dtype(name)), ()
        yield cls((4, 2), 0, int32), ()
        yield cls((0,), 0, int32), ()


class Index(Movement, Positioned):
    """One element, at a place that is known when the op is recorded."""

    indices: tuple[int, ...]
    text = Text(("indices",), "core-v1")

    def __post_init__(self) -> None:
        self.set("indices", tuple(map(int, self.indices)))

    @property
    def position(self) -> tuple[int, ...]:
        return self.indices

    def anywhere(self, out: Type, xs: Sequence[Node], starts: Sequence[Node]) -> Node:
        return TABLE["Reshape"](())(TABLE["SliceAt"]((1,) * len(starts))(*xs, *starts))

    def infer(self, x: Type) -> Type:
        if len(self.indices) != x.rank:
            raise ShapeError(
                f"needs one index for each of the {x.rank} dimensions of {x}, "
                f"got {list(self.indices)}",
                code="E4006", indices=len(self.indices), rank=x.rank,
            )  # fmt: skip
        for axis, (i, n) in enumerate(zip(self.indices, x.shape, strict=True)):
            if not 0 <= i < n:
                raise out_of_range(axis, n, i)
        return x.with_shape(())

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x[self.indices])

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        element = b.op(
            "stablehlo.slice", x, out=Type((1,) * len(x.shape), x.dtype),
            start_indices=self.indices, limit_indices=tuple(i + 1 for i in self.indices),
            strides=(1,) * len(x.shape),
        )  # fmt: skip
        return b.reshape(element, ())

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        shape = xs[0].type.shape
        high = tuple(n - i - 1 for i, n in zip(self.indices, shape, strict=True))
        element = TABLE["Reshape"]((1,) * len(shape))(g)
        pad = TABLE["Pad"](self.indices, high, (0,) * len(shape))
        return [pad(element, constant(0, g.type.dtype))]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        stops = (axis.size, *[i + 1 for i in self.indices])
        part = TABLE["Slice"]((0, *self.indices), stops, (1,) * len(stops))(xs[0])
        return TABLE["Reshape"]((axis.size,))(part)

    @classmethod
    def samples(cls) -> Any:
        yield cls((1, 2)), (real(3, 4),)
        yield cls((0,)), (real(1),)
        yield cls(()), (real(),)


class ByPlaces(Op, abstract=True):
    """Index arrays of one shape name places along dimensions `dims` of `x`.

    The first `batched` dimensions of `x` and of the index arrays are the same: each part of the
    index arrays names places in its own part of `x`. What lies at the places has these
    dimensions, then the first `before` of those that are not indexed, then the index arrays' own,
    then the rest. `examples` dimensions of `x` behind the shared ones are not the user's: errors
    do not count them.
    """

    dims: tuple[int, ...]
    batched: int = 0
    before: int = 0
    examples: int = 0
    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set("dims", tuple(map(int, self.dims)))

    @property
    def layout(self) -> tuple[tuple[int, ...], int, int]:
        return self.dims, self.batched, self.before

    def placed(self, x: Type, indices: Sequence[Type]) -> tuple[int, ...]:
        """The shape of what lies at the places."""
        return placed_shape(self.dims, x, indices, self.batched, self.before)

    def places(self, x: np.ndarray, indices: Sequence[np.ndarray]) -> tuple[np.ndarray, tuple]:
        """`x` with its indexed dimensions in front, and the index arrays for it."""
        found = in_range(indices, self.dims, x.shape, self.batched + self.examples)
        front = range(self.batched, self.batched + len(self.dims))
        return np.moveaxis(x, self.dims, front), with_shared(found, self.batched)

    def words(self, x: Type, indices: Sequence[Type]) -> tuple[list[str], list[str], list[str]]:
        """The factors of `x`, of the index arrays, and of what lies at the places."""
        return placed(x.rank, indices[0].rank, *self.layout)

    def together(self, shared: bool) -> ByPlaces:
        """The op on examples whose dimension stands first in `x`; with `shared` in the index
        arrays too."""
        dims = tuple([d + 1 for d in self.dims])
        own = not shared
        return type(self)(dims, self.batched + shared, self.before + own, self.examples + own)


class IndexArrays(ByPlaces):
    """NumPy's integer-array indexing: what lies at the places that index arrays name.

    Without `batched` and `before` the result has the index arrays' shape, followed by the
    dimensions that were not indexed.
    """

    parts = Parts(linear_in=(0,), positions=1)

    def infer(self, x: Type, *indices: Type) -> Type:
        return x.with_shape(self.placed(x, indices))

    def numpy(self, x: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        x, places = self.places(x, indices)
        rank, shared = indices[0].ndim, self.batched
        before = range(rank, rank + self.before)
        return np.asarray(np.moveaxis(x[places], before, range(shared, shared + self.before)))

    def hlo(self, b: Any, out: Type, x: Any, *indices: Any) -> Any:
        require_in_range(b, indices, self.dims, x.shape, self.batched + self.examples)
        return gather(b, out, x, indices, *self.layout)

    def factors(self, x: Type, *indices: Type) -> str:
        value, index, there = self.words(x, indices)
        return rule([value, *[index] * len(indices)], [there])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, *indices = xs
        put = TABLE["ScatterAdd"](*self.layout, self.examples)
        return [put(zeros(x.type), g, *indices), *[None] * len(indices)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0], *xs[1:])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if not any(mapped[1:]) and not self.batched:
            return self.together(shared=False)(*xs)
        x, *indices = xs
        indices = spread_all(axis, indices, mapped[1:])
        if mapped[0]:
            return self.together(shared=True)(x, *indices)
        # All examples read one operand: their dimension is one more of the index arrays' own.
        made = self(x, *[moved(i, 0, self.batched) for i in indices])
        return moved(made, self.batched + self.before, 0)

    @classmethod
    def samples(cls) -> Any:
        yield cls((0, 2)), (real(3, 2, 4), integers(5, high=3), integers(5, high=4, salt=1))
        mixed = np.array([[3, 0]], np.int32), np.array([[2, 2]], np.uint8)
        yield cls((2, 0)), (real(3, 2, 4), *mixed)
        yield cls((0,)), (real(3), np.array([2, 0, 2, 2], np.int64))
        yield cls((0, 1)), (real(3, 4), np.int64(2), np.int64(3))
        yield cls((1,)), (real(3, 4), np.zeros((0, 2), np.int16))
        yield cls((0,)), (real(3, 0), np.array([1, 2], np.uint64))
        yield cls((0,)), (real(0, 2), np.zeros((0,), np.int64))
        yield cls((3, 1), 1, 1), (real(2, 3, 2, 4, 2), *_pair(2, 3))
        yield cls((2,), 2), (real(2, 3, 4), integers(2, 3, high=4))
        yield cls((2,), 0, 2), (real(2, 3, 4), integers(2, 3, high=4))


class _GatherText(Text):
    def least_profile(self, op: Any, xs: Sequence[Type]) -> str:
        return "extended" if op.axis else self.profile


class Gather(Op):
    """The parts of `x` at `indices` along `axis`; the indices' dimensions replace that one.

    Errors do not count the first `examples` dimensions.
    """

    axis: int = 0
    examples: int = 0
    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True
    parts = Parts(linear_in=(0,), positions=1)
    text = _GatherText(profile="core-v1")

    def infer(self, x: Type, indices: Type) -> Type:
        shape = index_shape((self.axis,), x, (indices,))
        return x.with_shape(x.shape[: self.axis] + shape + x.shape[self.axis + 1 :])

    def numpy(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        (places,) = in_range((indices,), (self.axis,), x.shape, self.examples)
        return np.asarray(np.take(x, places, self.axis))

    def hlo(self, b: Any, out: Type, x: Any, indices: Any) -> Any:
        require_in_range(b, (indices,), (self.axis,), x.shape, self.examples)
        return gather(b, out, x, (indices,), (self.axis,), before=self.axis)

    def factors(self, x: Type, indices: Type) -> str:
        value, index, there = placed(x.rank, indices.rank, (self.axis,), before=self.axis)
        return rule([value, index], [there])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, indices = xs
        put = TABLE["ScatterAdd"]((self.axis,), 0, self.axis, self.examples)
        return [put(zeros(x.type), g, indices), None]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0], xs[1])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if not mapped[1]:
            return Gather(self.axis + 1, self.examples + 1)(*xs)
        if not mapped[0]:
            return moved(self(*xs), self.axis, 0)
        return IndexArrays((self.axis + 1,), 1, self.axis, self.examples)(*xs)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(4, 3), np.array([2, 0, 2], np.int64))
        yield cls(1), (real(2, 3, 2), np.array([[2, 0], [1, 1], [2, 2]], np.int32))
        yield cls(1), (real(2, 3), np.uint8(2))
        yield cls(2), (real(2, 1, 3), np.array([1], np.int8))
        yield cls(), (real(4, 3), np.zeros((2, 0), np.int64))
        yield cls(), (real(0, 3), np.zeros((0,), np.int64))


def _pair(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Index arrays for extents of at least 4 and 3."""
    return integers(*shape, high=4), integers(*shape, high=3, salt=1)
