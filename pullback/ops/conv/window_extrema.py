"""The largest and smallest elements of sliding windows, by their places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import dtype, float32, int32
from pullback.ops.conv.window_reduce import Windowed
from pullback.ops.conv.windows import (
    UNROLLED,
    computed_once,
    pad,
    worst,
)
from pullback.ops.elementwise.base import check_kind
from pullback.ops.linalg.contraction import wide
from pullback.ops.parts import Parts
from pullback.ops.prelude import Axis, Node, Op, Type
from pullback.ops.samples import integers, real


class WindowIndex(Windowed):
    """The tap that holds each window's greatest (or least) element: the first NaN, if there is
    one, else the first of equals."""

    greatest: bool = True
    differentiable: ClassVar[bool] = False

    def infer(self, x: Type) -> Type:
        return super().infer(x).with_dtype(int32)

    def more(self, axis: Axis) -> tuple:
        return (self.greatest,)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        seen = wide(self.seen(x, worst(dtype(x.dtype), not self.greatest)))
        return (np.argmax if self.greatest else np.argmin)(seen, -1).astype(np.int32)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        index = b.full(out, 0)
        if not out.size:
            return index
        walk = self.walk(b, out.shape)

        def step(n: Any, x: Any, best: Any, index: Any) -> tuple:
            here = walk.take(x, n)
            better = b.compare("GT" if self.greatest else "LT", here, best)
            if x.dtype.is_float:
                fresh = [b.compare("NE", here, here), b.compare("EQ", best, best)]
                fresh = b.op("stablehlo.and", *fresh, out=better.type)
                better = b.op("stablehlo.or", better, fresh, out=better.type)
            number = b.constant(n, int32) if isinstance(n, int) else n
            number = b.broadcast(number, index.shape)
            return x, b.select(better, here, best), b.select(better, number, index)

        x = pad(b, x, self.padding, (1,) * len(x.shape), worst(x.dtype, not self.greatest))
        index = walk.fold((x, walk.take(x, 0), index), step)[2]
        return computed_once(b, index, math.prod(self.window))

    @classmethod
    def samples(cls) -> Any:
        for i, (op, xs) in enumerate(super().samples()):
            yield cls(*op.geometry, bool(i % 2)), xs
        ties = np.array([1.0, np.nan, 1.0, 1.0, 0.0, np.nan, np.nan, 2.0])
        yield cls((3,), (1,), ((1, 1),)), (ties,)
        yield cls((3,), (1,), ((1, 1),), (), False), (ties,)


class ByTap(Windowed, abstract=True):
    """Linear in its first operand; the second names a tap for each window."""

    kinds = "fc"
    parts = Parts(linear_in=(0,), positions=1)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0], xs[1])


class WindowTake(ByTap):
    """Of each window, the element at tap `index`; padding holds 0."""

    def infer(self, x: Type, index: Type) -> Type:
        return _with_index(super().infer(x), index)

    def numpy(self, x: np.ndarray, index: np.ndarray) -> np.ndarray:
        return np.take_along_axis(self.seen(x, 0), index[..., None], -1)[..., 0]

    def hlo(self, b: Any, out: Type, x: Any, index: Any) -> Any:
        taken = b.full(out, 0)
        if not out.size:
            return taken
        walk = self.walk(b, out.shape)
        x = pad(b, x, self.padding, (1,) * len(x.shape), 0)
        _, _, taken = walk.fold((x, index, taken), lambda n, x, index, taken: (
            x, index, b.select(walk.is_tap(index, n), walk.take(x, n), taken)))  # fmt: skip
        return taken

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [WindowPut(*self.geometry, xs[0].type.shape)(g, xs[1]), None]

    @classmethod
    def samples(cls) -> Any:
        for op, (x,) in super().samples():
            counts, taps = op.counts(x.shape), math.prod(op.window)
            yield op, (x, integers(*counts, high=taps).astype(np.int32))


class WindowPut(ByTap):
    """The transpose of WindowTake: a tensor of `shape` with each window's element added at its
    tap `index`; what falls into padding is lost."""

    shape: tuple[int, ...] = ()

    def infer(self, x: Type, index: Type) -> Type:
        check_kind(x.dtype, self.kinds)
        self.check(x.rank)
        wanted = Type(self.counts(self.shape), x.dtype)
        if x.shape != wanted.shape:
            raise ShapeError(f"there must be one element for each window: {wanted}, got {x}")
        return _with_index(x, index).with_shape(self.shape)

    def more(self, axis: Axis) -> tuple:
        return ((axis.size, *self.shape),)

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        return WindowPut(*self.geometry, out.shape)

    def numpy(self, x: np.ndarray, index: np.ndarray) -> np.ndarray:
        made = np.zeros(self.shape, wide(x).dtype)
        taps = np.unravel_index(index, self.window)
        at, inside = [], np.ones(x.shape, bool)
        for axis, (tap, n) in enumerate(zip(taps, self.shape, strict=True)):
            first = np.arange(x.shape[axis]) * self.strides[axis] - self.padding[axis][0]
            first = first.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            at.append(first + tap * self.window_dilation[axis])
            inside &= (at[-1] >= 0) & (at[-1] < n)
        np.add.at(made, tuple(position[inside] for position in at), x[inside])
        return made.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, index: Any) -> Any:
        if not x.type.size:
            return b.full(out, 0)
        short = x.dtype.is_float and x.dtype.bits < 32
        x = b.convert(x, float32) if short else x
        walk, zero = self.walk(b, x.shape), b.full(x.type, 0)
        wider = tuple(n + low + high for n, (low, high) in zip(out.shape, self.padding))

        def step(n: Any, x: Any, index: Any, zero: Any, total: Any) -> tuple:
            here = b.select(walk.is_tap(index, n), x, zero)
            return x, index, zero, walk.add(total, here, n)

        if walk.few and math.prod(self.strides) <= UNROLLED:
            total = walk.gather(lambda n: b.select(walk.is_tap(index, n), x, zero), wider)
        else:
            total = walk.loop((x, index, zero, b.full(Type(wider, x.dtype), 0)), step)[3]
        border = tuple((-low, -high) for low, high in self.padding)
        return b.convert(pad(b, total, border, (1,) * len(border), 0), out.dtype)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [WindowTake(*self.geometry)(g, xs[1]), None]

    @classmethod
    def samples(cls) -> Any:
        for op, (x,) in super().samples():
            counts, taps = op.counts(x.shape), math.prod(op.window)
            index = integers(*counts, high=taps).astype(np.int32)
            yield cls(*op.geometry, x.shape), (real(*counts), index)


class _WindowExtremum(Windowed, abstract=True):
    """The greatest or least element of each window; its derivative is 1 at the first such."""

    greatest: ClassVar[bool]

    def numpy(self, x: np.ndarray) -> np.ndarray:
        reduce = (np.maximum if self.greatest else np.minimum).reduce
        start = worst(dtype(x.dtype), not self.greatest)
        return np.asarray(reduce(self.seen(x, start), -1))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        start = worst(x.dtype, not self.greatest)
        best = b.full(out, start)
        if not out.size:
            return best
        walk, name = self.walk(b, out.shape), "maximum" if self.greatest else "minimum"
        x = pad(b, x, self.padding, (1,) * len(x.shape), start)
        _, best = walk.fold((x, best), lambda n, x, best: (
            x, b.op(f"stablehlo.{name}", best, walk.take(x, n), out=out)))  # fmt: skip
        return best

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [WindowPut(*self.geometry, xs[0].type.shape)(g, self.index(xs[0]))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else WindowTake(*self.geometry)(ts[0], self.index(xs[0]))

    def index(self, x: Node) -> Node:
        return WindowIndex(*self.geometry, self.greatest)(x)


class WindowMax(_WindowExtremum):
    """The greatest element of each window, NaN if it holds one."""

    greatest: ClassVar[bool] = True


class WindowMin(_WindowExtremum):
    """The least element of each window, NaN if it holds one."""

    greatest: ClassVar[bool] = False


def _with_index(x: Type, index: Type) -> Type:
    """The type `x`, if `index` has one tap number for each of its elements."""
    if index.shape != x.shape or index.dtype is not int32:
        raise ShapeError(f"the index must be {x.with_dtype(int32)}, got {index}")
    return x
