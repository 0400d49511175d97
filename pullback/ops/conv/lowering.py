"""StableHLO for convolutions: one instruction, or code that XLA runs faster in special cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.ops.conv.windows import (
    UNROLLED,
    WindowMotion,
    WindowTaps,
    dilated_window,
    pad_for_windows,
)
from pullback.ops.hlo_instructions import hlo_slice_instruction, hlo_stack_instruction
from pullback.ops.linalg.contraction import contraction_precision, dot_general
from pullback.ops.prelude import Type
from pullback.ops.reduce.reductions import reduction_accumulator


def lower_convolution(
    b: Any, out: Type, x: Any, w: Any, m: WindowMotion, roles: str = "b*f,*io->b*f"
) -> Any:
    """Slide the filter `w` over `x`; see `_lower_convolution_instruction` for `roles`."""
    channels = x.shape[-1]
    if 1 < m.groups == channels == out.shape[-1] and w.type.size <= UNROLLED * channels:
        return _lower_depthwise_convolution(b, out, x, w, m)
    return _lower_convolution_instruction(b, out, x, w, m, roles)


def lower_convolution_filter(b: Any, out: Type, x: Any, g: Any, m: WindowMotion) -> Any:
    """The filter's gradient: slide the result `g`, its elements a stride apart, over `x`."""
    window, taps = out.shape[:-2], math.prod(out.shape[:-2])
    few = taps <= UNROLLED if m.groups > 1 else taps == 1
    if few and g.type.size and x.type.size:
        depthwise = 1 < m.groups == x.shape[-1] == g.shape[-1]
        return (
            _lower_depthwise_convolution_filter if depthwise else _lower_grouped_convolution_filter
        )(b, out, x, g, m)
    sides = zip(x.shape[1:-1], g.shape[1:-1], window, *m[:-1], strict=True)
    padding = tuple(
        (low, dilated_window(k, d) - 1 + dilated_window(count, s) - dilated_window(n, a) - low)
        for n, count, k, s, (low, _), a, d in sides
    )
    if m.groups > 1:  # the sum over examples stays within a group: they are its features
        x = _lower_convolution_by_group(b, x, m.groups)
        x = b.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
    motion = WindowMotion(m.rhs_dilation, padding, m.lhs_dilation, m.strides, m.groups)
    return _lower_convolution_instruction(b, out, x, g, motion, "f*b,i*o->*bf")


def _lower_convolution_instruction(
    b: Any, out: Type, x: Any, w: Any, m: WindowMotion, roles: str
) -> Any:
    """`roles` names the dimensions of `x,w->out`: b and f for batch and feature, i and o for
    input and output feature, * for the spatial ones."""
    if not (x.type.size and w.type.size and out.size):
        return b.full(out, 0)
    if out.dtype.is_complex:
        return _lower_complex_convolution(b, out, x, w, m, roles)
    spatial = [str(i) for i in range(len(m.strides))]
    left, right, result = [
        f"[{', '.join(i for role in part for i in (spatial if role == '*' else [role]))}]"
        for part in roles.replace("->", ",").split(",")
    ]
    border = ", ".join(f"[{low}, {high}]" for low, high in m.padding)
    border = f"dense<[{border}]>" if border else "dense<>"
    return b.op(
        "stablehlo.convolution", x, w, out=out,
        window_strides=m.strides, padding=f"{border} : tensor<{len(spatial)}x2xi64>",
        lhs_dilation=m.lhs_dilation, rhs_dilation=m.rhs_dilation,
        dimension_numbers=f"#stablehlo.conv<{left}x{right}->{result}>",
        feature_group_count=m.groups, batch_group_count=1,
        precision_config=contraction_precision(b, out.dtype),
    )  # fmt: skip


def _lower_complex_convolution(
    b: Any, out: Type, x: Any, w: Any, m: WindowMotion, roles: str
) -> Any:
    """Four convolutions of real and imaginary parts: no engine convolves complex numbers."""
    part = out.with_dtype(out.dtype.real)
    a, c, d, e = [b.op(f"stablehlo.{name}", z, out=z.type.with_dtype(part.dtype))
                  for z in (x, w) for name in ("real", "imag")]  # fmt: skip
    pairs = ((a, d), (c, e), (a, e), (c, d))
    ad, ce, ae, cd = [_lower_convolution_instruction(b, part, *pair, m, roles) for pair in pairs]
    real = b.op("stablehlo.subtract", ad, ce, out=part)
    imaginary = b.op("stablehlo.add", ae, cd, out=part)
    return b.op("stablehlo.complex", real, imaginary, out=out)


