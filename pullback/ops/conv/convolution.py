"""Convolution over any number of spatial dimensions, channels last.

The sum over products of input, filter and result elements is linear in each of the three. Each
op here computes one of them from the other two, so they are one another's derivatives, to any
order: `Convolution` the result, `ConvolutionBackwardInput` and `ConvolutionBackwardFilter` what
their names say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.ops.conv.geometry import Convolving, by_group, ungroup
from pullback.ops.conv.lowering import convolve, convolve_filter
from pullback.ops.conv.windows import (
    padded,
    transposed_padding,
)
from pullback.ops.factor_rules import rule
from pullback.ops.imported import Imported
from pullback.ops.linalg.contraction import wide
from pullback.ops.prelude import Node, Op, Type, conjugate
from pullback.ops.samples import complexes, real


class Convolution(Convolving):
    """Slides a filter over an input; the dilations set their elements apart before that."""

    folds = (0, 0), (-1, -1)
    imported = Imported(("convolution",), last=True)

    @classmethod
    def from_hlo(cls, i: Any) -> Convolution:
        ones = (1,) * (i.types[0].rank - 2)
        return cls(
            i.get("window_strides", ones), i.get("padding", tuple([(0, 0) for _ in ones])),
            i.get("lhs_dilation", ones), i.get("rhs_dilation", ones), i["feature_group_count"],
        )  # fmt: skip

    def infer(self, x: Type, w: Type) -> Type:
        self.check(x, w)
        agree = w.shape[-2] * self.groups == x.shape[-1]
        self.check_channels(x.shape[-1], w.shape[-1], agree, x, w)
        counts = self.counts(x.shape[1:-1], w.shape[:-2])
        return x.with_shape((x.shape[0], *counts, w.shape[-1]))

    def numpy(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        counts = self.counts(x.shape[1:-1], w.shape[:-2])
        made = np.zeros((x.shape[0], *counts, w.shape[-1]), wide(x).dtype)
        full = self.bordered(x)
        for tap, place in self.taps(w.shape[:-2], counts):
            filters = by_group(wide(w[tap]), self.groups)
            made += ungroup(by_group(full[place], self.groups) @ filters, made.shape)
        return made.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, w: Any) -> Any:
        return convolve(b, out, x, w, *self.motion)

    def factors(self, x: Type, w: Type) -> str:
        inputs, filters, results = self.roles(x.shape, w.shape)
        return rule([inputs, filters], [results])

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        x, w = xs
        return dataclasses.replace(self, groups=self.groups_of(x.shape[-1], w.shape[-2]))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, w = xs
        left = right = None
        if need[0]:
            left = ConvolutionBackwardInput(*self.motion, x.type.shape[1:-1])(g, conjugate(w))
        if need[1]:
            right = ConvolutionBackwardFilter(*self.motion, w.type.shape[:-2])(conjugate(x), g)
        return [left, right]

    @classmethod
    def samples(cls) -> Iterator[tuple[Convolution, tuple]]:
        for motion, x, w in _CASES:
            yield cls(*motion), (real(*x), real(*w, salt=1))
        yield cls((2,), ((0, 1),)), (complexes(2, 4, 2), complexes(2, 2, 2, salt=1))


class ConvolutionBackwardInput(Convolving):
    """From a result and a filter to an input of the given spatial extents: the transpose of
    Convolution in its first operand, and what others call a transposed convolution."""

    extents: tuple[int, ...] = ()
    folds: ClassVar = ((0, 0), (-2, -1))

    def infer(self, g: Type, w: Type) -> Type:
        self.check(g, w)
        self.check_channels(0, w.shape[-1], g.shape[-1] == w.shape[-1], g, w)
        self.check_result(g, self.extents, w.shape[:-2])
        return g.with_shape((g.shape[0], *self.extents, w.shape[-2] * self.groups))

    def numpy(self, g: np.ndarray, w: np.ndarray) -> np.ndarray:
        shape = (g.shape[0], *self.extents, w.shape[-2] * self.groups)
        if not g.size:
            return np.zeros(shape, g.dtype)
        full = self.bordered(np.zeros(shape, g.dtype))
        results = by_group(wide(g), self.groups)
        for tap, place in self.taps(w.shape[:-2], g.shape[1:-1]):
            filters = by_group(wide(w[tap]), self.groups).swapaxes(-1, -2)
            full[place] += ungroup(results @ filters, full[place].shape)
        border = ((0, 0), *((-low, -high) for low, high in self.padding), (0, 0))
        inner = padded(full, border, (1,) * g.ndim, 0)
        return inner[tuple(slice(None, None, a) for a in (1, *self.lhs_dilation))].astype(g.dtype)

    def hlo(self, b: Any, out: Type, g: Any, w: Any) -> Any:
        spatial = tuple(range(len(self.extents)))
        if spatial:
            w = b.op("stablehlo.reverse", w, out=w.type, dimensions=spatial)
        window, (c, o) = w.shape[:-2], w.shape[-2:]
        if self.groups > 1:  # the groups go from the filters to the channels
            w = b.reshape(w, (*window, c, self.groups, o // self.groups))
            at = len(window)
            w = b.transpose(w, (*spatial, at + 1, at, at + 2))
            w = b.reshape(w, (*window, c * self.groups, o // self.groups))
        padding = tuple(map(transposed_padding, self.extents, g.shape[1:-1], window, self.strides,
                            self.padding, self.rhs_dilation, self.lhs_dilation))  # fmt: skip
        return convolve(b, out, g, w, self.lhs_dilation, padding, self.strides,
                        self.rhs_dilation, self.groups, "b*f,*oi->b*f")  # fmt: skip

    def factors(self, g: Type, w: Type) -> str:
        shape = self.infer(g, w).shape
        inputs, filters, results = self.roles(shape, w.shape)
        return rule([results, filters], [inputs])

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        groups = self.groups_of(out.shape[-1], xs[1].shape[-2])
        return dataclasses.replace(self, groups=groups, extents=out.shape[1:-1])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        y, w = xs
        left = right = None
        if need[0]:
            left = Convolution(*self.motion)(g, conjugate(w))
        if need[1]:
            right = ConvolutionBackwardFilter(*self.motion, w.type.shape[:-2])(g, conjugate(y))
        return [left, right]

    @classmethod
    def samples(cls) -> Any:
        for op, (x, w) in Convolution.samples():
            yield cls(*op.motion, x.shape[1:-1]), (_result(op, x, w), w)


class ConvolutionBackwardFilter(Convolving):
    """From an input and a result to a filter of the given spatial extents: the transpose of
    Convolution in its second operand."""

    extents: tuple[int, ...] = ()
    folds: ClassVar = ((-1, -2), (-1, -1))

    def infer(self, x: Type, g: Type) -> Type:
        self.check(x, g)
        self.check_channels(x.shape[-1], g.shape[-1], True, x, g)
        self.check_result(g, x.shape[1:-1], self.extents)
        if x.shape[0] != g.shape[0]:
            raise ShapeError(f"input and result must hold as many examples, got {x} and {g}")
        return x.with_shape((*self.extents, x.shape[-1] // self.groups, g.shape[-1]))

    def numpy(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        shape = (*self.extents, x.shape[-1] // self.groups, g.shape[-1])
        made = np.zeros(shape, wide(x).dtype)
        full, results = self.bordered(x), by_group(wide(g), self.groups)
        for tap, place in self.taps(self.extents, g.shape[1:-1]):
            rows = by_group(full[place], self.groups)
            made[tap] = ungroup(rows.swapaxes(-1, -2) @ results, shape[-2:])
        return made.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, g: Any) -> Any:
        return convolve_filter(b, out, x, g, *self.motion)

    def factors(self, x: Type, g: Type) -> str:
        inputs, filters, results = self.roles(x.shape, self.infer(x, g).shape)
        return rule([inputs, results], [filters])

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        groups = self.groups_of(xs[0].shape[-1], out.shape[-2])
        return dataclasses.replace(self, groups=groups)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, y = xs
        left = right = None
        if need[0]:
            left = ConvolutionBackwardInput(*self.motion, x.type.shape[1:-1])(conjugate(y), g)
        if need[1]:
            right = Convolution(*self.motion)(conjugate(x), g)
        return [left, right]

    @classmethod
    def samples(cls) -> Any:
        for op, (x, w) in Convolution.samples():
            yield cls(*op.motion, w.shape[:-2]), (x, _result(op, x, w))


# (strides, padding, lhs_dilation, rhs_dilation, groups), shape of the input, shape of the filter
_CASES = (
    (((1, 1), ((0, 0), (0, 0))), (2, 4, 5, 3), (2, 3, 3, 2)),
    (((2, 3), ((1, 2), (0, 1)), (1, 1), (1, 1), 2), (2, 6, 7, 4), (3, 2, 2, 6)),
    (((2,), ((3, 1),), (3,), (2,)), (2, 5, 2), (3, 2, 3)),
    (((2, 1), ((-1, 2), (1, -1)), (2, 1), (1, 2), 3), (1, 4, 5, 3), (2, 2, 1, 3)),
    (((1, 2, 1), ((0, 0), (1, 1), (0, 0))), (1, 2, 4, 3, 2), (2, 2, 2, 2, 1)),
    (((2, 1), ((1, 0), (0, 0))), (2, 4, 3, 2), (1, 1, 2, 3)),
    (((), ()), (3, 2), (2, 4)),
    (((1,), ((0, 0),)), (2, 2, 3), (4, 3, 2)),
    (((1,), ((0, 0),)), (0, 5, 3), (4, 3, 2)),
    (((1,), ((1, 1),)), (2, 0, 3), (2, 3, 2)),
    (((1, 1), ((4, 4), (4, 4)), (1, 1), (1, 1), 2), (2, 3, 3, 4), (9, 9, 2, 2)),
)


def _result(op: Convolution, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    shape = (len(x), *op.counts(x.shape[1:-1], w.shape[:-2]), w.shape[-1])
    return (complexes if np.iscomplexobj(x) else real)(*shape, salt=2)
