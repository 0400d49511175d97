"""Random bits: the Threefry-2x32 block cipher on counters, so that every number has an address.

The value at a position depends on the key and the position alone: the same in every engine,
however the work is split over devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.ir.dtypes import dtype, uint32, uint64
from pullback.ir.errors import ArgumentError, DTypeError, ShapeError
from pullback.ops.base import Axis, Node, Op, Type, broadcast_shapes
from pullback.ops.elementwise.base import align
from pullback.ops.sample import integers

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA  # what Threefry's key schedule mixes in


class Threefry(Op):
    """Two words of 32 random bits for each counter of two words; key u32[..., 2] and counters
    broadcast."""

    differentiable: ClassVar[bool] = False

    def infer(self, key: Type, high: Type, low: Type) -> tuple[Type, Type]:
        _check_key(key)
        for counter in (high, low):
            if counter.dtype is not uint32:
                raise DTypeError(f"counters must be u32, got {counter}", code="E2005")
        made = Type(broadcast_shapes(key.shape[:-1], high.shape, low.shape), uint32)
        return made, made

    def numpy(self, key: np.ndarray, high: np.ndarray, low: np.ndarray) -> tuple:
        shape = np.broadcast_shapes(key.shape[:-1], high.shape, low.shape)
        words = (key[..., 0], key[..., 1], high, low)
        return cipher(_NumPyWords, *[np.broadcast_to(word, shape) for word in words])

    def hlo(self, b: Any, out: Any, key: Any, high: Any, low: Any) -> tuple:
        shape = out[0].shape
        words = (_word(b, key, 0), _word(b, key, 1), high, low)
        return cipher(_Words(b, out[0]), *b.broadcast_all(words, shape))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        extra = (1, 0, 0)  # a key's two words are no dimension that broadcasts
        rank = max(x.type.rank - has - e for x, has, e in zip(xs, mapped, extra, strict=True))
        return self(*[align(x, rank + e) if has else x for x, has, e in zip(xs, mapped, extra)])

    @classmethod
    def samples(cls) -> Any:
        known = np.array(
            [[0, 0, 0, 0], [0xFFFFFFFF] * 4, [0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3]],
            np.uint32,
        )
        yield cls(), (known[:, :2], known[:, 2], known[:, 3])
        key = integers(2, high=2**32).astype(np.uint32)
        yield cls(), (key, np.zeros((), np.uint32), np.arange(6, dtype=np.uint32).reshape(2, 3))


class RandomBits(Op):
    """Unsigned integers of 8, 16, 32 or 64 random bits: `shape` of them for each key u32[..., 2].

    The counter of an element is its row-major position.
    """

    shape: tuple[int, ...]
    bits: int
    differentiable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.set("shape", tuple(map(int, self.shape)))
        if self.bits not in (8, 16, 32, 64):
            raise ArgumentError(f"bits must be 8, 16, 32 or 64, got {self.bits}")

    def infer(self, key: Type) -> Type:
        _check_key(key)
        return Type((*key.shape[:-1], *self.shape), dtype(f"u{self.bits}"))

    def numpy(self, key: np.ndarray) -> np.ndarray:
        position = np.arange(math.prod(self.shape), dtype=np.uint64).reshape(self.shape)
        keys = key.reshape(*key.shape[:-1], *(1 for _ in self.shape), 2)
        high = (position >> np.uint64(32)).astype(np.uint32)
        first, second = Threefry().numpy(keys, high, position.astype(np.uint32))
        if self.bits == 64:
            return (first.astype(np.uint64) << np.uint64(32)) | second
        return (first ^ second).astype(f"u{self.bits // 8}")

    def hlo(self, b: Any, out: Type, key: Any) -> Any:
        words = Type(out.shape, uint32)
        keys = [_word(b, key, i) for i in (0, 1)]
        keys = [b.broadcast_in_dim(k, out.shape, range(len(k.shape))) for k in keys]
        counters = [b.broadcast(c, out.shape) for c in self._counters(b)]
        first, second = cipher(_Words(b, words), *keys, *counters)
        if self.bits < 64:
            return b.convert(b.op("stablehlo.xor", first, second, out=words), out.dtype)
        first = b.op("stablehlo.shift_left", b.convert(first, uint64), b.full(out, 32), out=out)
        return b.op("stablehlo.or", first, b.convert(second, uint64), out=out)

    def _counters(self, b: Any) -> tuple:
        """The row-major positions as two words; the high one is 0 if all fit into the low."""
        size = math.prod(self.shape)
        if size <= 2**32:
            low = b.reshape(b.iota((size,), uint32, 0), self.shape)
            return b.full(low.type, 0), low
        position = b.reshape(b.iota((size,), uint64, 0), self.shape)
        high = b.op(
            "stablehlo.shift_right_logical", position, b.full(position.type, 32), out=position.type
        )
        return b.convert(high, uint32), b.convert(position, uint32)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*xs)  # the bits of a key do not depend on the keys beside it

    @classmethod
    def samples(cls) -> Any:
        key = np.array([0x13198A2E, 0x03707344], np.uint32)
        for bits in (8, 16, 32, 64):
            yield cls((3, 5), bits), (key,)
        yield cls((), 32), (key,)
        yield cls((0, 4), 32), (key,)
        yield cls((4,), 64), (integers(2, 3, 2, high=2**32).astype(np.uint32),)


# -- the cipher, over either kind of words --------------------------------------------------------


def cipher(words: Any, k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011) of the counter (x0, x1).

    The known answers of its authors' library:

    >>> words = np.array([[0, 0, 0, 0], [0xFFFFFFFF] * 4,
    ...                   [0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3]], np.uint32)
    >>> for first, second in zip(*cipher(_NumPyWords, *words.T)):
    ...     print(f"{first:08x} {second:08x}")
    6b200159 99ba4efe
    1cb996fc bb002be7
    c4923a9c 483df7a0
    """
    add, xor, rotate, constant = words.add, words.xor, words.rotate, words.constant
    keys = (k0, k1, xor(xor(k0, k1), constant(PARITY)))
    x0, x1 = add(x0, k0), add(x1, k1)
    for i in range(1, 6):
        for r in ROTATIONS[(i - 1) % 2]:
            x0 = add(x0, x1)
            x1 = xor(rotate(x1, r), x0)
        x0 = add(x0, keys[i % 3])
        x1 = add(add(x1, keys[(i + 1) % 3]), constant(i))
    return x0, x1


