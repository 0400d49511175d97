"""Blocks of a tensor whose place is known only when the program runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.ir.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError
from pullback.ir.types import show
from pullback.ops.base import Node, Op, Type, same_dtype, zeros
from pullback.ops.index import require_below, same_integers
from pullback.ops.sample import real


class DynamicSlice(Op):
    """The block of extents `sizes` that begins at `starts` (integers of rank 0)."""

    sizes: tuple[int, ...]
    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set("sizes", tuple(map(int, self.sizes)))

    def infer(self, x: Type, *starts: Type) -> Type:
        check_block(x, self.sizes, starts)
        return x.with_shape(self.sizes)

    def numpy(self, x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        return np.asarray(x[place(x.shape, self.sizes, starts)])

    def hlo(self, b: Any, out: Type, x: Any, *starts: Any) -> Any:
        require_place(b, x.shape, self.sizes, starts)
        if x.shape == self.sizes:  # the only place is the beginning
            return x
        places = same_integers(b, starts, x.shape)
        return b.op("stablehlo.dynamic_slice", x, *places, out=out, slice_sizes=self.sizes)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, *starts = xs
        return [DynamicUpdateSlice()(zeros(x.type), g, *starts), *[None] * len(starts)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0], *xs[1:])

    @classmethod
    def samples(cls) -> Any:
        yield cls((2, 3)), (real(4, 5), np.int64(2), np.int64(1))
        yield cls((1,)), (real(4), np.uint8(3))
        yield cls(()), (real(),)
        yield cls((2, 0)), (real(4, 3), np.int32(1), np.int16(3))
        yield cls((4, 3)), (real(4, 3), np.int32(0), np.int32(0))


class DynamicUpdateSlice(Op):
    """`x` with the block that begins at `starts` (integers of rank 0) replaced by `update`."""

    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True

    def infer(self, x: Type, update: Type, *starts: Type) -> Type:
        same_dtype(self.title, x, update)
        check_block(x, update.shape, starts)
        return x.with_shape(x.shape)

    def numpy(self, x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        out = np.array(x)
        out[place(x.shape, update.shape, starts)] = update
        return out

    def hlo(self, b: Any, out: Type, x: Any, update: Any, *starts: Any) -> Any:
        require_place(b, x.shape, update.shape, starts)
        if x.shape == update.shape:
            return update
        if not update.type.size:
            return x
        places = same_integers(b, starts, x.shape)
        return b.op("stablehlo.dynamic_update_slice", x, update, *places, out=out)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        _, update, *starts = xs
        return [
            self(g, zeros(update.type), *starts) if need[0] else None,
            DynamicSlice(update.type.shape)(g, *starts) if need[1] else None,
            *[None] * len(starts),
        ]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        x, update, *starts = xs
        return self(ts[0] or zeros(x.type), ts[1] or zeros(update.type), *starts)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(4, 5), real(2, 3), np.int64(2), np.int64(1))
        yield cls(), (real(4), real(1), np.uint8(3))
        yield cls(), (real(), real(salt=1))
        yield cls(), (real(4, 3), real(2, 0), np.int32(1), np.int16(3))
        yield cls(), (real(4, 3), real(4, 3, salt=1), np.int32(0), np.int32(0))


def check_block(x: Type, sizes: tuple[int, ...], starts: Sequence[Type]) -> None:
    fits = len(sizes) == x.rank
    if not fits or any(not 0 <= size <= n for size, n in zip(sizes, x.shape, strict=True)):
        raise ShapeError(f"a block of extents {list(sizes)} does not fit into {x}", code="E3002")
    if len(starts) != x.rank:
        raise ArgumentError(
            f"needs one start for each of the {x.rank} dimensions of {x}, got {len(starts)}"
        )
    for start in starts:
        if not start.dtype.is_integer:
            raise DTypeError(f"starts must be integers, got {show(starts)}", code="E4011")
        if start.shape:
            raise ShapeError(f"starts must have rank 0, got {show(starts)}", code="E3002")


def misplaced(axis: int, extent: int, size: int, start: int | None = None) -> IndexOutOfRange:
    what = "a start" if start is None else f"start {start}"
    return IndexOutOfRange(
        f"{what} is out of range for a block of {size} in axis {axis} of size {extent}: "
        f"it must be at least 0 and at most {extent - size}",
        axis=axis, extent=extent, size=size, start=start,
    )  # fmt: skip


def place(
    shape: tuple[int, ...], sizes: tuple[int, ...], starts: Sequence[np.ndarray]
) -> tuple[slice, ...]:
    """The block as NumPy slices; raises if it does not fit."""
    made = []
    for axis, (n, size, start) in enumerate(zip(shape, sizes, map(int, starts), strict=True)):
        if not 0 <= start <= n - size:
            raise misplaced(axis, n, size, start)
        made.append(slice(start, start + size))
    return tuple(made)


def require_place(
    b: Any, shape: tuple[int, ...], sizes: tuple[int, ...], starts: Sequence[Any]
) -> None:
    """Check the starts at run time: XLA itself would move the block until it fits."""
    for axis, (n, size, start) in enumerate(zip(shape, sizes, starts, strict=True)):
        require_below(b, start, n - size + 1, lambda a=axis, n=n, s=size: misplaced(a, n, s))
