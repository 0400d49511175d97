"""Sliding windows: the geometry that pooling and convolution share.

The elements of a window are its *taps*, numbered in row-major order. Along each dimension, tap j
of window o is at position `o * stride + j * dilation - low` of the operand.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.dtypes import int32
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.prelude import Type

UNROLLED = 64  # loops over up to this many taps are unrolled, so that XLA fuses them

Padding = tuple[tuple[int, int], ...]


class WindowMotion(NamedTuple):
    """How a filter moves over an input."""

    strides: tuple[int, ...]
    padding: Padding
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int


def dilated_window(n: int, dilation: int) -> int:
    """The size of `n` elements that are `dilation` apart."""
    return (n - 1) * dilation + 1 if n else 0


def count_windows(n: int, window: int, stride: int, padding: tuple[int, int], dilation: int) -> int:
    """The number of windows that fit into `n` elements and their padding."""
    return max(0, (n + sum(padding) - dilated_window(window, dilation)) // stride + 1)


def resolve_window_padding(
    padding: str | Padding, sizes: Sequence[int], window: Sequence[int],
    strides: Sequence[int], dilation: Sequence[int],
) -> Padding:  # fmt: skip
    """Padding as (low, high) pairs; "SAME" gives ceil(size / stride) windows."""
    if not isinstance(padding, str):
        return window_pairs(padding)
    if padding.upper() not in ("VALID", "SAME"):
        raise ArgumentError(f"padding must be VALID, SAME or pairs of integers, got {padding!r}")
    if padding.upper() == "VALID":
        return ((0, 0),) * len(sizes)
    sides = zip(sizes, window, strides, dilation, strict=True)
    totals = [max((-(-n // s) - 1) * s + dilated_window(k, d) - n, 0) for n, k, s, d in sides]
    return tuple([(total // 2, total - total // 2) for total in totals])


def window_pairs(padding: Any) -> Padding:
    """Return padding as a tuple of pairs of ints."""
    try:
        return tuple((operator.index(low), operator.index(high)) for low, high in padding)
    except (TypeError, ValueError):
        what = f"padding must be VALID, SAME or pairs of integers, got {padding!r}"
        hint = f"Write (({padding}, {padding}), ...): before and after, for each spatial dimension."
        raise ArgumentError(what, hint=hint if isinstance(padding, int) else None) from None


def padding_of_transposed_windows(
    n: int, count: int, window: int, stride: int, padding: tuple[int, int], dilation: int,
    base_dilation: int,
) -> tuple[int, int]:  # fmt: skip
    """The padding of the transposed windows, from `count` results `stride` apart to the `n`
    elements that they were computed from; negative where elements are cropped."""
    low = dilated_window(window, dilation) - 1 - padding[0]
    return low, dilated_window(n, base_dilation) + padding[0] - dilated_window(count, stride)


def padded_for_windows(
    x: np.ndarray, padding: Padding, dilation: Sequence[int], value: Any
) -> np.ndarray:
    """`x` with its elements `dilation` apart and a border; a negative border crops."""
    apart = np.full(
        [dilated_window(n, a) for n, a in zip(x.shape, dilation, strict=True)], value, x.dtype
    )
    apart[tuple(slice(None, None, a) for a in dilation)] = x
    wider = np.pad(apart, [(max(p, 0), max(q, 0)) for p, q in padding], constant_values=value)
    return wider[tuple(slice(max(-p, 0), max(n + min(q, 0), 0))
                       for n, (p, q) in zip(wider.shape, padding, strict=True))]  # fmt: skip


def window_tap_slices(
    tap: Sequence[int], counts: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[slice, ...]:
    """The elements of the padded operand that one tap of all windows meets."""
    starts = [j * d for j, d in zip(tap, dilation, strict=True)]
    return tuple(slice(start, start + dilated_window(m, s), s)
                 for start, m, s in zip(starts, counts, strides, strict=True))  # fmt: skip


def pad_for_windows(b: Any, x: Any, padding: Padding, dilation: Sequence[int], value: Any) -> Any:
    """The same as `padded_for_windows`, in StableHLO."""
    if not any(map(any, padding)) and all(a == 1 for a in dilation):
        return x
    shape = [
        max(dilated_window(n, a) + p + q, 0) for n, a, (p, q) in zip(x.shape, dilation, padding)
    ]
    if 0 in x.shape or 0 in shape:
        return b.full(Type(tuple(shape), x.dtype), value)
    low, high = zip(*padding, strict=True)
    return b.op(
        "stablehlo.pad", x, b.constant(value, x.dtype), out=Type(tuple(shape), x.dtype),
        edge_padding_low=low, edge_padding_high=high,
        interior_padding=tuple(a - 1 for a in dilation),
    )  # fmt: skip


class WindowTaps:
    """Iterates over the taps of all windows at once: unrolled if there are few, else in a loop."""

    def __init__(
        self, b: Any, window: Sequence[int], counts: Sequence[int], strides: Sequence[int],
        dilation: Sequence[int],
    ) -> None:  # fmt: skip
        self.b, self.window, self.counts = b, tuple(window), tuple(counts)
        self.strides, self.dilation = tuple(strides), tuple(dilation)
        self.reach = tuple(map(dilated_window, counts, strides))

    @property
    def few(self) -> bool:
        return math.prod(self.window) <= UNROLLED

    def fold(self, start: Sequence[Any], step: Callable[..., Sequence[Any]]) -> Sequence[Any]:
        """Run `carry = step(n, *carry)` for each tap n: an int, or a value inside a loop."""
        if not self.few:
            return self.loop(start, step)
        for n in range(math.prod(self.window)):
            start = step(n, *start)
        return start

    def loop(self, start: Sequence[Any], step: Callable[..., Sequence[Any]]) -> Sequence[Any]:
        b, taps = self.b, math.prod(self.window)

        def following(n: Any, *carry: Any) -> list:
            return [b.op("stablehlo.add", n, b.constant(1, int32), out=n.type), *step(n, *carry)]

        def more(n: Any, *_: Any) -> Any:
            return b.compare("LT", n, b.constant(taps, int32))

        return b.loop([b.constant(0, int32), *start], more, following)[1:]

    def take(self, x: Any, n: Any) -> Any:
        """Tap n of every window of the padded operand."""
        if not isinstance(n, int):
            x = self._dynamic("stablehlo.dynamic_slice", n, x, Type(self.reach, x.dtype),
                              slice_sizes=self.reach)  # fmt: skip
            n = 0
        tap = np.unravel_index(n, self.window)
        where = window_tap_slices(tap, self.counts, self.strides, self.dilation)
        return hlo_slice_instruction(
            self.b, x, [s.start for s in where], [s.stop for s in where], self.strides
        )

    def add(self, total: Any, y: Any, n: Any) -> Any:
        """Inside a loop: add `y` to tap n of every window of `total`."""
        b = self.b
        y = pad_for_windows(b, y, ((0, 0),) * len(self.window), self.strides, 0)
        part = self._dynamic("stablehlo.dynamic_slice", n, total, y.type, slice_sizes=self.reach)
        part = b.op("stablehlo.add", part, y, out=y.type)
        return self._dynamic("stablehlo.dynamic_update_slice", n, total, total.type, part)

    def scatter(self, values: Callable[[int], Any], shape: Sequence[int]) -> Any:
        """For few taps: add `values(n)` at tap n of every window of a zero tensor of `shape`. Taps
        at positions with the same remainder by the stride are summed first, without gaps; then the
        remainders are interleaved. Padding each tap with gaps is many times slower."""
        b, rank = self.b, len(self.window)
        rows = tuple(-(-n // s) for n, s in zip(shape, self.strides, strict=True))
        sums: dict[tuple[int, ...], Any] = {}
        for n, tap in enumerate(itertools.product(*map(range, self.window))):
            at = [divmod(j * d, s) for j, d, s in zip(tap, self.dilation, self.strides)]
            border = tuple((q, r - q - m) for (q, _), r, m in zip(at, rows, self.counts))
            here = pad_for_windows(b, values(n), border, (1,) * rank, 0)
            key = tuple(remainder for _, remainder in at)
            known = sums.get(key)
            sums[key] = here if known is None else b.op("stablehlo.add", known, here, out=here.type)
        nothing = b.full(here.type, 0)

        def interleaved(key: tuple[int, ...]) -> Any:
            axis = len(key)
            if axis == rank:
                return b.reshape(sums.get(key, nothing), [n for r in rows for n in (r, 1)])
            parts = [interleaved((*key, i)) for i in range(self.strides[axis])]
            shape = list(parts[0].shape)
            shape[2 * axis + 1] = len(parts)
            return b.op("stablehlo.concatenate", *parts, dimension=2 * axis + 1,
                        out=Type(tuple(shape), nothing.dtype))  # fmt: skip

        whole = [r * s for r, s in zip(rows, self.strides)]
        total = b.reshape(interleaved(()), whole)
        return pad_for_windows(
            b, total, tuple((0, n - w) for n, w in zip(shape, whole)), (1,) * rank, 0
        )

    def is_tap(self, index: Any, n: Any) -> Any:
        """Whether each element of `index` is n."""
        b = self.b
        n = b.constant(n, index.dtype) if isinstance(n, int) else n
        return b.compare("EQ", index, b.broadcast(n, index.shape))

    def _dynamic(self, name: str, n: Any, x: Any, out: Type, *more: Any, **attributes: Any) -> Any:
        """A slice instruction that starts at tap n, a value inside a loop."""
        b, scalar = self.b, Type((), int32)
        starts = []
        for axis, (k, d) in enumerate(zip(self.window, self.dilation, strict=True)):
            after = b.constant(math.prod(self.window[axis + 1 :]), int32)
            j = b.op("stablehlo.divide", n, after, out=scalar)
            j = b.op("stablehlo.remainder", j, b.constant(k, int32), out=scalar)
            starts.append(b.op("stablehlo.multiply", j, b.constant(d, int32), out=scalar))
        return b.op(name, x, *more, *starts, out=out, **attributes)
