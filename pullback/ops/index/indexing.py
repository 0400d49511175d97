"""Indexing: elements selected by position. An index out of range is an error, not clamped.

Indices count from 0; the API adds the size to negative ones before it records these ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.graph.types import show_types
from pullback.ops.factor_rules import factor_rule, indexed_factors
from pullback.ops.helpers import jvp_in_first
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.index.bounds import (
    index_out_of_bounds,
    index_within_bounds,
    require_index_within_bounds,
)
from pullback.ops.index.index_lowering import gather
from pullback.ops.index.table_rows import take_table_rows
from pullback.ops.prelude import (
    TABLE,
    Axis,
    Node,
    Op,
    Parts,
    Type,
    constant_node,
    spread_all,
    zeros,
)
from pullback.ops.samples import integer_samples, real
from pullback.ops.shape.concat_pad import Pad
from pullback.ops.shape.movement import Movement, Reshape, move_dimension
from pullback.ops.shape.slicing import Slice
from pullback.ops.shape.squeeze_flip_axes import check_axes
from pullback.ops.text import Text
from pullback.ops.traits import HasKernel, HasPosition


class Index(Movement, HasPosition):
    """One element, at a position that is known when the op is recorded."""

    indices: tuple[int, ...]
    text = Text(("indices",), "core-v1")
    int_fields = ("indices",)
    cases = (((1, 2), (3, 4)), ((0,), (1,)), ((), ()))

    @property
    def position(self) -> tuple[int, ...]:
        return self.indices

    def anywhere(self, out: Type, xs: Sequence[Node], starts: Sequence[Node]) -> Node:
        return Reshape(())(TABLE["SliceAt"]((1,) * len(starts))(*xs, *starts))

    def infer(self, x: Type) -> Type:
        if len(self.indices) != x.rank:
            what = f"needs one index for each dimension of {x}, got {list(self.indices)}"
            raise ShapeError(what, code="E4006", indices=len(self.indices), rank=x.rank)
        for axis, (i, n) in enumerate(zip(self.indices, x.shape, strict=True)):
            if not 0 <= i < n:
                raise index_out_of_bounds(axis, n, i)
        return x.with_shape(())

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x[self.indices])

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.reshape(
            hlo_slice_instruction(b, x, self.indices, [i + 1 for i in self.indices]), ()
        )

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        shape = xs[0].type.shape
        high = tuple(n - i - 1 for i, n in zip(self.indices, shape, strict=True))
        element = Reshape((1,) * len(shape))(g)
        pad = Pad(self.indices, high, (0,) * len(shape))
        return [pad(element, constant_node(0, g.type.dtype))]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        stops = (axis.size, *[i + 1 for i in self.indices])
        part = Slice((0, *self.indices), stops, (1,) * len(stops))(xs[0])
        return Reshape((axis.size,))(part)


WHOLE_ROWS = (0,), 0, 0  # the layout of ops whose indices select whole rows


class ArrayIndexingOp(Op, abstract=True):
    """Index arrays of the same shape select positions along dimensions `dims` of `x`.

    The first `batched` dimensions of `x` and of the index arrays are shared: each part of the
    index arrays selects in its own part of `x`. The selected elements have these dimensions, then
    the first `before` of those that are not indexed, then the index arrays' own, then the rest.
    vmap adds `examples` dimensions of `x` after the shared ones: errors do not count them.
    """

    dims: tuple[int, ...]
    batched: int = 0
    before: int = 0
    examples: int = 0
    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True
    int_fields = ("dims",)

    @property
    def layout(self) -> tuple[tuple[int, ...], int, int]:
        return self.dims, self.batched, self.before

    def selected(self, x: Type, indices: Sequence[Type]) -> tuple[int, ...]:
        """The shape of the selected elements."""
        dims, batched, before = self.layout
        shape = index_shape(dims, x, indices, batched)
        rest = [n for i, n in enumerate(x.shape) if i >= batched and i not in dims]
        if not 0 <= before <= len(rest):
            what = f"{before} dimensions cannot precede the indices', {x} has {len(rest)}"
            raise ShapeError(what)
        return (*shape[:batched], *rest[:before], *shape[batched:], *rest[before:])

    def positions_in(self, x: np.ndarray, indices: Sequence[np.ndarray]) -> tuple[Any, tuple]:
        """`x` with its indexed dimensions in front, and the index arrays for it."""
        dims, batched, _ = self.layout
        found = index_within_bounds(indices, dims, x.shape, batched + self.examples)
        front = range(batched, batched + len(dims))
        return np.moveaxis(x, dims, front), index_with_shared(found, batched)

    def widened(self, shared: bool) -> ArrayIndexingOp:
        """The op for a mapped axis in front of `x`, and with `shared` of the index arrays too."""
        dims = tuple([d + 1 for d in self.dims])
        own = not shared
        return type(self)(dims, self.batched + shared, self.before + own, self.examples + own)


class IndexArrays(ArrayIndexingOp, HasKernel):
    """NumPy's integer-array indexing: the elements that index arrays select.

    Without `batched` and `before` the result has the index arrays' shape, followed by the
    dimensions that were not indexed.
    """

    parts = Parts(linear_in=(0,), positions=1)
    jvp = jvp_in_first

    def infer(self, x: Type, *indices: Type) -> Type:
        return x.with_shape(self.selected(x, indices))

    def numpy(self, x: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        x, positions = self.positions_in(x, indices)
        rank, (_, shared, before) = indices[0].ndim, self.layout
        source, target = range(rank, rank + before), range(shared, shared + before)
        return np.asarray(np.moveaxis(x[positions], source, target))

    def hlo(self, b: Any, out: Type, x: Any, *indices: Any) -> Any:
        dims, batched, _ = self.layout
        require_index_within_bounds(b, indices, dims, x.shape, batched + self.examples)
        return gather(b, out, x, indices, *self.layout)

    def kernel(self, b: Any, out: Type, x: Any, *indices: Any) -> Any:
        made = take_table_rows(b, out, x, *indices) if self.layout == WHOLE_ROWS else None
        if made is not None:
            require_index_within_bounds(b, indices, self.layout[0], x.shape, self.examples)
        return made

    def factors(self, x: Type, *indices: Type) -> str:
        value, index, selected = indexed_factors(x.rank, indices[0].rank, *self.layout)
        return factor_rule([value, *[index] * len(indices)], [selected])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, *indices = xs
        put = TABLE["ScatterAdd"](*self.layout, self.examples)
        return [put(zeros(x.type), g, *indices), *[None] * len(indices)]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if not any(mapped[1:]) and not self.batched:
            return self.widened(shared=False)(*xs)
        x, *indices = xs
        indices = spread_all(axis, indices, mapped[1:])
        if mapped[0]:
            return self.widened(shared=True)(x, *indices)
        # All examples read one operand: the mapped axis is one more of the index arrays' own.
        selected = self(x, *[move_dimension(i, 0, self.batched) for i in indices])
        return move_dimension(selected, self.batched + self.before, 0)

    @classmethod
    def samples(cls) -> Any:
        yield (
            cls((0, 2)),
            (real(3, 2, 4), integer_samples(5, high=3), integer_samples(5, high=4, salt=1)),
        )
        mixed = np.array([[3, 0]], np.int32), np.array([[2, 2]], np.uint8)
        yield cls((2, 0)), (real(3, 2, 4), *mixed)
        yield cls((0,)), (real(3), np.array([2, 0, 2, 2], np.int64))
        yield cls((0,)), (real(5, 4), integer_samples(2, 3, high=5))
        yield cls((0, 1)), (real(3, 4), np.int64(2), np.int64(3))
        yield cls((1,)), (real(3, 4), np.zeros((0, 2), np.int16))
        yield cls((0,)), (real(3, 0), np.array([1, 2], np.uint64))
        yield cls((0,)), (real(0, 2), np.zeros((0,), np.int64))
        pair = integer_samples(2, 3, high=4), integer_samples(2, 3, high=3, salt=1)
        yield cls((3, 1), 1, 1), (real(2, 3, 2, 4, 2), *pair)
        yield cls((2,), 2), (real(2, 3, 4), integer_samples(2, 3, high=4))
        yield cls((2,), 0, 2), (real(2, 3, 4), integer_samples(2, 3, high=4))


class _GatherText(Text):
    def least_profile(self, op: Any, xs: Sequence[Type]) -> str:
        return "extended" if op.axis else self.profile


class Gather(Op, HasKernel):
    """The parts of `x` at `indices` along `axis`; the indices' dimensions replace that one.

    Errors do not count the first `examples` dimensions.
    """

    axis: int = 0
    examples: int = 0
    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True
    parts = Parts(linear_in=(0,), positions=1)
    text = _GatherText(profile="core-v1")

    @property
    def layout(self) -> tuple[tuple[int, ...], int, int]:
        return (self.axis,), 0, self.axis

    infer, factors = IndexArrays.infer, IndexArrays.factors  # type: ignore[assignment]
    selected, hlo, kernel = IndexArrays.selected, IndexArrays.hlo, IndexArrays.kernel
    vjp, jvp = IndexArrays.vjp, IndexArrays.jvp

    def numpy(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        (positions,) = index_within_bounds((indices,), (self.axis,), x.shape, self.examples)
        return np.asarray(np.take(x, positions, self.axis))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if not mapped[1]:
            return Gather(self.axis + 1, self.examples + 1)(*xs)
        if not mapped[0]:
            return move_dimension(self(*xs), self.axis, 0)
        return IndexArrays((self.axis + 1,), 1, self.axis, self.examples)(*xs)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(4, 3), np.array([2, 0, 2], np.int64))
        yield cls(), (real(5, 4), integer_samples(2, 3, high=5))
        yield cls(1), (real(2, 3, 2), np.array([[2, 0], [1, 1], [2, 2]], np.int32))
        yield cls(1), (real(2, 3), np.uint8(2))
        yield cls(2), (real(2, 1, 3), np.array([1], np.int8))
        yield cls(), (real(4, 3), np.zeros((2, 0), np.int64))
        yield cls(), (real(0, 3), np.zeros((0,), np.int64))


def index_shape(
    dims: Sequence[int], x: Type, indices: Sequence[Type], batched: int = 0
) -> tuple[int, ...]:
    """The common shape of the index arrays; raises if they do not fit `dims` of `x`."""
    if not dims or len(indices) != len(dims):
        what = f"needs one index array for each of the dimensions {list(dims)}"
        raise ArgumentError(f"{what}, got {len(indices)}")
    check_axes(dims, x.rank)
    for i in indices:
        if not i.dtype.is_integer:
            what = f"indices must be integers, got {show_types(indices)}"
            raise DTypeError(what, code="E4011", dtype=i.dtype.name)
        if i.shape != indices[0].shape:
            what = f"index arrays must have the same shape, got {show_types(indices)}"
            raise ShapeError(what, code="E3001")
    shape = indices[0].shape
    if min(dims) < batched or len(shape) < batched or shape[:batched] != x.shape[:batched]:
        what = f"the first {batched} dimensions of operand and index arrays must agree"
        got = f"{x} with {show_types(indices)} for {list(dims)}"
        raise ShapeError(f"{what} and not be indexed, got {got}", code="E3001")
    return shape


def index_with_shared(indices: tuple[np.ndarray, ...], batched: int) -> tuple[np.ndarray, ...]:
    """Index arrays for the shared dimensions too: every element has its own position there."""
    shape = indices[0].shape
    own = [np.arange(n).reshape(-1, *[1] * (len(shape) - i - 1)) for i, n in enumerate(shape)]
    return (*own[:batched], *indices)