def _lower_depthwise_convolution(b: Any, out: Type, x: Any, w: Any, m: WindowMotion) -> Any:
    """Elementwise products, one for each tap, fuse into one loop: a depthwise convolution is no
    matrix product. (On a CPU the instruction is twenty times slower.)"""
    channels, window, wide = out.shape[-1], w.shape[:-2], reduction_accumulator(x.dtype)
    x, w = b.convert(x, wide), b.convert(b.reshape(w, (math.prod(window), channels)), wide)
    total = b.full(out.with_dtype(wide), 0)
    if not (x.type.size and out.size):
        return b.convert(total, out.dtype)
    walk, x = _lower_convolution_taps(b, x, window, out.shape, m)

    def step(n: int, total: Any) -> tuple:
        row = b.reshape(hlo_slice_instruction(b, w, (n, 0), (n + 1, channels)), (channels,))
        row = b.broadcast(row, out.shape)
        product = b.op("stablehlo.multiply", walk.take(x, n), row, out=total.type)
        return (b.op("stablehlo.add", total, product, out=total.type),)

    return b.convert(walk.fold((total,), step)[0], out.dtype)


def _lower_depthwise_convolution_filter(b: Any, out: Type, x: Any, g: Any, m: WindowMotion) -> Any:
    window, rows, wide = (
        out.shape[:-2],
        tuple(range(len(x.shape) - 1)),
        reduction_accumulator(x.dtype),
    )
    x, g = b.convert(x, wide), b.convert(g, wide)
    walk, x = _lower_convolution_taps(b, x, window, g.shape, m)
    sums = []
    for n in range(math.prod(window)):
        product = b.op("stablehlo.multiply", walk.take(x, n), g, out=g.type)
        sums.append(b.reduce("add", product, 0, rows))
    return b.convert(b.reshape(hlo_stack_instruction(b, sums, 0), out.shape), out.dtype)


def _lower_grouped_convolution_filter(b: Any, out: Type, x: Any, g: Any, m: WindowMotion) -> Any:
    """A matrix product for each tap and group, on a CPU many times faster than the instruction.
    vmap makes such groups: one for each example's filter gradient."""
    window = out.shape[:-2]
    x, g = _lower_convolution_by_group(b, x, m.groups), _lower_convolution_by_group(b, g, m.groups)
    walk, x = _lower_convolution_taps(b, x, window, (*g.shape[:-1], x.shape[-1]), m)
    rows = tuple(range(1, len(x.shape) - 1))
    taps = range(math.prod(window))
    sums = [dot_general(b, walk.take(x, n), g, (rows, rows), ((0,), (0,))) for n in taps]
    return b.reshape(b.transpose(hlo_stack_instruction(b, sums, 0), (0, 2, 1, 3)), out.shape)


def _lower_convolution_taps(
    b: Any, x: Any, window: tuple[int, ...], counts: Sequence[int], m: WindowMotion
) -> tuple[WindowTaps, Any]:
    """The taps of windows over the spatial dimensions of `x`, and `x` padded for them."""
    lead = len(x.shape) - len(window) - 1
    ones = (1,) * lead
    taps = WindowTaps(
        b, (*ones, *window, 1), counts, (*ones, *m.strides, 1), (*ones, *m.rhs_dilation, 1)
    )
    border = (*((0, 0),) * lead, *m.padding, (0, 0))
    return taps, pad_for_windows(b, x, border, (*ones, *m.lhs_dilation, 1), 0)


def _lower_convolution_by_group(b: Any, x: Any, groups: int) -> Any:
    """[..., channels] as [groups, ..., channels of a group]."""
    *shape, channels = x.shape
    if groups == 1:
        return b.reshape(x, (1, *x.shape))
    x = b.reshape(x, (*shape, groups, channels // groups))
    return b.transpose(x, (len(shape), *range(len(shape)), len(shape) + 1))
