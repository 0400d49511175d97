"""Samples follow their distributions. Seeds are fixed, so that results are repeatable.

A fair generator stays within the limits for at least 999 of 1000 seeds.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import pullback as pb

R = pb.random
N = 100_000
erf = np.vectorize(math.erf)


def kolmogorov_smirnov(x, cdf):
    """Return the largest distance of the sample's distribution from `cdf`, times sqrt(size)."""
    x = np.sort(np.asarray(x, np.float64).ravel())
    p, n = cdf(x), x.size
    grid = np.arange(n + 1) / n
    return max((grid[1:] - p).max(), (p - grid[:-1]).max()) * math.sqrt(n)


def chi_square(counts, probabilities):
    """Return the chi-square statistic of counts, normalized to mean 0 and variance 1."""
    expected = np.asarray(probabilities) * np.sum(counts)
    kept = expected > 0
    assert np.all(np.asarray(counts)[~kept] == 0)
    freedom = kept.sum() - 1
    statistic = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    return (statistic - freedom) / math.sqrt(2 * freedom)


def normal_cdf(x):
    return (1 + erf(x / math.sqrt(2))) / 2


FITS = 1.95  # a limit of the Kolmogorov-Smirnov statistic
FEW = 4.5  # standard deviations


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["f32", "f64"])
class TestContinuous:
    def test_uniform(self, dtype, seed):
        x = R.uniform(R.key(seed), (N,), dtype).numpy()
        assert kolmogorov_smirnov(x, lambda x: x) < FITS
        assert x.min() >= 0 and x.max() < 1

    def test_uniform_between(self, dtype, seed):
        x = R.uniform(R.key(seed), (N,), dtype, -2.0, 5.0).numpy()
        assert kolmogorov_smirnov(x, lambda x: (x + 2) / 7) < FITS

    def test_normal(self, dtype, seed):
        x = R.normal(R.key(seed), (N,), dtype).numpy()
        assert kolmogorov_smirnov(x, normal_cdf) < FITS
        assert abs((x.astype(np.float64) ** 4).mean() - 3) < FEW * math.sqrt(96 / N)

    def test_normal_moved(self, dtype, seed):
        x = R.normal(R.key(seed), (N,), dtype, loc=3.0, scale=0.5).numpy()
        assert kolmogorov_smirnov(x, lambda x: normal_cdf((x - 3) * 2)) < FITS

    def test_exponential(self, dtype, seed):
        x = R.exponential(R.key(seed), (N,), dtype, scale=2.0).numpy()
        assert kolmogorov_smirnov(x, lambda x: -np.expm1(-x / 2)) < FITS
        assert x.min() > 0

    @pytest.mark.parametrize(("low", "high"), [(-2.0, 2.0), (0.5, math.inf), (-math.inf, -3.0)])
    def test_truncated_normal(self, dtype, seed, low, high):
        x = R.truncated_normal(R.key(seed), low, high, (N,), dtype).numpy()
        a, b = normal_cdf(np.array([low, high]))
        assert kolmogorov_smirnov(x, lambda x: (normal_cdf(x) - a) / (b - a)) < FITS
        assert low <= x.min() and x.max() <= high

    @pytest.mark.parametrize("a", [0.5, 1.0, 1.5, 2.0, 20.0])
    def test_gamma(self, dtype, seed, a):
        x = R.gamma(R.key(seed), a, (N,), dtype).numpy()
        assert kolmogorov_smirnov(x, lambda x: gamma_cdf(a, x)) < FITS


def gamma_cdf(a, x):
    """Return P(a, x) by recurrence from a = 1/2 or 1: P(a + 1, x) = P(a, x) - x**a e**-x / a!"""
    step = 0.5 if a % 1 else 1.0
    made = erf(np.sqrt(x)) if a % 1 else -np.expm1(-x)
    while step < a:
        made = made - np.exp(step * np.log(x) - x - math.lgamma(step + 1))
        step += 1
    return made


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_16_bit_floats(dtype):
    """The distribution function is exact at numbers of the dtype."""
    steps = np.linspace(-2, 2, 9)
    x = R.normal(R.key(0), (N,), dtype).numpy().astype(np.float64)
    for s in steps + 1 / 3:
        p = float(normal_cdf(s))
        assert abs((x < s).mean() - p) < FEW * math.sqrt(p * (1 - p) / N)
    u = R.uniform(R.key(0), (N,), dtype).numpy().astype(np.float64)
    for p in (2.0**-9, 0.25, 0.5, 0.875):
        assert abs((u < p).mean() - p) < FEW * math.sqrt(p * (1 - p) / N)
    assert u.max() < 1


