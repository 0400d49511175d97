"""The Threefry-2x32 block cipher: random bits as a function of a key and a counter.

The value at a position depends on the key and the position alone: the same in every engine,
however the work is split over devices or batched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.ir.dtypes import uint32, uint64
from pullback.ir.errors import DTypeError, ShapeError
from pullback.ops.base import Axis, Node, Op, Type, broadcast_shapes
from pullback.ops.elementwise.base import align
from pullback.ops.random.stepwise import lifted
from pullback.ops.sample import integers

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA  # what Threefry's key schedule mixes in
POSITION_BITS = 48  # of a counter; the 16 others name the stream
STREAM_SHIFT = POSITION_BITS - 32  # of the stream in the counter's high word


def cipher(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011) of the counter (x0, x1).

    The known answers of its authors' library:

    >>> words = np.array([[0, 0, 0, 0], [0xFFFFFFFF] * 4,
    ...                   [0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3]], np.uint32)
    >>> for first, second in zip(*cipher(*words.T)):
    ...     print(f"{first:08x} {second:08x}")
    6b200159 99ba4efe
    1cb996fc bb002be7
    c4923a9c 483df7a0
    """
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    x0, x1 = x0 + k0, x1 + k1
    for i in range(1, 6):
        for r in ROTATIONS[(i - 1) % 2]:
            x0 = x0 + x1
            x1 = ((x1 << r) | (x1 >> (32 - r))) ^ x0
        x0 = x0 + keys[i % 3]
        x1 = x1 + keys[(i + 1) % 3] + i
    return x0, x1


class Threefry(Op):
    """Two words of 32 random bits for each counter of two words; key u32[..., 2] and counters
    broadcast."""

    differentiable: ClassVar[bool] = False

    def infer(self, key: Type, high: Type, low: Type) -> tuple[Type, Type]:
        check_key(key)
        for counter in (high, low):
            if counter.dtype is not uint32:
                raise DTypeError(f"counters must be u32, got {counter}", code="E2005")
        made = Type(broadcast_shapes(key.shape[:-1], high.shape, low.shape), uint32)
        return made, made

    def numpy(self, key: np.ndarray, high: np.ndarray, low: np.ndarray) -> tuple:
        shape = np.broadcast_shapes(key.shape[:-1], high.shape, low.shape)
        words = (key[..., 0], key[..., 1], high, low)
        return cipher(*[np.broadcast_to(word, shape) for word in words])

    def hlo(self, b: Any, out: Any, key: Any, high: Any, low: Any) -> tuple:
        words = (word(b, key, 0), word(b, key, 1), high, low)
        return lifted(b, lambda m, *xs: cipher(*xs), *b.broadcast_all(words, out[0].shape))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*aligned(xs, mapped))

    def factors(self, key: Type, high: Type, low: Type) -> str:
        return "... _, ..., ... -> ..., ..."

    @classmethod
    def samples(cls) -> Any:
        known = np.array(
            [[0, 0, 0, 0], [0xFFFFFFFF] * 4, [0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3]],
            np.uint32,
        )
        yield cls(), (known[:, :2], known[:, 2], known[:, 3])
        key = integers(2, high=2**32).astype(np.uint32)
        yield cls(), (key, np.zeros((), np.uint32), np.arange(6, dtype=np.uint32).reshape(2, 3))


# -- blocks of bits for every position of a shape -------------------------------------------------


def numpy_blocks(key: np.ndarray, shape: tuple[int, ...], stream: int = 0) -> tuple:
    """The cipher of every row-major position of `shape` in a stream, for each key u32[..., 2]."""
    position = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    position = position | np.uint64(stream << POSITION_BITS)
    keys = key.reshape(*key.shape[:-1], *(1 for _ in shape), 2)
    high = (position >> np.uint64(32)).astype(np.uint32)
    return Threefry().numpy(keys, high, position.astype(np.uint32))


def hlo_blocks(b: Any, key: Any, shape: tuple[int, ...], stream: Any = 0) -> tuple:
    """The same as StableHLO; the stream may be computed, as u32[]."""
    whole = (*key.shape[:-1], *shape)
    keys = [word(b, key, i) for i in (0, 1)]
    keys = [b.broadcast_in_dim(k, whole, range(len(k.shape))) for k in keys]
    stream = b.constant(stream, uint32) if isinstance(stream, int) else stream
    counters = [b.broadcast(c, whole) for c in _counters(b, shape, b.broadcast(stream, shape))]
    return lifted(b, lambda m, *xs: cipher(*xs), *keys, *counters)


def _counters(b: Any, shape: tuple[int, ...], stream: Any) -> tuple:
    """The row-major positions as two words, the first with the stream."""
    size = math.prod(shape)
    if size <= 2**32:
        low = b.reshape(b.iota((size,), uint32, 0), shape)
        return lifted(b, lambda m, stream: stream << STREAM_SHIFT, stream), low

    def split(m: Any, stream: Any, position: Any) -> tuple:
        high = m.convert(position >> 32, uint32)
        return high | (stream << STREAM_SHIFT), m.convert(position, uint32)

    return lifted(b, split, stream, b.reshape(b.iota((size,), uint64, 0), shape))


def word(b: Any, key: Any, i: int) -> Any:
    """Word `i` of every key."""
    shape = key.shape[:-1]
    part = b.op(
        "stablehlo.slice", key, out=Type((*shape, 1), uint32),
        start_indices=(*(0 for _ in shape), i), limit_indices=(*shape, i + 1),
        strides=(1,) * len(key.shape),
    )  # fmt: skip
    return b.reshape(part, shape)


def aligned(xs: Sequence[Node], mapped: Sequence[bool]) -> list[Node]:
    """Mapped operands, the first of them keys, so that they broadcast as before."""
    extra = [1] + [0] * (len(xs) - 1)  # a key's two words are no dimension that broadcasts
    rank = max(x.type.rank - has - e for x, has, e in zip(xs, mapped, extra, strict=True))
    return [align(x, rank + e) if has else x for x, has, e in zip(xs, mapped, extra)]


def check_key(key: Type) -> None:
    if key.dtype is not uint32 or not key.rank or key.shape[-1] != 2:
        raise ShapeError(f"a key is two words, u32[2] or u32[...,2], got {key}")


def check_size(shape: tuple[int, ...]) -> None:
    if math.prod(shape) > 1 << POSITION_BITS:
        raise ShapeError(f"one key makes at most 2**{POSITION_BITS} numbers, got {list(shape)}")
