"""The Threefry-2x32 block cipher: random bits as a function of a key and a counter.

The value at a position depends only on the key and the position: it is the same in every engine,
sharded or batched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import int64, uint32, uint64
from pullback.graph.types import show_types
from pullback.ops.elementwise.elementwise import align_elementwise_operand
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.prelude import Axis, Node, Op, Type, broadcast_shapes
from pullback.ops.random.stepwise import lifted_stepwise
from pullback.ops.samples import integer_samples

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA  # a constant of Threefry's key schedule
POSITION_BITS = 48  # of a counter; the other 16 are the stream
STREAM_SHIFT = POSITION_BITS - 32  # of the stream in the counter's high word


def threefry_cipher(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Encrypt the counter (x0, x1) by Threefry-2x32 with 20 rounds (Salmon et al., 2011).

    The known answers of its authors' library:

    >>> words = np.array([[0, 0, 0, 0], [0xFFFFFFFF] * 4,
    ...                   [0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3]], np.uint32)
    >>> for first, second in zip(*threefry_cipher(*words.T)):
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
    """Two words of 32 random bits for each counter of two words.

    Keys u32[..., 2] and counters broadcast.
    """

    differentiable: ClassVar[bool] = False
    factors = fixed_factor_rule("... _, ..., ... -> ..., ...")

    def infer(self, key: Type, high: Type, low: Type) -> tuple[Type, Type]:
        check_threefry_key(key)
        for counter in (high, low):
            if counter.dtype is not uint32:
                raise DTypeError(f"counters must be u32, got {counter}", code="E2005")
        return (Type(broadcast_shapes(key.shape[:-1], high.shape, low.shape), uint32),) * 2

    def numpy(self, key: np.ndarray, high: np.ndarray, low: np.ndarray) -> tuple:
        shape = np.broadcast_shapes(key.shape[:-1], high.shape, low.shape)
        words = (key[..., 0], key[..., 1], high, low)
        return threefry_cipher(*[np.broadcast_to(word, shape) for word in words])

    def hlo(self, b: Any, out: Any, key: Any, high: Any, low: Any) -> tuple:
        words = (threefry_word(b, key, 0), threefry_word(b, key, 1), high, low)
        return lifted_stepwise(
            b, lambda m, *xs: threefry_cipher(*xs), *b.broadcast_all(words, out[0].shape)
        )

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*aligned_threefry(xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        digits = [0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3]  # of pi
        known = np.array([[0] * 4, [0xFFFFFFFF] * 4, digits], np.uint32)
        yield cls(), (known[:, :2], known[:, 2], known[:, 3])
        key = integer_samples(2, high=2**32).astype(np.uint32)
        yield cls(), (key, np.zeros((), np.uint32), np.arange(6, dtype=np.uint32).reshape(2, 3))


def numpy_threefry_blocks(
    key: np.ndarray, shape: tuple[int, ...], stream: int, whole: tuple[int, ...], *begin: np.ndarray
) -> tuple:
    """Return the cipher of every row-major position of `shape` in a stream, for each key u32[...,
    2]. If `shape` is a part of a larger shape `whole`, positions are those in `whole`, and `begin`
    is the start of the part, i64[..., rank] for each key."""
    ones = (1,) * len(shape)
    if not begin:
        position = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    else:
        position = np.zeros((), np.uint64)
        for i, (n, step) in enumerate(zip(shape, _threefry_strides(whole), strict=True)):
            start = begin[0][..., i].reshape(*key.shape[:-1], *ones)
            along = start + np.arange(n).reshape(n, *ones[i + 1 :])
            position = position + along.astype(np.uint64) * np.uint64(step)
    position = position | np.uint64(stream << POSITION_BITS)
    keys = key.reshape(*key.shape[:-1], *ones, 2)
    high = (position >> np.uint64(32)).astype(np.uint32)
    return Threefry().numpy(keys, high, position.astype(np.uint32))


def _threefry_strides(shape: tuple[int, ...]) -> list[int]:
    """Return the row-major strides of a shape, in elements."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def hlo_threefry_blocks(
    b: Any, key: Any, shape: tuple[int, ...], stream: Any, whole: tuple[int, ...], *begin: Any
) -> tuple:
    """Return `numpy_threefry_blocks` as StableHLO; the stream may be a value u32[]."""
    out = (*key.shape[:-1], *shape)
    keys = [threefry_word(b, key, i) for i in (0, 1)]
    keys = [b.broadcast_in_dim(k, out, range(len(k.shape))) for k in keys]
    stream = b.constant(stream, uint32) if isinstance(stream, int) else stream
    size = math.prod(whole if begin else shape)
    word_type = uint32 if size <= 2**32 else uint64
    if begin:
        position = _threefry_positions(b, Type(out, word_type), whole, *begin)
    else:
        position = b.reshape(b.iota((size,), word_type, 0), shape)
    counters = _threefry_counters(b, position, b.broadcast(stream, position.shape))
    return lifted_stepwise(
        b, lambda m, *xs: threefry_cipher(*xs), *keys, *[b.broadcast(c, out) for c in counters]
    )


