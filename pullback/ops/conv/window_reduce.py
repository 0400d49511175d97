"""Reductions over sliding windows: sums, maxima and minima, the ground of pooling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import float32
from pullback.ops.conv.windows import (
    Padding,
    Taps,
    pad,
    padded,
    pairs,
    spread,
    transposed_padding,
    window_count,
)
from pullback.ops.elementwise.base import check_kind
from pullback.ops.factor_rules import rule
from pullback.ops.linalg.contraction import wide
from pullback.ops.prelude import Axis, Node, Op, Type, spread_all
from pullback.ops.samples import complexes, real

Numbers = tuple[int, ...]


class Windowed(Op, abstract=True):
    """What slides: an extent, a stride, a border and a dilation for every dimension.

    An empty dilation is 1 everywhere.
    """

    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Padding
    window_dilation: tuple[int, ...] = ()
    kinds: ClassVar[str] = "iuf"

    def __post_init__(self) -> None:
        self.set("padding", pairs(self.padding))
        self.set("window_dilation", tuple(self.window_dilation) or (1,) * len(self.window))

    @property
    def geometry(self) -> tuple[Numbers, Numbers, Padding, Numbers]:
        return (self.window, self.strides, self.padding, self.window_dilation)

    def check(self, rank: int) -> None:
        if not rank:
            raise ShapeError("a window needs at least one dimension, got a scalar", code="E3002")
        if any(len(field) != rank for field in self.geometry):
            raise ShapeError(
                f"window, strides, padding and dilation need {rank} entries, one for each "
                f"dimension, got {', '.join(map(str, self.geometry))}",
                code="E3002",
            )
        words = {"window": self.window, "strides": self.strides, "dilation": self.window_dilation}
        for word, numbers in words.items():
            if min(numbers, default=1) < 1:
                raise ShapeError(f"{word} must be positive, got {numbers}", code="E3006")

    def counts(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many windows there are along each dimension."""
        return tuple(map(window_count, shape, *self.geometry))

    def infer(self, x: Type) -> Type:
        check_kind(x.dtype, self.kinds)
        self.check(x.rank)
        return x.with_shape(self.counts(x.shape))

    def seen(self, x: np.ndarray, value: Any) -> np.ndarray:
        """What each window sees, along a last dimension; padding holds `value`."""
        counts = self.counts(x.shape)
        if 0 in counts:
            return np.empty((*counts, math.prod(self.window)), x.dtype)
        x = padded(x, self.padding, (1,) * x.ndim, value)
        reach = tuple(map(spread, self.window, self.window_dilation))
        view = np.lib.stride_tricks.sliding_window_view(x, reach)
        steps = (*self.strides, *self.window_dilation)
        return view[tuple(slice(None, None, s) for s in steps)].reshape(*counts, -1)

    def walk(self, b: Any, counts: Sequence[int]) -> Taps:
        return Taps(b, self.window, counts, self.strides, self.window_dilation)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        window, strides, padding, dilation = self.geometry
        wider = ((1, *window), (1, *strides), ((0, 0), *padding), (1, *dilation))
        return type(self)(*wider, *self.more(axis))(*spread_all(axis, xs, mapped))

    def still(self) -> list[bool]:
        """For each dimension, whether each window along it is one element."""
        sides = zip(self.window, self.strides, self.padding, strict=True)
        return [side == (1, 1, (0, 0)) for side in sides]

    def factors(self, *xs: Type) -> str:
        words = [f"d{i}" if still else "_" for i, still in enumerate(self.still())]
        return rule([words] * len(xs), [words])

    def more(self, axis: Axis) -> tuple:
        """The parameters after the geometry, for operands with the examples in front."""
        return ()

    @classmethod
    def samples(cls) -> Iterator[tuple[Windowed, tuple]]:
        yield cls((2, 2), (2, 2), ((0, 0), (0, 0))), (real(4, 6),)
        yield cls((1, 3, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 1), (0, 1), (0, 0))), (real(2, 6, 4, 2),)
        yield cls((3,), (2,), ((2, 0),), (2,)), (real(9),)
        yield cls((2, 3), (1, 2), ((0, 0), (-1, 1))), (real(3, 7),)
        yield cls((9, 9), (1, 2), ((0, 0), (3, 3)), (1, 1)), (real(10, 9),)
        yield cls((2, 1), (70, 3), ((0, 0), (0, 0))), (real(73, 5),)
        yield cls((3,), (1,), ((0, 0),)), (real(2),)


class WindowSum(Windowed):
    """The sum of each window; `base_dilation` sets the operand's elements apart first."""

    base_dilation: tuple[int, ...] = ()
    kinds = "iufc"
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.set("base_dilation", tuple(self.base_dilation) or (1,) * len(self.window))

    def check(self, rank: int) -> None:
        super().check(rank)
        if len(self.base_dilation) != rank or min(self.base_dilation, default=1) < 1:
            raise ShapeError(f"base dilation must be positive, got {self.base_dilation}")

    def counts(self, shape: Sequence[int]) -> tuple[int, ...]:
        return super().counts(tuple(map(spread, shape, self.base_dilation)))

    def more(self, axis: Axis) -> tuple:
        return ((1, *self.base_dilation),)

    def still(self) -> list[bool]:
        return [one and n == 1 for one, n in zip(super().still(), self.base_dilation, strict=True)]

    def numpy(self, x: np.ndarray) -> np.ndarray:
        apart = padded(wide(x), ((0, 0),) * x.ndim, self.base_dilation, 0)
        plain = WindowSum(*self.geometry)
        return plain.seen(apart, 0).sum(-1, dtype=apart.dtype).astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        short = x.dtype.is_float and x.dtype.bits < 32
        x = b.convert(x, float32) if short else x
        total = b.full(Type(out.shape, x.dtype), 0)
        if out.size:
            x = pad(b, x, self.padding, self.base_dilation, 0)
            walk = self.walk(b, out.shape)
            _, total = walk.fold((x, total), lambda n, x, total: (
                x, b.op("stablehlo.add", total, walk.take(x, n), out=total.type)))  # fmt: skip
        return b.convert(total, out.dtype)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        padding = tuple(map(transposed_padding, xs[0].type.shape, out.type.shape,
                            *self.geometry, self.base_dilation))  # fmt: skip
        back = WindowSum(
            self.window, self.base_dilation, padding, self.window_dilation, self.strides
        )
        return [back(g)]

    @classmethod
    def samples(cls) -> Any:
        yield from super().samples()
        yield cls((2, 3), (2, 1), ((1, 0), (-1, 2)), (1, 2), (3, 2)), (real(3, 4),)
        yield cls((2,), (1,), ((0, 1),)), (complexes(4),)
