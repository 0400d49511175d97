"""Blocks of a tensor at positions that are known only when the program runs.

They begin at `starts`: for each dimension of a block, integers of the same shape. The first
`batched` dimensions of the tensor and of the starts are shared: each start is in its own part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError
from pullback.graph.dtypes import int64
from pullback.graph.types import show_types
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.helpers import jvp_in_first
from pullback.ops.index.bounds import require_below_bound
from pullback.ops.index.index_lowering import (
    gather,
    lower_block_update,
    lower_index_integers,
    lower_scatter,
)
from pullback.ops.parts import Parts
from pullback.ops.prelude import Axis, Node, Op, Type, constant_node, same_dtype, spread_all, zeros
from pullback.ops.samples import integer_samples, real
from pullback.ops.shape.movement import move_dimension


class DynamicSlice(Op):
    """The blocks of `sizes` that begin at `starts`.

    The result has the shape of the starts, followed by `sizes`.
    """

    sizes: tuple[int, ...]
    batched: int = 0
    examples: int = 0  # dimensions in front that vmap added: errors do not count them
    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True
    parts = Parts(linear_in=(0,), positions=1)
    jvp = jvp_in_first
    int_fields = ("sizes",)

    def infer(self, x: Type, *starts: Type) -> Type:
        return x.with_shape(
            (*check_dynamic_blocks(x, self.sizes, starts, self.batched), *self.sizes)
        )

    def numpy(self, x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        shape = starts[0].shape if starts else ()
        out = np.empty((*shape, *self.sizes), x.dtype)
        for one, at in dynamic_blocks(self, x.shape, self.sizes, starts):
            out[one] = x[at]
        return out

    def hlo(self, b: Any, out: Type, x: Any, *starts: Any) -> Any:
        require_dynamic_fit(b, self, x.shape, self.sizes, starts)
        if x.shape == out.shape:  # the only position is the beginning
            return x
        if not starts[0].shape:
            at = lower_index_integers(b, starts, x.shape)
            return b.op("stablehlo.dynamic_slice", x, *at, out=out, slice_sizes=self.sizes)
        dims = range(self.batched, len(x.shape))
        return gather(b, out, x, starts, dims, self.batched, 0, (*(1,) * self.batched, *self.sizes))

    def factors(self, x: Type, *starts: Type) -> str:
        value, start, blocks = dynamic_block_factors(x, self.sizes, starts, self.batched)
        return factor_rule([value, *[start] * len(starts)], [blocks])

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        return DynamicSlice(out.shape[out.rank - len(self.sizes) :], self.batched, self.examples)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, *starts = xs
        # Blocks of one part may overlap and are added; a single one is written.
        alone = not starts or starts[0].type.rank == self.batched
        put = (DynamicUpdateSlice if alone else DynamicUpdateAdd)(self.batched, self.examples)
        return [put(zeros(x.type), g, *starts), *[None] * len(starts)]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        x, *starts = xs
        if not any(mapped[1:]) and not (starts and starts[0].type.rank):
            whole = DynamicSlice((axis.size, *self.sizes), 0, self.examples + 1)
            return whole(x, constant_node(0, int64), *starts)
        starts = spread_all(axis, starts, mapped[1:])
        if mapped[0]:
            return DynamicSlice(self.sizes, self.batched + 1, self.examples)(x, *starts)
        # All examples read one operand: the mapped axis is one more dimension of the starts.
        blocks = self(x, *[move_dimension(i, 0, self.batched) for i in starts])
        return move_dimension(blocks, self.batched, 0)

    @classmethod
    def samples(cls) -> Any:
        yield cls((2, 3)), (real(4, 5), np.int64(2), np.int64(1))
        yield cls((1,)), (real(4), np.uint8(3))
        yield cls(()), (real(),)
        yield cls((2, 0)), (real(4, 3), np.int32(1), np.int16(3))
        yield cls((4, 3)), (real(4, 3), np.int32(0), np.int32(0))
        for op, (x, _, *starts) in DynamicUpdateAdd.samples():
            yield cls((2, 3), op.batched), (x, *starts)


class BlockWrite(Op, abstract=True):
    """Writes blocks; `x` and `updates` have the same dtype."""

    batched: int = 0
    examples: int = 0
    stablehlo: ClassVar[str]  # how a block is combined with `x`: "set" or "add"
    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True
    parts = Parts(positions=2)

    def infer(self, x: Type, updates: Type, *starts: Type) -> Type:
        same_dtype(self.title, x, updates)
        sizes = self.sizes(updates.shape, starts)
        shape = check_dynamic_blocks(x, sizes, starts, self.batched)
        if updates.shape[: len(shape)] != shape:
            raise ShapeError(f"needs one block for each start, got {updates}, {show_types(starts)}")
        return x.with_shape(x.shape)

    def sizes(self, updates: tuple[int, ...], starts: Sequence[Any]) -> tuple[int, ...]:
        """The sizes of a block."""
        return updates[len(starts[0].shape) if starts else 0 :]

    def numpy(self, x: np.ndarray, updates: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        out = np.array(x)
        for one, at in dynamic_blocks(self, x.shape, self.sizes(updates.shape, starts), starts):
            out[at] = updates[one] if self.stablehlo == "set" else out[at] + updates[one]
        return out

    def hlo(self, b: Any, out: Type, x: Any, updates: Any, *starts: Any) -> Any:
        require_dynamic_fit(b, self, x.shape, self.sizes(updates.shape, starts), starts)
        return self.write(b, x, updates, starts) if updates.type.size else x

    def write(self, b: Any, x: Any, updates: Any, starts: Sequence[Any]) -> Any:
        dims = range(self.batched, len(x.shape))
        return lower_scatter(b, x, updates, starts, dims, self.stablehlo, self.batched, blocks=True)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        _, updates, *starts = xs
        sizes = self.sizes(updates.type.shape, starts)
        read = DynamicSlice(sizes, self.batched, self.examples)
        of_x = g if need[0] else None
        if need[0] and self.stablehlo == "set":
            of_x = self(g, zeros(updates.type), *starts)
        return [of_x, read(g, *starts) if need[1] else None, *[None] * len(starts)]

    def factors(self, x: Type, updates: Type, *starts: Type) -> str:
        sizes = self.sizes(updates.shape, starts)
        value, start, blocks = dynamic_block_factors(x, sizes, starts, self.batched)
        return factor_rule([value, blocks, *[start] * len(starts)], [value])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        starts = xs[2:]
        if any(mapped[2:]) or (starts and starts[0].type.rank):
            return type(self)(self.batched + 1, self.examples)(*spread_all(axis, xs, mapped))
        whole = type(self)(self.batched, self.examples + 1)
        return whole(*spread_all(axis, xs[:2], mapped[:2]), constant_node(0, int64), *starts)


class DynamicUpdateSlice(BlockWrite):
    """`x` with the blocks that begin at `starts` replaced, one in each part of `x`."""

    stablehlo = "set"

    def infer(self, x: Type, updates: Type, *starts: Type) -> Type:
        if starts and starts[0].rank != self.batched:
            raise ShapeError(f"starts must have rank {self.batched}, got {show_types(starts)}")
        return super().infer(x, updates, *starts)

    def write(self, b: Any, x: Any, updates: Any, starts: Sequence[Any]) -> Any:
        if x.shape == updates.shape:
            return updates
        if self.batched:
            return super().write(b, x, updates, starts)
        return lower_block_update(b, x, updates, lower_index_integers(b, starts, x.shape))

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        x, updates, *starts = xs
        return self(ts[0] or zeros(x.type), ts[1] or zeros(updates.type), *starts)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(4, 5), real(2, 3), np.int64(2), np.int64(1))
        yield cls(), (real(4), real(1), np.uint8(3))
        yield cls(), (real(), real(salt=1))
        yield cls(), (real(4, 3), real(2, 0), np.int32(1), np.int16(3))
        yield cls(), (real(4, 3), real(4, 3, salt=1), np.int32(0), np.int32(0))
        yield cls(1), (real(2, 4), real(2, 3, salt=1), integer_samples(2, high=2))


class DynamicUpdateAdd(BlockWrite):
    """`x` with blocks added that begin at `starts`; they may overlap."""

    stablehlo = "add"
    kinds = "iufc"
    parts = Parts(counted_once=(0,), positions=2)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        if ts[1] is None:
            return ts[0]
        return self(ts[0] or zeros(xs[0].type), ts[1], *xs[2:])

    @classmethod
    def samples(cls) -> Any:
        rows, columns = np.array([2, 0, 1, 2]), np.array([1, 2, 2, 0], np.int32)
        yield cls(), (real(4, 5), real(4, 2, 3), rows, columns)
        rows, columns = rows.reshape(2, 2), columns.reshape(2, 2)
        yield cls(1), (real(2, 4, 5), real(2, 2, 2, 3), rows, columns)
        yield cls(2), (real(2, 2, 4, 5), real(2, 2, 2, 3), rows, columns)


def check_dynamic_blocks(
    x: Type, sizes: tuple[int, ...], starts: Sequence[Type], batched: int
) -> tuple[int, ...]:
    """The starts' shape; raises if the blocks do not fit."""
    whole = x.shape[batched:]
    if len(sizes) != len(whole) or not all(0 <= k <= n for k, n in zip(sizes, whole)):
        raise ShapeError(f"a block of sizes {list(sizes)} does not fit into {x}", code="E3002")
    if len(starts) != len(whole):
        raise ArgumentError(f"needs {len(whole)} starts for {x}, got {len(starts)}")
    for start in starts:
        if not start.dtype.is_integer:
            raise DTypeError(f"starts must be integers, got {show_types(starts)}", code="E4011")
        if start.shape != starts[0].shape:
            raise ShapeError(
                f"starts must have the same shape, got {show_types(starts)}", code="E3002"
            )
    shape = starts[0].shape if starts else ()
    if shape[:batched] != x.shape[:batched]:
        what = f"the first {batched} dimensions of operand and starts must agree"
        raise ShapeError(f"{what}, got {x} with {show_types(starts)}", code="E3001")
    return shape