def test_small_shapes_of_gamma():
    """For small a, x**a of a Gamma(a) sample is nearly uniform; compare logarithms."""
    a = 0.01
    x = R.gamma(R.key(0), a, (N,), "f64").numpy()
    # P(x) = x**a / gamma(a + 1) (1 - a x / (a + 1) + ...) for small x
    low = x[x < 1e-3]
    p = math.exp(a * math.log(1e-3) - math.lgamma(a + 1)) * (1 - a * 1e-3 / (a + 1))
    assert abs(low.size / N - p) < FEW * math.sqrt(p * (1 - p) / N)
    inside = np.exp(a * np.log(low) - math.lgamma(a + 1)) / p
    assert kolmogorov_smirnov(np.minimum(inside, 1), lambda x: x) < FITS


def test_far_truncation():
    """Beyond 50, the excess times 50 is nearly exponential."""
    x = R.truncated_normal(R.key(0), 50.0, math.inf, (N,), "f64").numpy() - 50
    energy = x * 50 + x * x / 2 + np.log1p(x / 50)  # the tail's logarithm, to 1e-6
    assert kolmogorov_smirnov(energy, lambda x: -np.expm1(-x)) < FITS


def test_complex_normal():
    z = R.normal(R.key(0), (N,), "complex128").numpy()
    for part in (z.real, z.imag):
        assert kolmogorov_smirnov(part * math.sqrt(2), normal_cdf) < FITS
    assert abs((z.real * z.imag).mean()) < FEW * 0.5 / math.sqrt(N)
    assert abs((np.abs(z) ** 2).mean() - 1) < FEW / math.sqrt(N)


# -- discrete -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "i32", "u32", "i64", "u64"])
def test_randint(dtype):
    low = 0 if dtype[0] == "u" else -7
    x = R.randint(R.key(1), (N,), low, 100, dtype).numpy().astype(np.int64)
    counts = np.bincount(x - low, minlength=100 - low)
    assert counts.size == 100 - low
    assert abs(chi_square(counts, np.full(100 - low, 1 / (100 - low)))) < FEW


def test_randint_over_most_of_64_bits():
    """With plain remainders, a quarter of the integers would be twice as likely as the others."""
    x = R.randint(R.key(1), (N,), 0, 3 * 2**62, "u64").numpy()
    counts = np.bincount((x >> np.uint64(60)).astype(np.int64), minlength=12)
    assert abs(chi_square(counts, np.full(12, 1 / 12))) < FEW


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.3, 0.999, 1.0])
def test_bernoulli(p):
    x = R.bernoulli(R.key(2), p, (N,)).numpy()
    assert abs(x.mean() - p) <= FEW * math.sqrt(p * (1 - p) / N)


