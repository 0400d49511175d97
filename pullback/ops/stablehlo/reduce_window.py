"""The StableHLO instruction `reduce_window`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import float64
from pullback.graph.graph import Graph
from pullback.ops.conv.windows import count_windows, dilated_window, window_pairs, window_tap_slices
from pullback.ops.factor_rules import factor_rule
from pullback.ops.prelude import Imported, Op, Type
from pullback.ops.samples import real
from pullback.ops.shape.concat_pad import Pad
from pullback.ops.stablehlo.reduce_sort import (
    ReduceOrSort,
    check_reduce_operands,
    reduce_elementwise,
    stablehlo_reduce_region,
    stablehlo_reduce_sum,
)


class ReduceWindow(ReduceOrSort):
    """Combines the elements of each window with `body`; initial values are also the padding."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    body: Graph
    imported = Imported(("reduce_window",), last=True)

    def __post_init__(self) -> None:
        for field in ("window", "strides", "base_dilation", "window_dilation"):
            self.set(field, tuple(map(int, getattr(self, field))))
        self.set("padding", window_pairs(self.padding))

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        window = i["window_dimensions"]
        ones, none = (1,) * len(window), tuple([(0, 0) for _ in window])
        strides = i.get("window_strides", ones)
        base, apart = i.get("base_dilations", ones), i.get("window_dilations", ones)
        return cls(window, strides, base, apart, i.get("padding", none), i.graphs[0])

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        tensors = check_reduce_operands(self.body, xs)
        lists = self.window, self.strides, self.base_dilation, self.window_dilation
        rank = tensors[0].rank
        if any(len(numbers) != rank or min(numbers, default=1) < 1 for numbers in lists):
            what = f"window, strides and dilations must be {rank} positive numbers each"
            raise ShapeError(what, code="E3002")
        if len(self.padding) != rank:
            raise ShapeError(f"padding must be {rank} pairs, got {self.padding}", code="E3002")
        return tuple([x.with_shape(self.counts(x.shape)) for x in tensors])

    def counts(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        apart = map(dilated_window, shape, self.base_dilation)
        moves = self.window, self.strides, self.padding, self.window_dilation
        return tuple(map(count_windows, apart, *moves))

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        k = len(xs) // 2
        counts = self.counts(xs[0].shape)
        low, high = zip(*self.padding, strict=True) if self.padding else ((), ())
        border = Pad(low, high, tuple([d - 1 for d in self.base_dilation]))
        padded = [border.numpy(x, i) for x, i in zip(xs[:k], xs[k:], strict=True)]
        total = [np.broadcast_to(i, counts).astype(i.dtype) for i in xs[k:]]
        for tap in itertools.product(*map(range, self.window)):
            place = window_tap_slices(tap, counts, self.strides, self.window_dilation)
            total = reduce_elementwise(self.body, [*total, *[x[place] for x in padded]])
        return tuple(total)

    def hlo(self, b: Any, out: tuple[Type, ...], *xs: Any) -> tuple:
        border = ", ".join(f"[{low}, {high}]" for low, high in self.padding)
        return b.op(
            "stablehlo.reduce_window", *xs, out=out, regions=stablehlo_reduce_region(b, self.body),
            window_dimensions=self.window, window_strides=self.strides,
            base_dilations=self.base_dilation, window_dilations=self.window_dilation,
            padding=f"dense<{f'[{border}]' if border else ''}> : tensor<{len(self.window)}x2xi64>",
        )  # fmt: skip

    def factors(self, *xs: Type) -> str:
        k = len(xs) // 2
        sides = zip(self.window, self.strides, self.base_dilation, self.padding, strict=True)
        words = [f"d{i}" if side == (1, 1, 1, (0, 0)) else "_" for i, side in enumerate(sides)]
        return factor_rule([*[words] * k, *[[]] * k], [words] * k)

    @classmethod
    def samples(cls) -> Any:
        one, none = (1, 1), ((0, 0), (0, 0))
        body = stablehlo_reduce_sum(float64)
        yield cls((2, 2), (2, 1), one, one, none, body), (real(4, 3), np.float64(0))
        op = cls((2, 3), one, (1, 2), (2, 1), ((1, 0), (-1, 2)), body)
        yield op, (real(4, 3), np.float64(0))
        yield cls((3,), (1,), (1,), (1,), ((2, 0),), body), (real(0), np.float64(0))
