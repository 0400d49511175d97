"""Convolution over any number of spatial dimensions, channels last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from pullback.ops.conv.geometry import ConvolutionGeometry, Shape
from pullback.ops.conv.kernel import call_convolution_kernel
from pullback.ops.conv.lowering import lower_convolution, lower_convolution_filter
from pullback.ops.conv.windows import (
    WindowMotion,
    padded_for_windows,
    padding_of_transposed_windows,
)
from pullback.ops.prelude import Imported, Type
from pullback.ops.reduce.reductions import widened_reduction_operand
from pullback.ops.samples import complex_samples, real


class Convolution(ConvolutionGeometry):
    """Slides a filter over an input; the dilations first insert gaps between their elements."""

    gives, operands = "result", ("input", "filter")
    folds = (0, 0), (-1, -1)
    imported = Imported(("convolution",), last=True)

    @classmethod
    def from_hlo(cls, i: Any) -> Convolution:
        ones = (1,) * (i.types[0].rank - 2)
        return cls(
            i.get("window_strides", ones), i.get("padding", tuple([(0, 0) for _ in ones])),
            i.get("lhs_dilation", ones), i.get("rhs_dilation", ones), i["feature_group_count"],
        )  # fmt: skip

    def shape(self, x: Shape, w: Shape) -> Shape:
        return (x[0], *self.counts(x[1:-1], w[:-2]), w[-1])

    def numpy(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        full = self.bordered(x)
        out = np.zeros(self.shape(x.shape, w.shape), full.dtype)
        for tap, at in self.taps(w.shape[:-2], out.shape[1:-1]):
            filters = group_to_convolve(widened_reduction_operand(w[tap]), self.groups)
            out += ungroup_convolved(group_to_convolve(full[at], self.groups) @ filters, out.shape)
        return out.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, w: Any) -> Any:
        return lower_convolution(b, out, x, w, self.motion)

    def kernel(self, b: Any, out: Type, x: Any, w: Any) -> Any:
        return call_convolution_kernel(b, "convolution", out, x, w, self.motion)

    @classmethod
    def samples(cls) -> Iterator[tuple[Convolution, tuple]]:
        for motion, x, w in _CASES:
            yield cls(*motion), (real(*x), real(*w, salt=1))
        yield cls((2,), ((0, 1),)), (complex_samples(2, 4, 2), complex_samples(2, 2, 2, salt=1))


class ConvolutionBackwardInput(ConvolutionGeometry):
    """The input, of spatial sizes `extents`, from a result and a filter: the transpose of
    Convolution in its first operand, also known as transposed convolution."""

    extents: tuple[int, ...] = ()
    gives, operands = "input", ("result", "filter")
    folds: ClassVar = ((0, 0), (-2, -1))

    def shape(self, g: Shape, w: Shape) -> Shape:
        return (g[0], *self.extents, w[-2] * self.groups)

    def numpy(self, g: np.ndarray, w: np.ndarray) -> np.ndarray:
        zeros = np.zeros(self.shape(g.shape, w.shape), g.dtype)
        if not g.size:
            return zeros
        full = self.bordered(zeros)
        results = group_to_convolve(widened_reduction_operand(g), self.groups)
        for tap, at in self.taps(w.shape[:-2], g.shape[1:-1]):
            filters = group_to_convolve(widened_reduction_operand(w[tap]), self.groups).swapaxes(
                -1, -2
            )
            full[at] += ungroup_convolved(results @ filters, full[at].shape)
        border = ((0, 0), *((-low, -high) for low, high in self.padding), (0, 0))
        inner = padded_for_windows(full, border, (1,) * g.ndim, 0)
        return inner[tuple(slice(None, None, a) for a in (1, *self.lhs_dilation))].astype(g.dtype)

    def kernel(self, b: Any, out: Type, g: Any, w: Any) -> Any:
        return call_convolution_kernel(b, "convolution_input", out, g, w, self.motion)

    def hlo(self, b: Any, out: Type, g: Any, w: Any) -> Any:
        spatial = tuple(range(len(self.extents)))
        if spatial:
            w = b.op("stablehlo.reverse", w, out=w.type, dimensions=spatial)
        window, (c, o) = w.shape[:-2], w.shape[-2:]
        if self.groups > 1:  # move the groups from the outputs to the channels
            w = b.reshape(w, (*window, c, self.groups, o // self.groups))
            n = len(window)
            w = b.transpose(w, (*spatial, n + 1, n, n + 2))
            w = b.reshape(w, (*window, c * self.groups, o // self.groups))
        dilations = (self.rhs_dilation, self.lhs_dilation)
        counts = (self.extents, g.shape[1:-1])
        padding = tuple(
            map(
                padding_of_transposed_windows,
                *counts,
                window,
                self.strides,
                self.padding,
                *dilations,
            )
        )
        motion = WindowMotion(
            self.lhs_dilation, padding, self.strides, self.rhs_dilation, self.groups
        )
        return lower_convolution(b, out, g, w, motion, "b*f,*oi->b*f")


class ConvolutionBackwardFilter(ConvolutionGeometry):
    """The filter, of spatial sizes `extents`, from an input and a result: the transpose of
    Convolution in its second operand."""

    extents: tuple[int, ...] = ()
    gives, operands = "filter", ("input", "result")
    folds: ClassVar = ((-1, -2), (-1, -1))

    def shape(self, x: Shape, g: Shape) -> Shape:
        return (*self.extents, x[-1] // self.groups, g[-1])

    def numpy(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        full, results = (
            self.bordered(x),
            group_to_convolve(widened_reduction_operand(g), self.groups),
        )
        out = np.zeros(self.shape(x.shape, g.shape), full.dtype)
        for tap, at in self.taps(self.extents, g.shape[1:-1]):
            rows = group_to_convolve(full[at], self.groups)
            out[tap] = ungroup_convolved(rows.swapaxes(-1, -2) @ results, out.shape[-2:])
        return out.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, g: Any) -> Any:
        return lower_convolution_filter(b, out, x, g, self.motion)

    def kernel(self, b: Any, out: Type, x: Any, g: Any) -> Any:
        return call_convolution_kernel(b, "convolution_filter", out, x, g, self.motion)


ConvolutionGeometry.family.update(
    result=Convolution, input=ConvolutionBackwardInput, filter=ConvolutionBackwardFilter
)


# (strides, padding, lhs_dilation, rhs_dilation, groups), input shape, filter shape
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


def group_to_convolve(x: np.ndarray, groups: int) -> np.ndarray:
    """[..., channels] as [groups, rows, channels of a group]: operands of a matrix product."""
    rows = int(np.prod(x.shape[:-1], dtype=np.int64))
    return x.reshape(rows, groups, x.shape[-1] // groups).swapaxes(0, 1)


def ungroup_convolved(x: np.ndarray, shape: Shape) -> np.ndarray:
    return x.swapaxes(0, 1).reshape(shape)
