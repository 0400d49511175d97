"""The StableHLO of convolutions: one instruction, or what XLA runs faster in special cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.ir.dtypes import float32
from pullback.ops.base import Type
from pullback.ops.linalg import dot_general, precision
from pullback.ops.sliding import UNROLLED, Padding, Taps, pad, spread

Numbers = Sequence[int]


def convolve(
    b: Any, out: Type, x: Any, w: Any, strides: Numbers, padding: Padding, lhs_dilation: Numbers,
    rhs_dilation: Numbers, groups: int, roles: str = "b*f,*io->b*f",
) -> Any:  # fmt: skip
    """Slide the filter `w` over `x`; see `_instruction` for `roles`."""
    channels = x.shape[-1]
    if 1 < groups == channels == out.shape[-1] and w.type.size <= UNROLLED * channels:
        return _depthwise(b, out, x, w, strides, padding, lhs_dilation, rhs_dilation)
    return _instruction(b, out, x, w, roles, strides, padding, lhs_dilation, rhs_dilation, groups)


def convolve_filter(
    b: Any, out: Type, x: Any, g: Any, strides: Numbers, padding: Padding, lhs_dilation: Numbers,
    rhs_dilation: Numbers, groups: int,
) -> Any:  # fmt: skip
    """The filter's part: the result `g` slides over `x`, its elements a stride apart."""
    window, taps = out.shape[:-2], math.prod(out.shape[:-2])
    depthwise = 1 < groups == x.shape[-1] == g.shape[-1] and taps <= UNROLLED
    if g.type.size and x.type.size and (depthwise or (taps == 1 and groups == 1)):
        walk = Taps(b, (1, *window, 1), (*g.shape[:-1], x.shape[-1]), (1, *strides, 1),
                    (1, *rhs_dilation, 1))  # fmt: skip
        x = pad(b, x, ((0, 0), *padding, (0, 0)), (1, *lhs_dilation, 1), 0)
        rows = tuple(range(len(x.shape) - 1))
        if not depthwise:
            return b.reshape(dot_general(b, walk.take(x, 0), g, (rows, rows), ((), ())), out.shape)
        return _depthwise_filter(b, out, x, g, walk, taps)
    high = []
    for n, m, k, s, (low, _), a, d in zip(
        x.shape[1:-1], g.shape[1:-1], window, strides, padding, lhs_dilation, rhs_dilation,
        strict=True,
    ):  # fmt: skip
        high.append(spread(k, d) - 1 + spread(m, s) - spread(n, a) - low)
    padding = tuple((low, end) for (low, _), end in zip(padding, high, strict=True))
    return _instruction(b, out, x, g, "f*b,i*o->*bf", rhs_dilation, padding, lhs_dilation,
                        strides, batch_groups=groups)  # fmt: skip


def _instruction(
    b: Any, out: Type, x: Any, w: Any, roles: str, strides: Numbers, padding: Padding,
    lhs_dilation: Numbers, rhs_dilation: Numbers, feature_groups: int = 1, batch_groups: int = 1,
) -> Any:  # fmt: skip
    """`roles` says what the dimensions of `x,w->out` are: b and f for batch and feature, i and o
    for input and output feature, * for the spatial ones."""
    if not (x.type.size and w.type.size and out.size):
        return b.full(out, 0)
    if out.dtype.is_complex:
        settings = (roles, strides, padding, lhs_dilation, rhs_dilation)
        return _complex(b, out, x, w, (*settings, feature_groups, batch_groups))
    spatial = [str(i) for i in range(len(strides))]
    left, right, result = [
        f"[{', '.join(i for role in part for i in (spatial if role == '*' else [role]))}]"
        for part in roles.replace("->", ",").split(",")
    ]
    border = ", ".join(f"[{low}, {high}]" for low, high in padding)
    border = f"dense<[{border}]>" if border else "dense<>"
    return b.op(
        "stablehlo.convolution", x, w, out=out,
        window_strides=tuple(strides), padding=f"{border} : tensor<{len(spatial)}x2xi64>",
        lhs_dilation=tuple(lhs_dilation), rhs_dilation=tuple(rhs_dilation),
        dimension_numbers=f"#stablehlo.conv<{left}x{right}->{result}>",
        feature_group_count=feature_groups, batch_group_count=batch_groups,
        precision_config=precision(out.dtype),
    )  # fmt: skip


def _complex(b: Any, out: Type, x: Any, w: Any, settings: tuple) -> Any:
    """Four products of the parts: no engine convolves complex numbers itself."""
    part = out.with_dtype(out.dtype.real)
    a, c, d, e = [b.op(f"stablehlo.{word}", z, out=z.type.with_dtype(part.dtype))
                  for z in (x, w) for word in ("real", "imag")]  # fmt: skip
    ad, ce, ae, cd = [
        _instruction(b, part, *pair, *settings) for pair in ((a, d), (c, e), (a, e), (c, d))
    ]
    real = b.op("stablehlo.subtract", ad, ce, out=part)
    imaginary = b.op("stablehlo.add", ae, cd, out=part)
    return b.op("stablehlo.complex", real, imaginary, out=out)


# A filter of its own for every channel is no matrix product: written as elementwise products,
# one a tap, it fuses into one loop. (On a CPU the instruction is twenty times slower.)


def _depthwise(
    b: Any, out: Type, x: Any, w: Any, strides: Numbers, padding: Padding, lhs_dilation: Numbers,
    rhs_dilation: Numbers,
) -> Any:  # fmt: skip
    channels = out.shape[-1]
    window = w.shape[:-2]
    walk = Taps(b, (1, *window, 1), out.shape, (1, *strides, 1), (1, *rhs_dilation, 1))
    x, w = _widened(b, x), _widened(b, b.reshape(w, (math.prod(window), channels)))
    total = b.full(out.with_dtype(x.dtype), 0)
    if not (x.type.size and out.size):
        return b.convert(total, out.dtype)
    x = pad(b, x, ((0, 0), *padding, (0, 0)), (1, *lhs_dilation, 1), 0)

    def step(n: int, total: Any) -> tuple:
        row = b.op("stablehlo.slice", w, out=Type((1, channels), w.dtype), start_indices=(n, 0),
                   limit_indices=(n + 1, channels), strides=(1, 1))  # fmt: skip
        row = b.broadcast(b.reshape(row, (channels,)), out.shape)
        product = b.op("stablehlo.multiply", walk.take(x, n), row, out=total.type)
        return (b.op("stablehlo.add", total, product, out=total.type),)

    return b.convert(walk.fold((total,), step)[0], out.dtype)


def _depthwise_filter(b: Any, out: Type, x: Any, g: Any, walk: Taps, taps: int) -> Any:
    x, g = _widened(b, x), _widened(b, g)
    rows = tuple(range(len(x.shape) - 1))
    sums = []
    for n in range(taps):
        product = b.op("stablehlo.multiply", walk.take(x, n), g, out=g.type)
        sums.append(b.reshape(b.reduce("add", product, 0, rows), (1, out.shape[-1])))
    made = b.op("stablehlo.concatenate", *sums, out=Type((taps, out.shape[-1]), g.dtype),
                dimension=0)  # fmt: skip
    return b.convert(b.reshape(made, out.shape), out.dtype)


def _widened(b: Any, x: Any) -> Any:
    """Short floats in f32, as engines keep sums of products."""
    return b.convert(x, float32) if x.dtype.is_float and x.dtype.bits < 32 else x
