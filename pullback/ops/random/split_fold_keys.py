"""New keys from keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import uint32, uint64
from pullback.ops.factor_rules import factor_rule, factor_rule_names, fixed_factor_rule
from pullback.ops.hlo_instructions import hlo_stack_instruction
from pullback.ops.prelude import Axis, Node, Op, Type, batch_along, broadcast_shapes
from pullback.ops.random import threefry
from pullback.ops.random.bits import KEY, KEYS
from pullback.ops.random.per_key import NO_PART
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise
from pullback.ops.random.threefry import (
    aligned_threefry,
    hlo_threefry_blocks,
    numpy_threefry_blocks,
    threefry_cipher,
    threefry_word,
)

SPLIT, FOLD_HIGH, FOLD_LOW = 0xFFFF, 0xFFFE, 0xFFFD


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
        return np.stack(numpy_threefry_blocks(key, self.shape, SPLIT, NO_PART), -1)

    def hlo(self, b: Any, out: Type, key: Any) -> Any:
        words = hlo_threefry_blocks(b, key, self.shape, SPLIT, NO_PART)
        return hlo_stack_instruction(b, words, out.rank - 1)

    def factors(self, key: Type) -> str:
        keys = factor_rule_names(key.rank - 1)
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
        return np.stack(_fold_key(NUMPY, *parts), -1)

    def hlo(self, b: Any, out: Type, key: Any, data: Any) -> Any:
        parts = b.broadcast_all(
            (threefry_word(b, key, 0), threefry_word(b, key, 1), data), out.shape[:-1]
        )
        return hlo_stack_instruction(b, lifted_stepwise(b, _fold_key, *parts), out.rank - 1)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*aligned_threefry(xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        data = np.array([0, 1, 2**32, 2**64 - 1], np.uint64)
        yield cls(), (KEY, data)
        yield cls(), (KEY, data[3])
        yield cls(), (KEYS, data[:3])


def _fold_key(m: Any, k0: Any, k1: Any, data: Any) -> tuple[Any, Any]:
    """Encrypt both halves of the integer, the second with the result of the first as key."""
    for stream, half in ((FOLD_HIGH, data >> 32), (FOLD_LOW, data)):
        low = m.convert(half, uint32)
        k0, k1 = threefry_cipher(k0, k1, (low ^ low) | (stream << threefry.STREAM_SHIFT), low)
    return k0, k1