def dynamic_block_factors(
    x: Type, sizes: tuple[int, ...], starts: Sequence[Type], batched: int
) -> tuple[list[str], list[str], list[str]]:
    """The factors of a tensor, of the starts and of the blocks; a dimension that a block covers
    may be split."""
    cut = [i for i, n in enumerate(sizes, batched) if n != x.shape[i]]
    value = factor_rule_names(x.rank, cut)
    rank = starts[0].rank if starts else 0
    start = [*value[:batched], *[f"s{i}" for i in range(batched, rank)]]
    return value, start, [*start, *value[batched:]]


def dynamic_block_does_not_fit(
    axis: int, extent: int, size: int, start: int | None = None
) -> IndexOutOfRange:
    what = "a start" if start is None else f"start {start}"
    where = f"out of range for a block of {size} in axis {axis} of size {extent}"
    message = f"{what} is {where}: it must be at least 0 and at most {extent - size}"
    return IndexOutOfRange(message, axis=axis, extent=extent, size=size, start=start)


def dynamic_blocks(
    op: Any, shape: tuple[int, ...], sizes: tuple[int, ...], starts: Sequence[np.ndarray]
) -> Iterator[tuple[tuple[int, ...], tuple]]:
    """Each block's index among the blocks, and its slices of the tensor; raises if it does not
    fit."""
    for one in np.ndindex(starts[0].shape if starts else ()):
        at: list[Any] = list(one[: op.batched])
        for axis, (n, size) in enumerate(zip(shape[op.batched :], sizes, strict=True)):
            start = int(starts[axis][one])
            if not 0 <= start <= n - size:
                raise dynamic_block_does_not_fit(axis - op.examples, n, size, start)
            at.append(slice(start, start + size))
        yield one, tuple(at)


def require_dynamic_fit(
    b: Any, op: Any, shape: tuple[int, ...], sizes: tuple[int, ...], starts: Sequence[Any]
) -> None:
    """Check the starts at run time: XLA would move a block until it fits."""
    sides = zip(shape[op.batched :], sizes, starts, strict=True)
    for axis, (n, size, start) in enumerate(sides, -op.examples):
        if start.type.size:
            require_below_bound(
                b,
                start,
                n - size + 1,
                lambda a=axis, n=n, s=size: dynamic_block_does_not_fit(a, n, s),
            )
