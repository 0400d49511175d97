"""The StableHLO of convolutions: one instruction, or what XLA runs faster in special cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.graph.dtypes import float32
from pullback.ops.conv.windows import UNROLLED, Padding, Taps, pad, spread
from pullback.ops.linalg.contraction import dot_general, precision
from pullback.ops.prelude import Type

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
    few = taps <= UNROLLED if groups > 1 else taps == 1
    if few and g.type.size and x.type.size:
        by_tap = _depthwise_filter if 1 < groups == x.shape[-1] == g.shape[-1] else _grouped_filter
        return by_tap(b, out, x, g, strides, padding, lhs_dilation, rhs_dilation, groups)
    high = []
    for n, m, k, s, (low, _), a, d in zip(
        x.shape[1:-1], g.shape[1:-1], window, strides, padding, lhs_dilation, rhs_dilation,
        strict=True,
    ):  # fmt: skip
        high.append(spread(k, d) - 1 + spread(m, s) - spread(n, a) - low)
    padding = tuple((low, end) for (low, _), end in zip(padding, high, strict=True))
    if groups > 1:  # examples are summed within a group: they are the features of the groups
        x = _by_group(b, x, groups)
        x = b.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
    return _instruction(b, out, x, g, "f*b,i*o->*bf", rhs_dilation, padding, lhs_dilation,
                        strides, groups)  # fmt: skip


def _instruction(
    b: Any, out: Type, x: Any, w: Any, roles: str, strides: Numbers, padding: Padding,
    lhs_dilation: Numbers, rhs_dilation: Numbers, groups: int,
) -> Any:  # fmt: skip
    """`roles` says what the dimensions of `x,w->out` are: b and f for batch and feature, i and o
    for input and output feature, * for the spatial ones."""
    if not (x.type.size and w.type.size and out.size):
        return b.full(out, 0)
    if out.dtype.is_complex:
        settings = (roles, strides, padding, lhs_dilation, rhs_dilation)
        return _complex(b, out, x, w, (*settings, groups))
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
        feature_group_count=groups, batch_group_count=1,
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


def _depthwise_filter(
    b: Any, out: Type, x: Any, g: Any, strides: Numbers, padding: Padding, lhs_dilation: Numbers,
    rhs_dilation: Numbers, groups: int,
) -> Any:  # fmt: skip
    window, rows = out.shape[:-2], tuple(range(len(x.shape) - 1))
    walk = Taps(b, (1, *window, 1), g.shape, (1, *strides, 1), (1, *rhs_dilation, 1))
    x, g = _widened(b, x), _widened(b, g)
    x = pad(b, x, ((0, 0), *padding, (0, 0)), (1, *lhs_dilation, 1), 0)
    sums = []
    for n in range(math.prod(window)):
        product = b.op("stablehlo.multiply", walk.take(x, n), g, out=g.type)
        sums.append(b.reduce("add", product, 0, rows))
    return b.convert(b.reshape(_stacked(b, sums), out.shape), out.dtype)


def _grouped_filter(
    b: Any, out: Type, x: Any, g: Any, strides: Numbers, padding: Padding, lhs_dilation: Numbers,
    rhs_dilation: Numbers, groups: int,
) -> Any:  # fmt: skip
    """A matrix product for each tap and group, many times faster than the instruction on a CPU.
    Filters' gradients of many examples are one group each."""
    window, channels = out.shape[:-2], out.shape[-2:]
    x, g = _by_group(b, x, groups), _by_group(b, g, groups)
    walk = Taps(b, (1, 1, *window, 1), (*g.shape[:-1], x.shape[-1]), (1, 1, *strides, 1),
                (1, 1, *rhs_dilation, 1))  # fmt: skip
    x = pad(b, x, ((0, 0), (0, 0), *padding, (0, 0)), (1, 1, *lhs_dilation, 1), 0)
    rows = tuple(range(1, len(x.shape) - 1))
    taps = range(math.prod(window))
    sums = [dot_general(b, walk.take(x, n), g, (rows, rows), ((0,), (0,))) for n in taps]
    made = b.transpose(_stacked(b, sums), (0, 2, 1, 3))
    return b.reshape(made, (*window, *channels))


def _by_group(b: Any, x: Any, groups: int) -> Any:
    """[..., channels] as [groups, ..., channels of a group]."""
    *shape, channels = x.shape
    if groups == 1:
        return b.reshape(x, (1, *x.shape))
    x = b.reshape(x, (*shape, groups, channels // groups))
    return b.transpose(x, (len(shape), *range(len(shape)), len(shape) + 1))


def _stacked(b: Any, parts: Sequence[Any]) -> Any:
    """Values of one type along a new first dimension."""
    rows = [b.reshape(p, (1, *p.shape)) for p in parts]
    if len(rows) == 1:
        return rows[0]
    out = Type((len(rows), *parts[0].shape), rows[0].dtype)
    return b.op("stablehlo.concatenate", *rows, out=out, dimension=0)


def _widened(b: Any, x: Any) -> Any:
    """Short floats in f32, as engines keep sums of products."""
    return b.convert(x, float32) if x.dtype.is_float and x.dtype.bits < 32 else x
