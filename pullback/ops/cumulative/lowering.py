"""StableHLO for cumulative ops: prefixes under an associative combination, in blocks.

Windows of 16 elements inside the blocks, then a scan over the blocks' totals: linear work and a
few instructions at any length. One window over everything is quadratic unless XLA rewrites it, as
it does beyond 16 elements; and then it swaps the operands of a combination of several values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.ops.conv.windows import pad_for_windows
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.prelude import Type
from pullback.ops.reduce.reductions import reduction_accumulator

BLOCK = 16


def lower_cumulative(b: Any, mnemonic: str, identity: Any, x: Any, axis: int, reverse: bool) -> Any:
    """A scan with one binary instruction."""

    def combine(p: Sequence, q: Sequence) -> list:
        return [b.op(f"stablehlo.{mnemonic}", p[0], q[0], out=p[0].type)]

    sums = mnemonic in ("add", "multiply")
    wide = b.convert(x, reduction_accumulator(x.dtype)) if sums else x
    return b.convert(
        lower_cumulative_scan(b, combine, (identity,), [wide], axis, reverse)[0], x.dtype
    )


def lower_cumulative_scan(
    b: Any, combine: Callable, identities: Sequence, xs: Sequence, axis: int, reverse: bool = False
) -> list:
    """All prefixes of `xs` along an axis under an associative `combine(before, after)`."""
    if xs[0].type.size == 0:
        return list(xs)
    if reverse:
        forward = lower_cumulative_scan(
            b, combine, identities, [_lower_cumulative_reversed(b, x, axis) for x in xs], axis
        )
        return [_lower_cumulative_reversed(b, x, axis) for x in forward]
    shape = xs[0].shape
    n = shape[axis]
    if n <= BLOCK:
        return _lower_cumulative_by_windows(b, combine, identities, xs, axis)
    blocks = -(-n // BLOCK)
    outer, inner = shape[:axis], shape[axis + 1 :]
    split, whole = (*outer, blocks, BLOCK, *inner), (*outer, blocks * BLOCK, *inner)
    padded = [
        _lower_cumulative_padded(b, x, axis, 0, blocks * BLOCK - n, i)
        for x, i in zip(xs, identities)
    ]
    parts = [b.reshape(x, split) for x in padded]
    parts = _lower_cumulative_by_windows(b, combine, identities, parts, axis + 1)
    totals = [_lower_cumulative_sliced(b, p, axis + 1, BLOCK - 1, BLOCK) for p in parts]
    totals = [b.reshape(t, (*outer, blocks, *inner)) for t in totals]
    totals = lower_cumulative_scan(b, combine, identities, totals, axis)
    before = [lower_cumulative_shifted(b, t, axis, i) for t, i in zip(totals, identities)]
    before = [b.broadcast(b.reshape(t, (*outer, blocks, 1, *inner)), split) for t in before]
    return [
        _lower_cumulative_sliced(b, b.reshape(y, whole), axis, 0, n) for y in combine(before, parts)
    ]


def _lower_cumulative_by_windows(
    b: Any, combine: Callable, identities: Sequence, xs: Sequence, axis: int
) -> list:
    """Prefixes along a short axis, each computed from all of its elements."""
    shape = xs[0].shape
    rank, n, k = len(shape), shape[axis], len(xs)
    scalars = [Type((), x.dtype) for x in xs]
    body = b.region([*scalars, *scalars], lambda *v: combine(v[:k], v[k:]))
    pads = ", ".join(f"[{n - 1 if i == axis else 0}, 0]" for i in range(rank))
    prefixes = b.op(
        "stablehlo.reduce_window", *xs, *[b.constant(i, x.dtype) for x, i in zip(xs, identities)],
        out=tuple(x.type for x in xs), regions=body,
        window_dimensions=tuple(n if i == axis else 1 for i in range(rank)),
        padding=f"dense<[{pads}]> : tensor<{rank}x2xi64>",
    )  # fmt: skip
    return list(prefixes)


def _lower_cumulative_reversed(b: Any, x: Any, axis: int) -> Any:
    return b.op("stablehlo.reverse", x, out=x.type, dimensions=(axis,))


def _lower_cumulative_sliced(b: Any, x: Any, axis: int, start: int, stop: int) -> Any:
    if (start, stop) == (0, x.shape[axis]):
        return x
    starts, stops = [0] * len(x.shape), list(x.shape)
    starts[axis], stops[axis] = start, stop
    return hlo_slice_instruction(b, x, starts, stops)


def _lower_cumulative_padded(b: Any, x: Any, axis: int, low: int, high: int, value: Any) -> Any:
    """`x` with more elements along an axis; negative counts crop."""
    rank = len(x.shape)
    border = tuple([(low, high) if i == axis else (0, 0) for i in range(rank)])
    return pad_for_windows(b, x, border, (1,) * rank, value)


def lower_cumulative_shifted(b: Any, x: Any, axis: int, first: Any, reverse: bool = False) -> Any:
    """`x` shifted by one in the direction of a scan, which starts with `first`."""
    return (
        _lower_cumulative_padded(b, x, axis, -1, 1, first)
        if reverse
        else _lower_cumulative_padded(b, x, axis, 1, -1, first)
    )
