"""Samples of the standard distributions, with the same bits in every engine."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import DType, bfloat16, float16, float32, float64, int32, int64, uint32
from pullback.ops.prelude import Type
from pullback.ops.random.bits import KEY, KEYS, PerKey, join_random_bits
from pullback.ops.random.formulas import ends_formula, minus_log_formula, normal_formula

# The number of mantissa bits of an f32 that the 16-bit dtypes do not have.
LOST = {float16: 13, bfloat16: 16}


class Sampler(PerKey, abstract=True):
    """Samples of a float dtype; f16 and bf16 are converted from f32."""

    dtype: DType
    whole: tuple[int, ...] = ()

    def infer(self, key: Type, *begin: Type) -> Type:
        if not self.dtype.is_float:
            raise DTypeError(f"dtype must be float, got {self.dtype}", code="E2005")
        return super().infer(key, *begin)

    def result(self) -> DType:
        return self.dtype

    def draw(self, m: Any, first: Any, second: Any) -> Any:
        if self.dtype is float64:
            return self.sample(m, m.bitcast(join_random_bits(m, first, second), int64))
        return m.convert(self.sample(m, m.bitcast(first ^ second, int32)), self.dtype)

    @abstractmethod
    def sample(self, m: Any, k: Any) -> Any:
        """Return a number in f32 or f64 from an integer of as many random bits."""

    @classmethod
    def samples(cls) -> Any:
        for dtype in (float32, float64, float16, bfloat16):
            yield cls((3, 5), dtype), (KEY,)
        yield cls((), float32), (KEY,)
        yield cls((2, 0), float64), (KEY,)
        yield cls((4,), float32), (KEYS,)
        yield cls((2, 3), float32, (7, 5)), (KEY, np.array([4, 2]))


class RandomUniform(Sampler):
    """Uniform samples in [0, 1), multiples of 2**-24 (2**-53 for f64) rounded down."""

    def sample(self, m: Any, k: Any) -> Any:
        bits, size = (24, 32) if self.dtype is not float64 else (53, 64)
        k = (k >> (size - bits)) & ((1 << bits) - 1)
        u = m.convert(k, float64 if size == 64 else float32) * 2.0**-bits
        if self.dtype not in LOST:
            return u
        # Rounding down keeps P(u < x) exact for every x of the dtype.
        mask = 0xFFFFFFFF ^ ((1 << LOST[self.dtype]) - 1)
        return m.bitcast(m.bitcast(u, uint32) & mask, float32)


class RandomNormal(Sampler):
    """Samples of the standard normal distribution."""

    def sample(self, m: Any, k: Any) -> Any:
        return normal_formula(m, k)


class RandomExponential(Sampler):
    """Samples of the exponential distribution with mean 1, never 0."""

    def sample(self, m: Any, k: Any) -> Any:
        single = self.dtype is not float64
        k = k & (0x7FFFFFFF if single else (1 << 63) - 1)
        return minus_log_formula(m, *ends_formula(m, k, float32 if single else float64))