def test_bits_are_fair_and_independent():
    words = R.bits(R.key(3), (N,), "u64").numpy()
    bits = (words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    signs = bits.astype(np.float64) * 2 - 1
    assert np.abs(signs.mean(0)).max() < 5 / math.sqrt(N)
    products = signs.T @ signs / N
    assert np.abs(products - np.eye(64)).max() < 5.5 / math.sqrt(N)
    following = signs[:-1].T @ signs[1:] / N
    assert np.abs(following).max() < 5.5 / math.sqrt(N)


LOGITS = np.array([0.0, 1.0, -2.0, -math.inf, 0.5, -1.0], np.float32)
SOFTMAX = np.exp(LOGITS) / np.exp(LOGITS).sum()


def test_categorical():
    x = R.categorical(R.key(4), LOGITS, shape=(N,)).numpy()
    assert abs(chi_square(np.bincount(x, minlength=6), SOFTMAX)) < FEW


def test_categorical_with_many_categories():
    """500 categories with probabilities of different magnitude."""
    logits = np.linspace(0, -12, 500).astype(np.float32)
    p = np.exp(logits - 0.0)
    x = R.categorical(R.key(4), logits, shape=(N,)).numpy()
    groups = np.bincount(x // 50, minlength=10)[:6]
    kept = p.reshape(10, 50).sum(1)[:6]
    assert abs(chi_square(groups, kept / kept.sum())) < FEW


def test_categorical_in_batches():
    logits = np.stack([LOGITS, LOGITS[::-1]])
    x = R.categorical(R.key(5), logits, shape=(N, 2)).numpy()
    for i, p in enumerate((SOFTMAX, SOFTMAX[::-1])):
        assert abs(chi_square(np.bincount(x[:, i], minlength=6), p)) < FEW
    assert abs(np.corrcoef(x.T)[0, 1]) < FEW / math.sqrt(N)


def without_replacement(p, k):
    """Return the probability of each ordered draw of k elements."""
    made = {}
    for draw in itertools.permutations(range(len(p)), k):
        chance, left = 1.0, 1.0
        for i in draw:
            chance, left = chance * p[i] / left, left - p[i]
        made[draw] = chance
    return made


@pytest.mark.parametrize("by", ["categorical", "choice"])
def test_draws_without_replacement(by):
    p = np.array([0.5, 0.25, 0.15, 0.1])
    keys = R.split(R.key(6), 20_000)
    if by == "categorical":
        draw = pb.vmap(lambda k: R.categorical(k, np.log(p), shape=(2,), replace=False))
    else:
        draw = pb.vmap(lambda k: R.choice(k, 4, (2,), replace=False, p=p))
    x = draw(keys).numpy()
    expected = without_replacement(p, 2)
    counts = [np.sum((x == pair).all(1)) for pair in expected]
    assert abs(chi_square(counts, list(expected.values()))) < FEW


def test_choice():
    p = np.array([3.0, 0.0, 1.0])
    x = R.choice(R.key(7), pb.tensor([10, 20, 30]), (N,), p=p).numpy()
    assert abs(chi_square([np.sum(x == v) for v in (10, 20, 30)], p / 4)) < FEW
    y = R.choice(R.key(7), 3, (N,)).numpy()
    assert abs(chi_square(np.bincount(y), np.full(3, 1 / 3))) < FEW


def test_all_permutations_are_equally_likely():
    keys = R.split(R.key(8), 24_000)
    for x in (
        pb.vmap(lambda k: R.permutation(k, 4))(keys).numpy(),
        pb.vmap(lambda k: R.choice(k, 4, (4,), replace=False))(keys).numpy(),
    ):
        counts = [np.sum((x == order).all(1)) for order in itertools.permutations(range(4))]
        assert sum(counts) == 24_000
        assert abs(chi_square(counts, np.full(24, 1 / 24))) < FEW


def test_independent_permutations():
    x = pb.broadcast_to(pb.arange(3), (24_000, 3))
    made = R.permutation(R.key(9), x, axis=1, independent=True).numpy()
    counts = [np.sum((made == order).all(1)) for order in itertools.permutations(range(3))]
    assert abs(chi_square(counts, np.full(6, 1 / 6))) < FEW
    together = R.permutation(R.key(9), x, axis=1).numpy()
    assert (together == together[0]).all()


# -- streams --------------------------------------------------------------------------------------


def correlation(x, y):
    return abs(np.corrcoef(x.ravel(), y.ravel())[0, 1]) * math.sqrt(x.size)


def test_derived_keys_are_independent():
    key = R.key(10)
    parts = [R.normal(k, (N,)).numpy() for k in (key, *R.split(key, 3))]
    parts += [R.normal(R.fold_in(key, i), (N,)).numpy() for i in range(3)]
    parts += [R.normal(R.key(11), (N,)).numpy()]
    for x, y in itertools.combinations(parts, 2):
        assert correlation(x, y) < FEW
        assert correlation(x**2, y**2) < FEW


def test_keys_derived_from_one_all_differ():
    key = R.key(12)
    made = np.concatenate(
        [R.split(key, N).numpy(), R.fold_in(key, pb.arange(N)).numpy(), key.numpy()[None]]
    )
    assert len(np.unique(made, axis=0)) == 2 * N + 1
    words = made[:-1].astype(np.float64).ravel() / 2**32
    assert kolmogorov_smirnov(words, lambda x: x) < FITS


def test_the_first_number_of_many_keys_is_uniform():
    keys = R.split(R.key(13), N)
    assert kolmogorov_smirnov(pb.vmap(R.uniform)(keys).numpy(), lambda x: x) < FITS
    seeds = pb.vmap(lambda s: R.uniform(R.key(s)))(pb.arange(N)).numpy()
    assert kolmogorov_smirnov(seeds, lambda x: x) < FITS
