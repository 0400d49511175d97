"""Samples of the standard distributions, with the same bits in every engine."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import DType, bfloat16, float16, float32, float64, int32, int64, uint32
from pullback.ops.prelude import Type
from pullback.ops.random.bits import KEY, KEYS, join_random_bits
from pullback.ops.random.per_key import PerKey
from pullback.ops.random.sampler_formulas import (
    normal_formula,
    sampler_ends_formula,
    sampler_log_formula,
    sampler_minus_log_formula,
    sampler_polynomial_formula,
)
from pullback.ops.random.stepwise import stepwise_bits

# The number of mantissa bits of an f32 that the 16-bit dtypes do not have.
LOST = {float16: 13, bfloat16: 16}
# The sine over x, and the cosine, as power series of x * x.
SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(9)]
COS = [(-1) ** k / math.factorial(2 * k) for k in range(10)]


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
        return sampler_minus_log_formula(m, *_random_sampling_ends(m, k))


class SamplerWithFewTests(Sampler, abstract=True):
    """A sampler with fewer samples for tests: all share what the first ones test."""

    @classmethod
    def samples(cls) -> Any:
        yield cls((3, 5), float32), (KEY,)
        yield cls((4,), float64), (KEYS,)
        yield cls((2, 3), bfloat16, (7, 5)), (KEY, np.array([4, 2]))


class RandomLaplace(SamplerWithFewTests):
    """Samples of the Laplace distribution: exponential numbers with random signs."""

    def sample(self, m: Any, k: Any) -> Any:
        size = sampler_minus_log_formula(m, *_random_sampling_ends(m, k))
        return m.where(k < 0, -size, size)


class RandomLogistic(SamplerWithFewTests):
    """Samples of the logistic distribution, log(u / (1 - u)) of uniform numbers."""

    def sample(self, m: Any, k: Any) -> Any:
        t, s = _random_sampling_ends(m, k)
        return sampler_minus_log_formula(m, s, t) - sampler_minus_log_formula(m, t, s)


class RandomGumbel(SamplerWithFewTests):
    """Samples of the Gumbel distribution, -log of exponential numbers."""

    def sample(self, m: Any, k: Any) -> Any:
        return -sampler_log_formula(m, sampler_minus_log_formula(m, *_random_sampling_ends(m, k)))


class RandomCauchy(SamplerWithFewTests):
    """Samples of the Cauchy distribution, the tangent of a uniform angle, computed in f64."""

    def sample(self, m: Any, k: Any) -> Any:
        t, s = _random_sampling_ends(m, k, float64)
        upper = t > 0.5
        angle = m.where(upper, s, t) * (math.pi / 2)
        square = angle * angle
        sine, cosine = (
            angle * sampler_polynomial_formula(SIN, square),
            sampler_polynomial_formula(COS, square),
        )
        size = m.where(upper, cosine, sine) * (1.0 / m.where(upper, sine, cosine))
        made = m.where(k < 0, -size, size)
        return made if self.dtype is float64 else m.convert(made, float32)


def _random_sampling_ends(m: Any, k: Any, to: DType | None = None) -> tuple[Any, Any]:
    """Return a uniform number in (0, 1) and 1 minus it, from all bits of k but the sign."""
    single = stepwise_bits(k) == 32
    k = k & (0x7FFFFFFF if single else (1 << 63) - 1)
    return sampler_ends_formula(m, k, to or (float32 if single else float64))