def _threefry_positions(b: Any, out: Type, whole: tuple[int, ...], begin: Any) -> Any:
    """Return the row-major positions in the larger shape, for each key."""
    outer = range(out.rank - len(whole))
    position = b.full(out, 0)
    for i, step in enumerate(_threefry_strides(whole)):
        start = b.broadcast_in_dim(
            b.convert(threefry_word(b, begin, i), out.dtype), out.shape, outer
        )
        along = b.iota(out.shape, out.dtype, len(outer) + i)
        position = lifted_stepwise(
            b, lambda m, p, x, y, s=step: p + (x + y) * s, position, start, along
        )
    return position


def _threefry_counters(b: Any, position: Any, stream: Any) -> tuple:
    """Return positions as two words; the first contains the stream."""
    if position.dtype is uint32:
        return lifted_stepwise(b, lambda m, stream: stream << STREAM_SHIFT, stream), position

    def split(m: Any, stream: Any, position: Any) -> tuple:
        high = m.convert(position >> 32, uint32)
        return high | (stream << STREAM_SHIFT), m.convert(position, uint32)

    return lifted_stepwise(b, split, stream, position)


def threefry_word(b: Any, key: Any, i: int) -> Any:
    """Return word `i` of every key."""
    shape = key.shape[:-1]
    return b.reshape(
        hlo_slice_instruction(b, key, (*(0 for _ in shape), i), (*shape, i + 1)), shape
    )


def aligned_threefry(xs: Sequence[Node], mapped: Sequence[bool]) -> list[Node]:
    """Align mapped operands, of which the first are keys, so that they broadcast as before."""
    extra = [1] + [0] * (len(xs) - 1)  # the dimension of a key's words does not broadcast
    rank = max(x.type.rank - has - e for x, has, e in zip(xs, mapped, extra, strict=True))
    return [
        align_elementwise_operand(x, rank + e) if has else x for x, has, e in zip(xs, mapped, extra)
    ]


def check_threefry_key(key: Type) -> None:
    if key.dtype is not uint32 or not key.rank or key.shape[-1] != 2:
        raise ShapeError(f"keys must be u32[2] or u32[...,2], got {key}")


def check_threefry_part(key: Type, begin: Sequence[Type], whole: tuple[int, ...]) -> None:
    """Raise unless the last operand is the start of the part of `whole` to draw, for each key."""
    wanted = (Type((*key.shape[:-1], len(whole)), int64),) if whole else ()
    if begin != wanted:
        what = (
            f"the start of a part of {whole} must be {show_types(wanted) or None}, "
            f"got {show_types(begin)}"
        )
        raise ShapeError(what)


def check_threefry_size(shape: tuple[int, ...]) -> None:
    if math.prod(shape) > 1 << POSITION_BITS:
        what = f"one key can draw at most 2**{POSITION_BITS} numbers, got shape {list(shape)}"
        raise ShapeError(what)
