"""Random bits.

A counter of the cipher consists of a stream (16 bits) and a position (48 bits). Numbers are drawn
from low streams and new keys from reserved ones, so a key may be both split and drawn from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.dtypes import DType, dtype, uint64
from pullback.ops.random.per_key import PerKey
from pullback.ops.samples import integer_samples

STREAMS = 0x8000  # the number of streams that numbers are drawn from
KEY = np.array([0x13198A2E, 0x03707344], np.uint32)  # for samples
KEYS = (KEY * np.arange(1, 13, 2, dtype=np.uint32)[:, None]).reshape(2, 3, 2)


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
        yield cls((2,), 32, 0, (7,)), (KEYS, integer_samples(2, 3, 1, high=6))


def join_random_bits(m: Any, first: Any, second: Any) -> Any:
    """Join both words of a block into one of 64 bits."""
    return (m.convert(first, uint64) << 32) | m.convert(second, uint64)
