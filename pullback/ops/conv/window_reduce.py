"""Reductions over sliding windows, the basis of pooling: the base class, and sums."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.ops.conv import windows
from pullback.ops.conv.windows import (
    Padding,
    WindowTaps,
    pad_for_windows,
    padded_for_windows,
    window_pairs,
)
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.factor_rules import factor_rule
from pullback.ops.prelude import Axis, Node, Op, Type, spread_all
from pullback.ops.reduce.reductions import reduction_accumulator, widened_reduction_operand
from pullback.ops.samples import complex_samples, real

Numbers = tuple[int, ...]


class WindowReduction(Op, abstract=True):
    """A window with a size, stride, padding and dilation for every dimension. An empty dilation is
    1 everywhere."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Padding
    window_dilation: tuple[int, ...] = ()
    kinds: ClassVar[str] = "iuf"

    def __post_init__(self) -> None:
        self.set("padding", window_pairs(self.padding))
        self.set("window_dilation", tuple(self.window_dilation) or (1,) * len(self.window))

    @property
    def geometry(self) -> tuple[Numbers, Numbers, Padding, Numbers]:
        return (self.window, self.strides, self.padding, self.window_dilation)

    def check(self, rank: int) -> None:
        if not rank:
            raise ShapeError("a window needs at least one dimension, got a scalar", code="E3002")
        if any(len(field) != rank for field in self.geometry):
            what = f"window, strides, padding and dilation need {rank} entries"
            raise ShapeError(f"{what}, got {', '.join(map(str, self.geometry))}", code="E3002")
        for name in ("window", "strides", "window_dilation"):
            if min(getattr(self, name)) < 1:
                what = f"{name} must be positive, got {getattr(self, name)}"
                raise ShapeError(what, code="E3006")
        if math.prod(self.window) >= 2**31:  # elements of a window are counted in i32
            what = f"a window must have fewer than 2**31 elements, got {self.window}"
            raise ShapeError(what, code="E3006")

    def counts(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The number of windows along each dimension."""
        return tuple(map(windows.count_windows, shape, *self.geometry))

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        self.check(x.rank)
        return x.with_shape(self.counts(x.shape))

    def seen(self, x: np.ndarray, value: Any) -> np.ndarray:
        """The elements of each window along a new last dimension; padding is `value`."""
        counts = self.counts(x.shape)
        if 0 in counts:
            return np.empty((*counts, math.prod(self.window)), x.dtype)
        x = padded_for_windows(x, self.padding, (1,) * x.ndim, value)
        reach = tuple(map(windows.dilated_window, self.window, self.window_dilation))
        view = np.lib.stride_tricks.sliding_window_view(x, reach)
        steps = (*self.strides, *self.window_dilation)
        return view[tuple(slice(None, None, s) for s in steps)].reshape(*counts, -1)

    def walk(self, b: Any, counts: Sequence[int]) -> WindowTaps:
        return WindowTaps(b, self.window, counts, self.strides, self.window_dilation)

    def combine_taps(
        self, b: Any, out: Type, x: Any, mnemonic: str, start: Any, dilation: Numbers = ()
    ) -> Any:
        """Combine the elements of each window with a binary instruction; padding is `start`."""
        total = b.full(out, start)
        if not out.size:
            return total
        x = pad_for_windows(b, x, self.padding, dilation or (1,) * out.rank, start)
        walk = self.walk(b, out.shape)
        return walk.fold((x, total), lambda n, x, total: (
            x, b.op(f"stablehlo.{mnemonic}", total, walk.take(x, n), out=out)))[1]  # fmt: skip

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        window, strides, padding, dilation = self.geometry
        wider = ((1, *window), (1, *strides), ((0, 0), *padding), (1, *dilation))
        return type(self)(*wider, *self.more(axis))(*spread_all(axis, xs, mapped))

    def still(self) -> list[bool]:
        """For each dimension, whether every window along it is one element."""
        sides = zip(self.window, self.strides, self.padding, strict=True)
        return [side == (1, 1, (0, 0)) for side in sides]

    def factors(self, *xs: Type) -> str:
        words = [f"d{i}" if still else "_" for i, still in enumerate(self.still())]
        return factor_rule([words] * len(xs), [words])

    def more(self, axis: Axis) -> tuple:
        """The parameters after the geometry, for operands with the mapped axis in front."""
        return ()

    @classmethod
    def samples(cls) -> Iterator[tuple[WindowReduction, tuple]]:
        yield cls((2, 2), (2, 2), ((0, 0), (0, 0))), (real(4, 6),)
        yield cls((1, 3, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 1), (0, 1), (0, 0))), (real(2, 6, 4, 2),)
        yield cls((3,), (2,), ((2, 0),), (2,)), (real(9),)
        yield cls((2, 3), (1, 2), ((0, 0), (-1, 1))), (real(3, 7),)
        yield cls((9, 9), (1, 2), ((0, 0), (3, 3)), (1, 1)), (real(10, 9),)
        yield cls((2, 1), (70, 3), ((0, 0), (0, 0))), (real(73, 5),)
        yield cls((3,), (1,), ((0, 0),)), (real(2),)


class WindowSum(WindowReduction):
    """The sum of each window; `base_dilation` first inserts gaps between the elements."""

    base_dilation: tuple[int, ...] = ()
    kinds = "iufc"
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.set("base_dilation", tuple(self.base_dilation) or (1,) * len(self.window))

    def check(self, rank: int) -> None:
        super().check(rank)
        if len(self.base_dilation) != rank or min(self.base_dilation, default=1) < 1:
            raise ShapeError(f"base_dilation must be positive, got {self.base_dilation}")

    def counts(self, shape: Sequence[int]) -> tuple[int, ...]:
        return super().counts(tuple(map(windows.dilated_window, shape, self.base_dilation)))

    def more(self, axis: Axis) -> tuple:
        return ((1, *self.base_dilation),)

    def still(self) -> list[bool]:
        return [one and n == 1 for one, n in zip(super().still(), self.base_dilation, strict=True)]

    def numpy(self, x: np.ndarray) -> np.ndarray:
        apart = padded_for_windows(
            widened_reduction_operand(x), ((0, 0),) * x.ndim, self.base_dilation, 0
        )
        plain = WindowSum(*self.geometry)
        return plain.seen(apart, 0).sum(-1, dtype=apart.dtype).astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        wide = reduction_accumulator(x.dtype)
        x, sums = b.convert(x, wide), out.with_dtype(wide)
        total = self.combine_taps(b, sums, x, "add", 0, self.base_dilation)
        return b.convert(total, out.dtype)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        padding = tuple(map(windows.padding_of_transposed_windows, xs[0].type.shape, out.type.shape,
                            *self.geometry, self.base_dilation))  # fmt: skip
        strides, dilation = self.base_dilation, self.strides
        return [WindowSum(self.window, strides, padding, self.window_dilation, dilation)(g)]

    @classmethod
    def samples(cls) -> Any:
        yield from super().samples()
        yield cls((2, 3), (2, 1), ((1, 0), (-1, 2)), (1, 2), (3, 2)), (real(3, 4),)
        yield cls((2,), (1,), ((0, 1),)), (complex_samples(4),)
