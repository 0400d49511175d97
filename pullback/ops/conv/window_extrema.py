"""Extrema of sliding windows, and the elements at their taps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import dtype, int32
from pullback.ops.conv.window_reduce import WindowReduction
from pullback.ops.conv.windows import UNROLLED, pad_for_windows
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.prelude import Axis, Node, Op, Parts, Type, jvp_in_first
from pullback.ops.reduce.extrema import MAXIMUM, MINIMUM, Extremum
from pullback.ops.reduce.reductions import reduction_accumulator, widened_reduction_operand
from pullback.ops.samples import integer_samples, real


class WindowIndex(WindowReduction):
    """The tap of each window's greatest (or least) element: the first NaN, or the first of equal
    elements."""

    greatest: bool = True
    differentiable: ClassVar[bool] = False

    def infer(self, x: Type) -> Type:
        return super().infer(x).with_dtype(int32)

    @property
    def of(self) -> Extremum:
        return MAXIMUM if self.greatest else MINIMUM

    def more(self, axis: Axis) -> tuple:
        return (self.greatest,)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        seen = self.seen(x, self.of.identity(dtype(x.dtype)))
        return self.of.index(seen, -1).astype(np.int32)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        index = b.full(out, 0)
        if not out.size:
            return index
        walk = self.walk(b, out.shape)

        def step(n: Any, x: Any, best: Any, index: Any) -> tuple:
            here = walk.take(x, n)
            better = self.of.beats(b, here, best)
            number = b.constant(n, int32) if isinstance(n, int) else n
            number = b.broadcast(number, index.shape)
            return x, b.select(better, here, best), b.select(better, number, index)

        x = pad_for_windows(b, x, self.padding, (1,) * len(x.shape), self.of.identity(x.dtype))
        index = walk.fold((x, walk.take(x, 0), index), step)[2]
        return window_extremum_index_once(b, index, math.prod(self.window))

    @classmethod
    def samples(cls) -> Any:
        for i, (op, xs) in enumerate(super().samples()):
            yield cls(*op.geometry, bool(i % 2)), xs
        ties = np.array([1.0, np.nan, 1.0, 1.0, 0.0, np.nan, np.nan, 2.0])
        yield cls((3,), (1,), ((1, 1),)), (ties,)
        yield cls((3,), (1,), ((1, 1),), (), False), (ties,)


class AtWindowExtremum(WindowReduction, abstract=True):
    """Linear in its first operand; the second is the number of a tap for each window."""

    kinds = "fc"
    parts = Parts(linear_in=(0,), positions=1)
    jvp = jvp_in_first


class WindowTake(AtWindowExtremum):
    """The element of each window at tap `index`; padding is 0."""

    def infer(self, x: Type, index: Type) -> Type:
        return _window_extrema_index(super().infer(x), index)

    def numpy(self, x: np.ndarray, index: np.ndarray) -> np.ndarray:
        return np.take_along_axis(self.seen(x, 0), index[..., None], -1)[..., 0]

    def hlo(self, b: Any, out: Type, x: Any, index: Any) -> Any:
        taken = b.full(out, 0)
        if not out.size:
            return taken
        walk = self.walk(b, out.shape)
        x = pad_for_windows(b, x, self.padding, (1,) * len(x.shape), 0)
        _, _, taken = walk.fold((x, index, taken), lambda n, x, index, taken: (
            x, index, b.select(walk.is_tap(index, n), walk.take(x, n), taken)))  # fmt: skip
        return taken

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [WindowPut(*self.geometry, xs[0].type.shape)(g, xs[1]), None]

    @classmethod
    def samples(cls) -> Any:
        for op, (x,) in super().samples():
            yield op, (x, _window_extrema_taps(op, x.shape))


class WindowPut(AtWindowExtremum):
    """The transpose of WindowTake: zeros of `shape` with each window's element added at its tap
    `index`; elements in the padding are dropped."""

    shape: tuple[int, ...] = ()

    def infer(self, x: Type, index: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        self.check(x.rank)
        wanted = Type(self.counts(self.shape), x.dtype)
        if x.shape != wanted.shape:
            raise ShapeError(f"needs one element for each window, {wanted}, got {x}")
        return _window_extrema_index(x, index).with_shape(self.shape)

    def more(self, axis: Axis) -> tuple:
        return ((axis.size, *self.shape),)

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        return WindowPut(*self.geometry, out.shape)

    def numpy(self, x: np.ndarray, index: np.ndarray) -> np.ndarray:
        out = np.zeros(self.shape, widened_reduction_operand(x).dtype)
        taps = np.unravel_index(index, self.window)
        at, inside = [], np.ones(x.shape, bool)
        for axis, (tap, n) in enumerate(zip(taps, self.shape, strict=True)):
            first = np.arange(x.shape[axis]) * self.strides[axis] - self.padding[axis][0]
            first = first.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            at.append(first + tap * self.window_dilation[axis])
            inside &= (at[-1] >= 0) & (at[-1] < n)
        np.add.at(out, tuple(position[inside] for position in at), x[inside])
        return out.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, index: Any) -> Any:
        if not x.type.size:
            return b.full(out, 0)
        x = b.convert(x, reduction_accumulator(x.dtype))
        walk, zero = self.walk(b, x.shape), b.full(x.type, 0)
        wider = tuple(n + low + high for n, (low, high) in zip(out.shape, self.padding))

        def step(n: Any, x: Any, index: Any, zero: Any, total: Any) -> tuple:
            here = b.select(walk.is_tap(index, n), x, zero)
            return x, index, zero, walk.add(total, here, n)

        if walk.few and math.prod(self.strides) <= UNROLLED:
            total = walk.scatter(lambda n: b.select(walk.is_tap(index, n), x, zero), wider)
        else:
            total = walk.loop((x, index, zero, b.full(Type(wider, x.dtype), 0)), step)[3]
        border = tuple((-low, -high) for low, high in self.padding)
        return b.convert(pad_for_windows(b, total, border, (1,) * len(border), 0), out.dtype)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [WindowTake(*self.geometry)(g, xs[1]), None]

    @classmethod
    def samples(cls) -> Any:
        for op, (x,) in super().samples():
            index = _window_extrema_taps(op, x.shape)
            yield cls(*op.geometry, x.shape), (real(*index.shape), index)


class WindowExtremum(WindowReduction, abstract=True):
    """The greatest or least element of each window; its derivative is 1 at the first such."""

    of: ClassVar[Extremum]

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.of.ufunc.reduce(self.seen(x, self.of.identity(dtype(x.dtype))), -1))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return self.combine_taps(b, out, x, self.of.stablehlo, self.of.identity(x.dtype))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [WindowPut(*self.geometry, xs[0].type.shape)(g, self.index(xs[0]))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        return WindowTake(*self.geometry)(ts[0], self.index(xs[0]))

    def index(self, x: Node) -> Node:
        return WindowIndex(*self.geometry, self.of is MAXIMUM)(x)


class WindowMax(WindowExtremum):
    """The greatest element of each window, NaN if it holds one."""

    of = MAXIMUM


class WindowMin(WindowExtremum):
    """The least element of each window, NaN if it holds one."""

    of = MINIMUM


def _window_extrema_taps(op: WindowReduction, shape: tuple[int, ...]) -> np.ndarray:
    """For samples: the number of a tap for each window over an operand of this shape."""
    return integer_samples(*op.counts(shape), high=math.prod(op.window)).astype(np.int32)


def _window_extrema_index(x: Type, index: Type) -> Type:
    """The type `x`; raises unless `index` has one tap number for each of its elements."""
    if index.shape != x.shape or index.dtype is not int32:
        raise ShapeError(f"the index must be {x.with_dtype(int32)}, got {index}")
    return x


def window_extremum_index_once(b: Any, index: Any, limit: int) -> Any:
    """`index` (at least 0, below `limit`) in a form that XLA does not recompute in each use. XLA
    duplicates cheap work into the consumers, but not a remainder by an unknown divisor."""
    below = b.op("stablehlo.minimum", index, b.full(index.type, 0), out=index.type)
    divisor = b.op("stablehlo.subtract", b.full(index.type, limit), below, out=index.type)
    return b.op("stablehlo.remainder", index, divisor, out=index.type)
