"""How a window slides over a tensor: what pooling and convolution share.

The elements of a window are its *taps*, numbered in row-major order. Along each dimension, tap j
of window o lies at position `o * stride + j * dilation - low` of the operand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.dtypes import DType, int32
from pullback.ops.prelude import Type

UNROLLED = 64  # windows of up to this many taps are written out, so that XLA fuses them

Padding = tuple[tuple[int, int], ...]


def spread(n: int, dilation: int) -> int:
    """The extent of `n` elements that lie `dilation` apart."""
    return (n - 1) * dilation + 1 if n else 0


def window_count(n: int, window: int, stride: int, padding: tuple[int, int], dilation: int) -> int:
    """How many windows fit into `n` elements and their padding."""
    return max(0, (n + sum(padding) - spread(window, dilation)) // stride + 1)


def resolve_padding(
    padding: str | Padding, extents: Sequence[int], window: Sequence[int],
    strides: Sequence[int], dilation: Sequence[int],
) -> Padding:  # fmt: skip
    """Padding as (low, high) pairs; "SAME" gives ceil(extent / stride) windows."""
    if not isinstance(padding, str):
        return pairs(padding)
    if padding.upper() not in ("VALID", "SAME"):
        raise ArgumentError(f"padding must be VALID, SAME or pairs of numbers, got {padding!r}")
    made = []
    for n, k, s, d in zip(extents, window, strides, dilation, strict=True):
        reach = (-(-n // s) - 1) * s + spread(k, d)
        total = max(reach - n, 0) if padding.upper() == "SAME" else 0
        made.append((total // 2, total - total // 2))
    return tuple(made)


def pairs(padding: Any) -> Padding:
    return tuple((int(low), int(high)) for low, high in padding)


def transposed_padding(
    n: int, count: int, window: int, stride: int, padding: tuple[int, int], dilation: int,
    base_dilation: int,
) -> tuple[int, int]:  # fmt: skip
    """The padding with which windows over `count` results, `stride` apart, reach back to each of
    the `n` elements that went into them; negative where elements lie outside."""
    low = spread(window, dilation) - 1 - padding[0]
    return low, spread(n, base_dilation) + padding[0] - spread(count, stride)


# -- in NumPy -----------------------------------------------------------------------------------


def padded(x: np.ndarray, padding: Padding, dilation: Sequence[int], value: Any) -> np.ndarray:
    """`x` with its elements `dilation` apart and a border; a negative border is cut off."""
    apart = np.full([spread(n, a) for n, a in zip(x.shape, dilation, strict=True)], value, x.dtype)
    apart[tuple(slice(None, None, a) for a in dilation)] = x
    wider = np.pad(apart, [(max(p, 0), max(q, 0)) for p, q in padding], constant_values=value)
    return wider[tuple(slice(max(-p, 0), max(n + min(q, 0), 0))
                       for n, (p, q) in zip(wider.shape, padding, strict=True))]  # fmt: skip


def tap_slices(
    tap: Sequence[int], counts: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[slice, ...]:
    """Where one tap of every window lies in the padded operand."""
    starts = [j * d for j, d in zip(tap, dilation, strict=True)]
    return tuple(slice(start, start + spread(m, s), s)
                 for start, m, s in zip(starts, counts, strides, strict=True))  # fmt: skip


# -- in StableHLO -------------------------------------------------------------------------------


def pad(b: Any, x: Any, padding: Padding, dilation: Sequence[int], value: Any) -> Any:
    """The same as `padded`."""
    if not any(map(any, padding)) and all(a == 1 for a in dilation):
        return x
    shape = [max(spread(n, a) + p + q, 0) for n, a, (p, q) in zip(x.shape, dilation, padding)]
    if 0 in x.shape or 0 in shape:
        return b.full(Type(tuple(shape), x.dtype), value)
    low, high = zip(*padding, strict=True)
    return b.op(
        "stablehlo.pad", x, b.constant(value, x.dtype), out=Type(tuple(shape), x.dtype),
        edge_padding_low=low, edge_padding_high=high,
        interior_padding=tuple(a - 1 for a in dilation),
    )  # fmt: skip


def worst(dtype: DType, greatest: bool) -> Any:
    """The least (or greatest) value of an element type: what a maximum (minimum) starts from."""
    if dtype.is_float:
        return np.inf if greatest else -np.inf
    limits = np.iinfo(dtype.numpy)
    return limits.max if greatest else limits.min


def computed_once(b: Any, index: Any, limit: int) -> Any:
    """`index` (at least 0, below `limit`), in a form that XLA will not compute again in each of
    its uses: cheap work is repeated so, a remainder by something unknown is not."""
    below = b.op("stablehlo.minimum", index, b.full(index.type, 0), out=index.type)
    divisor = b.op("stablehlo.subtract", b.full(index.type, limit), below, out=index.type)
    return b.op("stablehlo.remainder", index, divisor, out=index.type)


class Taps:
    """Walks over the taps of all windows at once: written out if few, else as a loop."""

    def __init__(
        self, b: Any, window: Sequence[int], counts: Sequence[int], strides: Sequence[int],
        dilation: Sequence[int],
    ) -> None:  # fmt: skip
        self.b, self.window, self.counts = b, tuple(window), tuple(counts)
        self.strides, self.dilation = tuple(strides), tuple(dilation)
        self.reach = tuple(map(spread, counts, strides))

    @property
    def few(self) -> bool:
        return math.prod(self.window) <= UNROLLED

    def fold(self, start: Sequence[Any], step: Callable[..., Sequence[Any]]) -> Sequence[Any]:
        """`carry = step(n, *carry)` for each tap n: an int, or a value inside a loop."""
        if not self.few:
            return self.loop(start, step)
        carry = start
        for n in range(math.prod(self.window)):
            carry = step(n, *carry)
        return carry

    def loop(self, start: Sequence[Any], step: Callable[..., Sequence[Any]]) -> Sequence[Any]:
        b, types = self.b, (Type((), int32), *(v.type for v in start))
        taps = math.prod(self.window)

        def following(n: Any, *carry: Any) -> list:
            return [b.op("stablehlo.add", n, b.constant(1, int32), out=n.type), *step(n, *carry)]

        more = b.region(types, lambda n, *_: [b.compare("LT", n, b.constant(taps, int32))])
        body = b.region(types, following)
        zero = b.constant(0, int32)
        return b.op("stablehlo.while", zero, *start, out=types, regions=(more, body))[1:]

    def take(self, x: Any, n: Any) -> Any:
        """Tap n of every window of the padded operand."""
        if not isinstance(n, int):
            x = self._dynamic("stablehlo.dynamic_slice", n, x, Type(self.reach, x.dtype),
                              slice_sizes=self.reach)  # fmt: skip
            n = 0
        tap = np.unravel_index(n, self.window)
        where = tap_slices(tap, self.counts, self.strides, self.dilation)
        return self.b.op(
            "stablehlo.slice", x, out=Type(self.counts, x.dtype),
            start_indices=tuple(s.start for s in where), limit_indices=tuple(s.stop for s in where),
            strides=self.strides,
        )  # fmt: skip

    def add(self, total: Any, y: Any, n: Any) -> Any:
        """Inside a loop: add `y` to tap n of every window of `total`."""
        b = self.b
        y = pad(b, y, ((0, 0),) * len(self.window), self.strides, 0)
        part = self._dynamic("stablehlo.dynamic_slice", n, total, y.type, slice_sizes=self.reach)
        part = b.op("stablehlo.add", part, y, out=y.type)
        return self._dynamic("stablehlo.dynamic_update_slice", n, total, total.type, part)

    def gather(self, values: Callable[[int], Any], shape: Sequence[int]) -> Any:
        """Few taps: the sum of `values(n)` over all taps n, each added where its tap lies in a
        tensor of the given shape.

        Taps that lie at the same remainder by the stride are added up first, without gaps; then
        the remainders are interleaved. That is many times faster than padding each with gaps.
        """
        b, rank = self.b, len(self.window)
        rows = tuple(-(-n // s) for n, s in zip(shape, self.strides, strict=True))
        sums: dict[tuple[int, ...], Any] = {}
        for n, tap in enumerate(itertools.product(*map(range, self.window))):
            at = [divmod(j * d, s) for j, d, s in zip(tap, self.dilation, self.strides)]
            border = tuple((q, r - q - m) for (q, _), r, m in zip(at, rows, self.counts))
            here = pad(b, values(n), border, (1,) * rank, 0)
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
        made = b.reshape(interleaved(()), whole)
        return pad(b, made, tuple((0, n - w) for n, w in zip(shape, whole)), (1,) * rank, 0)

    def is_tap(self, index: Any, n: Any) -> Any:
        """Where `index` names tap n."""
        b = self.b
        n = b.constant(n, index.dtype) if isinstance(n, int) else n
        return b.compare("EQ", index, b.broadcast(n, index.shape))

    def _dynamic(self, name: str, n: Any, x: Any, out: Type, *more: Any, **attributes: Any) -> Any:
        """A slice instruction that starts at tap n, known only as the loop runs."""
        b, scalar = self.b, Type((), int32)
        starts = []
        for axis, (k, d) in enumerate(zip(self.window, self.dilation, strict=True)):
            after = b.constant(math.prod(self.window[axis + 1 :]), int32)
            j = b.op("stablehlo.divide", n, after, out=scalar)
            j = b.op("stablehlo.remainder", j, b.constant(k, int32), out=scalar)
            starts.append(b.op("stablehlo.multiply", j, b.constant(d, int32), out=scalar))
        return b.op(name, x, *more, *starts, out=out, **attributes)