class _NumPyWords:
    """Arithmetic on uint32 arrays, which wraps around."""

    add: Callable = np.add
    xor: Callable = np.bitwise_xor
    constant: Callable = np.uint32

    @staticmethod
    def rotate(x: np.ndarray, by: int) -> np.ndarray:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


class _Words:
    """The same as StableHLO, on values of one type."""

    def __init__(self, b: Any, type: Type) -> None:
        self.b, self.type = b, type

    def add(self, x: Any, y: Any) -> Any:
        return self.b.op("stablehlo.add", x, y, out=self.type)

    def xor(self, x: Any, y: Any) -> Any:
        return self.b.op("stablehlo.xor", x, y, out=self.type)

    def constant(self, value: int) -> Any:
        return self.b.full(self.type, value)

    def rotate(self, x: Any, by: int) -> Any:
        left = self.b.op("stablehlo.shift_left", x, self.constant(by), out=self.type)
        right = self.constant(32 - by)
        right = self.b.op("stablehlo.shift_right_logical", x, right, out=self.type)
        return self.b.op("stablehlo.or", left, right, out=self.type)


def _word(b: Any, key: Any, i: int) -> Any:
    """Word `i` of every key."""
    shape = key.shape[:-1]
    part = b.op(
        "stablehlo.slice", key, out=Type((*shape, 1), uint32),
        start_indices=(*(0 for _ in shape), i), limit_indices=(*shape, i + 1),
        strides=(1,) * len(key.shape),
    )  # fmt: skip
    return b.reshape(part, shape)


def _check_key(key: Type) -> None:
    if key.dtype is not uint32 or not key.rank or key.shape[-1] != 2:
        raise ShapeError(f"a key is two words, u32[2] or u32[...,2], got {key}")
