"""Samples of the Poisson and the binomial distribution.

Where the mean is below 10, the distribution function is inverted by a search from 0. Elsewhere the
sampler is the transformed rejection of Hörmann (1993): the ratio of a uniform number to a hat whose
inverse is simple. `counts_formulas.py` has the probabilities.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import float64, int64
from pullback.ops.prelude import Type
from pullback.ops.random.bits import KEY, KEYS, join_random_bits
from pullback.ops.random.counts_formulas import (
    binomial_count_formula,
    count_floor_formula,
    poisson_count_formula,
)
from pullback.ops.random.rejection import (
    Blocks,
    RejectionSampler,
    State,
    hlo_rejection_rounds,
    numpy_rejection_rounds,
    rejection_energy_formula,
    rejection_parameter,
    rejection_streams,
)
from pullback.ops.random.sampler_formulas import (
    sampler_ends_formula,
    sampler_exp_formula,
    sampler_log_formula,
    sampler_minus_log_formula,
)
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise
from pullback.ops.samples import integer_samples, real

FEW = 10.0  # the mean below which the search is used
SEARCH, ROUNDS = 120, 64  # more steps or rounds have a probability below 2**-64
NEGLIGIBLE = 1e-25  # a search that reaches such a probability missed its end by rounding
MOST = 2.0**62  # counts are below this


class CountSampler(RejectionSampler, abstract=True):
    """Counts as i64, for f64 parameters; -1 where these are invalid."""

    whole: tuple[int, ...] = ()
    kinds = ""  # `result` checks them
    differentiable: ClassVar[bool] = False

    def result(self, parameter: Type) -> Type:
        return rejection_parameter(parameter).with_dtype(int64)

    @abstractmethod
    def safe(self, m: Any, *parameters: Any) -> tuple[Any, ...]:
        """Return parameters with harmless ones in place of invalid ones, and the mean last."""

    @abstractmethod
    def first(self, m: Any, *safe: Any) -> Any:
        """Return the probability of 0."""

    @abstractmethod
    def ratio(self, m: Any, k: Any, *safe: Any) -> Any:
        """Return the probability of k + 1 divided by that of k, times k + 1."""

    @abstractmethod
    def hat(self, m: Any, *safe: Any) -> tuple[Any, ...]:
        """Return a, b, c and the logarithm of the height of the hat, which holds from a mean of 10
        upwards: proposals are floor((2 a / w + b) u + c), for w = 1/2 - |u|."""

    @abstractmethod
    def log_chance(self, m: Any, k: Any, *safe: Any) -> Any:
        """Return the logarithm of the probability of k, up to a constant that `hat` takes account
        of; of the nearest possible k for others."""

    @abstractmethod
    def finished(self, m: Any, k: Any, *parameters: Any) -> Any:
        """Return the results for the given parameters from those for the safe ones."""

    def numpy_draw(self, blocks: Blocks, *parameters: np.ndarray) -> np.ndarray:
        safe = self.safe(NUMPY, *parameters)
        search = self._search_start(NUMPY, *blocks(0), *safe)
        state = numpy_rejection_rounds(lambda i, *s: self._search(NUMPY, *s, *safe), search, SEARCH)
        start, hat = self._rounds_start(NUMPY, state[0], *safe), self.hat(NUMPY, *safe)

        def step(i: int, *state: Any) -> State:
            words = (*blocks(2 * i + 1), *blocks(2 * i + 2))
            return self._round(NUMPY, *state, *words, *hat, *safe)

        made = numpy_rejection_rounds(step, start, ROUNDS)[0]
        return np.asarray(self.finished(NUMPY, made, *parameters))

    def hlo_draw(self, b: Any, out: Type, blocks: Blocks, *parameters: Any) -> Any:
        safe = lifted_stepwise(b, self.safe, *parameters)
        search = lifted_stepwise(b, self._search_start, *blocks(0), *safe)
        state = hlo_rejection_rounds(
            b, lambda i, *s: lifted_stepwise(b, self._search, *s, *safe), search, SEARCH
        )
        start, hat = (
            lifted_stepwise(b, self._rounds_start, state[0], *safe),
            lifted_stepwise(b, self.hat, *safe),
        )

        def step(i: Any, *state: Any) -> State:
            first, second = rejection_streams(b, i)
            words = (*blocks(first), *blocks(second))
            return lifted_stepwise(b, self._round, *state, *words, *hat, *safe)

        made = hlo_rejection_rounds(b, step, start, ROUNDS)[0]
        return lifted_stepwise(b, self.finished, made, *parameters)

    def _search_start(self, m: Any, u0: Any, u1: Any, *safe: Any) -> State:
        """Return the count, its probability, and how much is left of a uniform number."""
        k = m.bitcast(join_random_bits(m, u0, u1), int64) & ((1 << 63) - 1)
        zero = safe[-1] * 0.0
        few = safe[-1] < FEW
        chance = m.where(few, self.first(m, *safe), 0.0)
        return zero, chance, sampler_ends_formula(m, k, float64)[0], ~few

    def _search(self, m: Any, count: Any, chance: Any, left: Any, done: Any, *safe: Any) -> State:
        done = done | (left <= chance) | (chance < NEGLIGIBLE)
        rest = left - chance
        following = chance * (self.ratio(m, count, *safe) * (1.0 / (count + 1.0)))
        made = m.where(done, count, count + 1.0)
        return made, m.where(done, chance, following), m.where(done, left, rest), done

    def _rounds_start(self, m: Any, count: Any, *safe: Any) -> State:
        """Return the counts that the search found; the others begin with the mean."""
        few = safe[-1] < FEW
        return m.where(few, count, count_floor_formula(m, safe[-1])), few

    def _round(
        self, m: Any, made: Any, done: Any, z0: Any, z1: Any, u0: Any, u1: Any,
        a: Any, b: Any, c: Any, height: Any, *safe: Any,
    ) -> State:  # fmt: skip
        """Draw numbers for elements that have none yet, where this round accepts."""
        k = m.bitcast(join_random_bits(m, z0, z1), int64) & ((1 << 63) - 1)
        t, s = sampler_ends_formula(m, k, float64)
        inverse = 1.0 / m.where(t < 0.5, t, s)
        wanted = (a * 2.0 * inverse + b) * (t - 0.5) + c
        inside = (wanted >= 0.0) & (wanted < MOST)
        count = count_floor_formula(m, m.where(inside, wanted, 0.0))
        possible = self.limited(m, count, *safe)
        inside = inside & (count <= possible)
        slope = sampler_log_formula(m, a * inverse * inverse + b)
        bound = (height - slope) - rejection_energy_formula(m, u0, u1)
        accepted = inside & (bound <= self.log_chance(m, possible, *safe))
        return m.where(accepted & ~done, count, made), accepted | done

    def limited(self, m: Any, k: Any, *safe: Any) -> Any:
        """Return the possible count that is nearest to k >= 0."""
        return k


class RandomPoisson(CountSampler):
    """Samples of the Poisson distribution with the given means, for each key u32[..., 2] and each
    element of f64[..., *shape]; -1 where a mean is negative, NaN, or 2**60 or more."""

    whole: tuple[int, ...] = ()

    def safe(self, m: Any, *parameters: Any) -> tuple[Any, ...]:
        (mean,) = parameters
        return (m.where((mean >= 0.0) & (mean < MOST / 4), mean, 0.0),)

    def first(self, m: Any, *safe: Any) -> Any:
        return sampler_exp_formula(m, -safe[0])

    def ratio(self, m: Any, k: Any, *safe: Any) -> Any:
        return safe[0]

    def hat(self, m: Any, *safe: Any) -> tuple[Any, ...]:
        mean = m.where(safe[0] < FEW, FEW, safe[0])
        b = m.sqrt(mean) * 2.53 + 0.931
        a = b * 0.02483 - 0.059
        height = sampler_log_formula(m, 1.0 / (b - 3.4) * 1.1328 + 1.1239)
        return a, b, mean + 0.43, height

    def log_chance(self, m: Any, k: Any, *safe: Any) -> Any:
        return poisson_count_formula(m, k, m.where(safe[0] < FEW, FEW, safe[0]))

    def finished(self, m: Any, k: Any, *parameters: Any) -> Any:
        (mean,) = parameters
        valid = (mean >= 0.0) & (mean < MOST / 4)
        return m.where(valid, m.convert(k, int64), -1)

    @classmethod
    def samples(cls) -> Any:
        hard = [0.0, 1e-9, 9.99, 10.0, 1e3, 1e9, 1e16, 2.0**59, 1e19, np.inf, -1.0, np.nan]
        yield cls(), (KEYS[:1, :2], np.array([[hard, real(12, low=0.1, high=60.0)]]))
        yield cls((6, 5)), (KEY, real(2, 3, low=0.1, high=60.0), np.array([4, 1]))


class RandomBinomial(CountSampler):
    """Samples of the binomial distribution: of n trials, how many succeed with probability p, for
    each key u32[..., 2] and each element of n and p f64[..., *shape]; -1 where n is not an integer
    from 0 to 2**53, or p is not in [0, 1]."""

    whole: tuple[int, ...] = ()
    distribution_parameters: ClassVar[int] = 2

    def safe(self, m: Any, *parameters: Any) -> tuple[Any, ...]:
        """Return n, the smaller of p and 1 - p, the larger one, and the mean."""
        n, p = parameters
        valid = self._valid(m, n, p)
        n, p = m.where(valid, n, 0.0), m.where(valid, p, 0.0)
        other = 1.0 - p
        least = m.where(p < other, p, other)
        return n, least, m.where(p < other, other, p), n * least

    def _valid(self, m: Any, n: Any, p: Any) -> Any:
        whole = m.where((n >= 0.0) & (n <= 2.0**53), n, 0.5)
        return (count_floor_formula(m, whole) >= whole) & (p >= 0.0) & (p <= 1.0)

    def first(self, m: Any, *safe: Any) -> Any:
        n, p, q, _ = safe
        return sampler_exp_formula(m, -(sampler_minus_log_formula(m, q, p) * n))

    def ratio(self, m: Any, k: Any, *safe: Any) -> Any:
        n, p, q, _ = safe
        return (n - k) * (p * (1.0 / q))

    def limited(self, m: Any, k: Any, *safe: Any) -> Any:
        return m.where(k < safe[0], k, safe[0])

    def hat(self, m: Any, *safe: Any) -> tuple[Any, ...]:
        n, p, q, mean = self._many(m, *safe)
        spread = m.sqrt(mean * q)
        b = spread * 2.53 + 1.15
        a = (b * 0.0248 + p * 0.01) - 0.0873
        height = sampler_log_formula(m, (1.0 / b * 5.1 + 2.83) * spread)
        mode = count_floor_formula(m, (n + 1.0) * p)
        return a, b, mean + 0.5, height + binomial_count_formula(m, mode, n, p, q)

    def _many(self, m: Any, *safe: Any) -> tuple[Any, ...]:
        """Return parameters with a mean of at least 10."""
        n, p, q, mean = safe
        few = mean < FEW
        return (
            m.where(few, 2 * FEW, n), m.where(few, 0.5, p), m.where(few, 0.5, q),
            m.where(few, FEW, mean),
        )  # fmt: skip

    def log_chance(self, m: Any, k: Any, *safe: Any) -> Any:
        n, p, q, _ = self._many(m, *safe)
        return binomial_count_formula(m, m.where(k < n, k, n), n, p, q)

    def finished(self, m: Any, k: Any, *parameters: Any) -> Any:
        n, p = parameters
        valid = self._valid(m, n, p)
        n = m.where(valid, n, 0.0)
        k = m.where(k < n, k, n)
        k = m.where(p < 1.0 - p, k, n - k)
        return m.where(valid, m.convert(k, int64), -1)

    @classmethod
    def samples(cls) -> Any:
        n, p = np.meshgrid([0.0, 1, 7, 1e6, 2.0**53, 2.5, -1, np.nan], [0, 1e-9, 0.5, 0.9, 1, 1.5])
        yield cls(), (KEYS.reshape(6, 2), n, p)
        n = integer_samples(2, 3, high=100).astype(np.float64)
        yield cls((6, 5)), (KEY, n, real(2, 3, low=0.0, high=1.0), np.array([4, 1]))
