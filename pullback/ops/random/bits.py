"""Random bits, and derivation of keys.

A counter of the cipher consists of a stream (16 bits) and a position (48 bits). Numbers are drawn
from low streams and new keys from reserved ones, so a key may be both split and drawn from.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ArgumentError, DTypeError
from pullback.graph.dtypes import DType, dtype, uint32, uint64
from pullback.graph.node import nodes_varying_alike
from pullback.ops.factor_rules import factor_rule, fixed_factor_rule, named_factors
from pullback.ops.instructions import stacked_instruction
from pullback.ops.parts import Begin
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type, batch_along, broadcast_shapes
from pullback.ops.random import threefry
from pullback.ops.random.stepwise import NUMPY, lifted
from pullback.ops.random.threefry import (
    aligned_threefry,
    hlo_blocks,
    numpy_blocks,
    threefry_cipher,
    threefry_word,
)
from pullback.ops.samples import integers

NO_PART: tuple[int, ...] = ()
STREAMS = 0x8000  # the number of streams that numbers are drawn from
SPLIT, FOLD_HIGH, FOLD_LOW = 0xFFFF, 0xFFFE, 0xFFFD
KEY = np.array([0x13198A2E, 0x03707344], np.uint32)  # for samples
KEYS = (KEY * np.arange(1, 13, 2, dtype=np.uint32)[:, None]).reshape(2, 3, 2)


class PerKey(Op, abstract=True):
    """An op that returns results of shape `shape` for each key u32[..., 2]. Each is computed from
    the cipher of its position. To draw only a part of a larger shape `whole`, as a device of a mesh
    does, a second operand i64[..., rank] gives the start of the part for each key."""

    shape: tuple[int, ...]
    differentiable: ClassVar[bool] = False
    stream = 0
    whole = NO_PART
    batch = batch_along

    def __post_init__(self) -> None:
        self.set("shape", tuple(map(int, self.shape)))
        self.set("whole", tuple(map(int, self.whole)))

    @abstractmethod
    def result(self) -> DType:
        """Return the dtype of the results."""

    @abstractmethod
    def draw(self, m: Any, first: Any, second: Any) -> Any:
        """Return the results from both words of the cipher, as a formula of `stepwise`."""

    def infer(self, key: Type, *begin: Type) -> Type:
        threefry.check_threefry_key(key)
        threefry.check_threefry_part(key, begin, self.whole)
        threefry.check_threefry_size(self.whole or self.shape)
        return Type((*key.shape[:-1], *self.shape), self.result())

    def numpy(self, key: np.ndarray, *begin: np.ndarray) -> np.ndarray:
        return self.draw(NUMPY, *numpy_blocks(key, self.shape, self.stream, self.whole, *begin))

    def hlo(self, b: Any, out: Type, key: Any, *begin: Any) -> Any:
        words = hlo_blocks(b, key, self.shape, self.stream, self.whole, *begin)
        return lifted(b, self.draw, *words)

    def factors(self, key: Type, *begin: Type) -> str:
        return bits_per_key_rule(key, begin, len(self.shape))

    def part(self, xs: Sequence[Node], out: Type, whole: Type, begin: Begin) -> Node:
        op: Any = self  # every subclass has a field `whole`
        shape = out.shape[xs[0].type.rank - 1 :]
        if shape == self.shape:
            return self(*xs)
        return replace(op, shape=shape, whole=self.shape)(*xs, beginning_of_bits(xs[0], out, begin))


class RandomBits(PerKey):
    """Unsigned integers of 8, 16, 32 or 64 random bits.

    The counter of an element is its row-major position in the given stream.
    """

    bits: int
    stream: int = 0
    whole: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits not in (8, 16, 32, 64):
            raise ArgumentError(f"bits must be 8, 16, 32 or 64, got {self.bits}")
        if not 0 <= self.stream < STREAMS:
            raise ArgumentError(f"stream must be in [0, {STREAMS}), got {self.stream}")

    def result(self) -> DType:
        return dtype(f"u{self.bits}")

    def draw(self, m: Any, first: Any, second: Any) -> Any:
        if self.bits == 64:
            return join_random_bits(m, first, second)
        return m.convert(first ^ second, self.result())

    @classmethod
    def samples(cls) -> Any:
        for bits in (8, 16, 32, 64):
            yield cls((3, 5), bits), (KEY,)
        yield cls((), 32), (KEY,)
        yield cls((0, 4), 32), (KEY,)
        yield cls((4,), 64), (KEYS,)
        yield cls((4,), 32, 7), (KEY,)
        yield cls((2, 3), 64, 7, (5, 4)), (KEY, np.array([2, 1]))
        yield cls((2,), 32, 0, (7,)), (KEYS, integers(2, 3, 1, high=6))


class SplitKey(Op):
    """New keys of shape `shape` for each key: u32[..., 2] becomes u32[..., *shape, 2]."""

    shape: tuple[int, ...]
    differentiable: ClassVar[bool] = False
    batch = batch_along
    int_fields = ("shape",)

    def infer(self, key: Type) -> Type:
        threefry.check_threefry_key(key)
        threefry.check_threefry_size(self.shape)
        return key.with_shape((*key.shape[:-1], *self.shape, 2))

    def numpy(self, key: np.ndarray) -> np.ndarray:
        return np.stack(numpy_blocks(key, self.shape, SPLIT, NO_PART), -1)

    def hlo(self, b: Any, out: Type, key: Any) -> Any:
        words = hlo_blocks(b, key, self.shape, SPLIT, NO_PART)
        return stacked_instruction(b, words, out.rank - 1)

    def factors(self, key: Type) -> str:
        keys = named_factors(key.rank - 1)
        return factor_rule([[*keys, "_"]], [[*keys, *["_"] * (len(self.shape) + 1)]])

    @classmethod
    def samples(cls) -> Any:
        for shape in ((2,), (), (0,), (3, 2)):
            yield cls(shape), (KEY,)
        yield cls((2,)), (KEYS,)


class FoldIn(Op):
    """A new key for each key u32[..., 2] and integer u64[...]; both broadcast."""

    differentiable: ClassVar[bool] = False
    factors = fixed_factor_rule("... _, ... -> ... _")

    def infer(self, key: Type, data: Type) -> Type:
        threefry.check_threefry_key(key)
        if data.dtype is not uint64:
            raise DTypeError(f"data must be u64, got {data}", code="E2005")
        return key.with_shape((*broadcast_shapes(key.shape[:-1], data.shape), 2))

    def numpy(self, key: np.ndarray, data: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(key.shape[:-1], data.shape)
        parts = [np.broadcast_to(x, shape) for x in (key[..., 0], key[..., 1], data)]
        return np.stack(_bits_folded(NUMPY, *parts), -1)

    def hlo(self, b: Any, out: Type, key: Any, data: Any) -> Any:
        parts = b.broadcast_all(
            (threefry_word(b, key, 0), threefry_word(b, key, 1), data), out.shape[:-1]
        )
        return stacked_instruction(b, lifted(b, _bits_folded, *parts), out.rank - 1)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*aligned_threefry(xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        data = np.array([0, 1, 2**32, 2**64 - 1], np.uint64)
        yield cls(), (KEY, data)
        yield cls(), (KEY, data[3])
        yield cls(), (KEYS, data[:3])


def _bits_folded(m: Any, k0: Any, k1: Any, data: Any) -> tuple[Any, Any]:
    """Encrypt both halves of the integer, the second with the result of the first as key."""
    for stream, half in ((FOLD_HIGH, data >> 32), (FOLD_LOW, data)):
        low = m.convert(half, uint32)
        k0, k1 = threefry_cipher(k0, k1, (low ^ low) | (stream << threefry.STREAM_SHIFT), low)
    return k0, k1


def bits_per_key_rule(key: Type, begin: Sequence[Type], rank: int, like: int = 0) -> str:
    """Return the factor rule of an op that makes `rank` dimensions for each key. `like` operands
    have these dimensions too. Where `begin` is given, the result is a part already, which cannot be
    split again."""
    keys = named_factors(key.rank - 1)
    result = [*keys, *named_factors(rank, range(rank) if begin else (), "n")]
    per_word = [*keys, "_"]
    return factor_rule([per_word, *[result] * like, *[per_word] * len(begin)], [result])


def beginning_of_bits(key: Node, out: Type, begin: Begin) -> Node:
    """Return the start of the dimensions that are made for each key: i64[..., rank]."""
    outer = key.type.rank - 1
    starts = [TABLE["Reshape"]((1,))(begin(i)) for i in range(outer, out.rank)]
    start = (
        starts[0] if len(starts) == 1 else TABLE["Concat"](0)(*nodes_varying_alike(tuple(starts)))
    )
    return TABLE["Broadcast"]((*key.type.shape[:-1], len(starts)))(start)


def join_random_bits(m: Any, first: Any, second: Any) -> Any:
    """Join both words of a block into one of 64 bits."""
    return (m.convert(first, uint64) << 32) | m.convert(second, uint64)
