"""The families of distributions: fit, bits, batches, derivatives, dtypes and errors.

Most tests use the reference engine, which needs no compilation; one program shows that XLA gives
the same bits. Seeds are fixed, so that results are repeatable.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from scipy import stats

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, ShapeError

R = pb.random
KEY = R.key(1)
N, FEW = 20_000, 4000

# name: the sampler as a function of key, shape and dtype, and the distribution
CONTINUOUS = {
    "laplace": (lambda k, s, d: R.laplace(k, s, d, 1.0, 2.0), stats.laplace(1, 2)),
    "logistic": (lambda k, s, d: R.logistic(k, s, d, 1.0, 2.0), stats.logistic(1, 2)),
    "gumbel": (lambda k, s, d: R.gumbel(k, s, d), stats.gumbel_r()),
    "cauchy": (lambda k, s, d: R.cauchy(k, s, d, 1.0, 2.0), stats.cauchy(1, 2)),
    "loggamma": (lambda k, s, d: R.loggamma(k, 0.3, s, d), stats.loggamma(0.3)),
    "beta": (lambda k, s, d: R.beta(k, 0.5, 2.0, s, d), stats.beta(0.5, 2)),
    "dirichlet": (lambda k, s, d: R.dirichlet(k, [0.5, 2, 0.5], s, d)[..., 1], stats.beta(2, 1)),
    "chisquare": (lambda k, s, d: R.chisquare(k, 3.0, s, d), stats.chi2(3)),
    "t": (lambda k, s, d: R.t(k, 3.0, s, d), stats.t(3)),
    "f": (lambda k, s, d: R.f(k, 3.0, 5.0, s, d), stats.f(3, 5)),
    "maxwell": (lambda k, s, d: R.maxwell(k, s, d), stats.maxwell()),
    "generalized": (lambda k, s, d: R.generalized_normal(k, 1.5, s, d), stats.gennorm(1.5)),
    "lognormal": (lambda k, s, d: R.lognormal(k, 0.5, s, d), stats.lognorm(0.5)),
    "pareto": (lambda k, s, d: R.pareto(k, 2.5, s, d), stats.pareto(2.5)),
    "rayleigh": (lambda k, s, d: R.rayleigh(k, 2.5, s, d), stats.rayleigh(scale=2.5)),
    "weibull": (lambda k, s, d: R.weibull_min(k, 2.0, 0.7, s, d), stats.weibull_min(0.7, scale=2)),
    "triangular": (lambda k, s, d: R.triangular(k, -1, 0, 3, s, d), stats.triang(0.25, -1, 4)),
    "wald": (lambda k, s, d: R.wald(k, 2.5, s, d), stats.invgauss(2.5)),
}  # fmt: skip
COUNTS = {
    "poisson": (lambda k, s: R.poisson(k, 0.5, s), stats.poisson(0.5)),
    "poisson by search": (lambda k, s: R.poisson(k, 9.9, s), stats.poisson(9.9)),
    "poisson by rejection": (lambda k, s: R.poisson(k, 10.0, s), stats.poisson(10.0)),
    "poisson of many": (lambda k, s: R.poisson(k, 77.5, s), stats.poisson(77.5)),
    "binomial": (lambda k, s: R.binomial(k, 5, 0.3, s), stats.binom(5, 0.3)),
    "binomial by rejection": (lambda k, s: R.binomial(k, 20, 0.5, s), stats.binom(20, 0.5)),
    "binomial of many": (lambda k, s: R.binomial(k, 200, 0.7, s), stats.binom(200, 0.7)),
    "geometric": (lambda k, s: R.geometric(k, 0.3, s), stats.geom(0.3)),
    "negative": (lambda k, s: R.negative_binomial(k, 3.5, 0.3, s), stats.nbinom(3.5, 0.3)),
    "multinomial": (lambda k, s: R.multinomial(k, 30, [2, 5, 3], s)[..., 1], stats.binom(30, 0.5)),
    "last": (lambda k, s: R.multinomial(k, 30, [2, 5, 3], s)[..., 2], stats.binom(30, 0.3)),
}  # fmt: skip


@pytest.fixture
def reference():
    with pb.config(engine="reference"):
        yield


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_samples_follow_their_distribution(name, reference):
    draw, distribution = CONTINUOUS[name]
    for dtype in ("f32", "f64"):
        x = draw(KEY, (N,), dtype).numpy().astype(np.float64)
        assert stats.kstest(x, distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", COUNTS)
def test_counts_follow_their_distribution(name, reference):
    draw, distribution = COUNTS[name]
    values, counts = np.unique(draw(R.key(2), (N,)).numpy(), return_counts=True)
    expected = distribution.pmf(values) * N
    kept = expected > 5
    assert expected.sum() > 0.999 * N
    statistic = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    assert stats.chi2(kept.sum() - 1).sf(statistic) > 1e-3


@pytest.mark.parametrize(("mean", "of"), [(1e9, 1.0), (1e15, 1.0), (2.0**59, 1.0), (1e12, 0.5)])
def test_large_counts_are_nearly_normal(mean, of, reference):
    if of == 1.0:
        x, spread = R.poisson(KEY, mean, (N,)).numpy(), math.sqrt(mean)
    else:
        x, spread = R.binomial(KEY, 2 * mean, 0.5, (N,)).numpy(), math.sqrt(mean / 2)
    assert stats.kstest((x - mean) / spread, stats.norm.cdf).pvalue > 1e-3


def test_balls_are_filled_evenly(reference):
    for p in (1.0, 2.0, 3.5, math.inf):
        x = R.ball(KEY, 3, p, (N,), "f64").numpy()
        norms = np.linalg.norm(x, ord=p, axis=-1)
        assert stats.kstest(norms**3, stats.uniform.cdf).pvalue > 1e-3
        assert abs((x > 0).mean() - 0.5) < 0.01 and norms.max() <= 1
    assert R.ball(KEY, 0, shape=(2,)).shape == (2, 0)


def test_signs(reference):
    for dtype in ("i8", "i64", "bf16", "f64", "complex64"):
        x = R.rademacher(KEY, (N,), dtype)
        assert x.dtype is pb.tensor(0, dtype).dtype
        assert abs(x.numpy().real.astype(np.float64).mean()) < 0.03
        assert set(x.numpy().real.astype(int)) == {-1, 1}


def test_both_engines_give_the_same_bits():
    """One program, with an op of each kind. All families were compared once with `N` of 3000."""
    shapes = np.geomspace(0.01, 100, 400)

    def draw(key):
        return [
            R.laplace(key, (400,), "f32", 1.37, 2.71), R.cauchy(key, (400,), "bf16"),
            R.gumbel(key, (400,), "f16"), R.logistic(key, (400,), "f32"),
            R.beta(key, shapes, shapes[::-1], dtype="f32"),
            R.wald(key, shapes), R.weibull_min(key, shapes, shapes[::-1], dtype="f16"),
            R.triangular(key, -shapes, 0.0, shapes, dtype="bf16"), R.geometric(key, shapes / 100),
            R.poisson(key, shapes), R.binomial(key, 30, shapes / 100),
        ]  # fmt: skip

    with pb.config(engine="reference"):
        wanted = [x.numpy() for x in draw(R.key(5))]
    for x, y in zip(pb.compile(draw)(R.key(5)), wanted, strict=True):
        assert x.numpy().dtype == y.dtype and x.numpy().tobytes() == y.tobytes()


def test_batching_changes_no_bit(reference):
    keys = R.split(R.key(7), 3)

    def draw(key):
        one = [f(key, (2, 3), "f32") for f, _ in CONTINUOUS.values()]
        return one + [f(key, (2, 3)) for f, _ in COUNTS.values()] + [R.ball(key, 4), R.wald(key, 2)]

    batched = pb.vmap(draw)(keys)
    for i in range(3):
        for x, y in zip(draw(keys[i]), batched, strict=True):
            assert x.numpy().tobytes() == y[i].numpy().tobytes()


def test_numbers_never_change(reference):
    """Users rely on them to reproduce experiments."""
    drawn = [f(KEY, (100,), "f64") for f, _ in CONTINUOUS.values()]
    drawn += [f(KEY, (100,), "f32") for f, _ in CONTINUOUS.values()]
    drawn += [f(KEY, (100,)) for f, _ in COUNTS.values()] + [R.ball(KEY, 4), R.rademacher(KEY, 9)]
    found = hashlib.sha256(b"".join(x.numpy().tobytes() for x in drawn)).hexdigest()
    assert found[:12] == "9ed9257c942a"


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_dtypes(dtype, reference):
    for draw, _ in CONTINUOUS.values():
        x, wide = draw(KEY, (5,), dtype), draw(KEY, (5,), "f32")
        assert x.dtype is pb.tensor(0.0, dtype).dtype
        if dtype in ("f16", "bf16"):
            np.testing.assert_allclose(x.numpy().astype(float), wide.numpy(), rtol=0.01)
    a = pb.tensor([0.5, 2.0], dtype)
    for f in (lambda a: R.beta(KEY, a, a), lambda a: R.laplace(KEY, loc=a), lambda a: R.t(KEY, a)):
        assert f(a).dtype is a.dtype and pb.grad(lambda a, f=f: f(a).sum())(a).dtype is a.dtype
    assert R.poisson(KEY, a).dtype is pb.int64 and R.poisson(KEY, a, dtype=dtype).dtype is a.dtype


# -- derivatives ----------------------------------------------------------------------------------

DIFFERENTIABLE = {
    "laplace": lambda a, b: R.laplace(KEY, (3,), loc=a, scale=b),
    "logistic": lambda a, b: R.logistic(KEY, (3,), loc=a, scale=b),
    "gumbel": lambda a, b: R.gumbel(KEY, (3,), loc=a, scale=b),
    "cauchy": lambda a, b: R.cauchy(KEY, (3,), loc=a, scale=b),
    "lognormal": lambda a, b: R.lognormal(KEY, a, (3,)),
    "pareto": lambda a, b: R.pareto(KEY, a, (3,)),
    "rayleigh": lambda a, b: R.rayleigh(KEY, a, (3,)),
    "weibull_min": lambda a, b: R.weibull_min(KEY, a, b, (3,)),
    "triangular": lambda a, b: R.triangular(KEY, -a, a * 0.1, b * 3, (6,)),
}


def test_derivatives_of_samples(reference):
    args = [pb.tensor(v, "f64") for v in (0.7, 1.9)]
    pb.check_grads(lambda a, b: [f(a, b) for f in DIFFERENTIABLE.values()], args, order=2)


@pytest.mark.parametrize(("draw", "distribution", "at"), [
    (lambda a: R.loggamma(KEY, a, (20,)), stats.loggamma, 0.05),
    (lambda a: R.loggamma(KEY, a, (20,)), stats.loggamma, 3.0),
    (lambda a: R.chisquare(KEY, a, (20,)), stats.chi2, 3.0),
    (lambda a: R.wald(KEY, a, (20,)), stats.invgauss, 0.3),
    (lambda a: R.wald(KEY, a, (20,)), stats.invgauss, 4.0),
])  # fmt: skip
def test_derivatives_of_quantiles(draw, distribution, at, reference):
    a, h = pb.tensor(at, "f64"), 1e-5 * at
    x, slope = pb.jvp(draw, (a,), (pb.ones_like(a),))
    near, far = (distribution.cdf(x.numpy(), at), distribution.sf(x.numpy(), at))
    low, high = ((distribution.ppf(near, v), distribution.isf(far, v)) for v in (at - h, at + h))
    wanted = np.where(near < 0.5, high[0] - low[0], high[1] - low[1]) / (2 * h)
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-4)
    total = pb.grad(lambda a: draw(a).sum())(a).item()
    np.testing.assert_allclose(total, slope.numpy().sum(), rtol=1e-10)


def test_logarithms_of_gamma_numbers_that_underflow_have_derivatives(reference):
    a = pb.tensor(1e-4, "f64")
    x, slope = pb.jvp(lambda a: R.loggamma(KEY, a, (50,)), (a,), (pb.ones_like(a),))
    assert (x.numpy() < -800).any()
    small = x.numpy() < -40  # there the distribution function is exp(a x) / gamma(a + 1)
    from_series = (-0.5772156649 + 1.6449e-4 - x.numpy()) / 1e-4
    np.testing.assert_allclose(slope.numpy()[small], from_series[small], rtol=1e-6)
    second = pb.grad(pb.grad(lambda a: R.loggamma(KEY, a)))(a)
    assert math.isfinite(second.item())


# the expectation of a function of samples, and its derivative with respect to the parameter
EXPECTED = {
    "beta a": (lambda a: R.beta(KEY, a, 3.0, (FEW,)), 2.0, 3.0 / 25),
    "beta b": (lambda b: R.beta(KEY, 2.0, b, (FEW,)), 3.0, -2.0 / 25),
    "dirichlet": (lambda a: R.dirichlet(KEY, a * np.ones(2), (FEW,))[:, 1] ** 2, 2.0, -1 / 50),
    "t": (lambda a: R.t(KEY, a, (FEW,)) ** 2, 12.0, -2.0 / 100),
    "f": (lambda a: R.f(KEY, 4.0, a, (FEW,)), 20.0, -2.0 / 18**2),
    "f numerator": (lambda a: R.f(KEY, a, 20.0, (FEW,)), 4.0, 0.0),
    "generalized": (lambda p: pb.abs(R.generalized_normal(KEY, p, (FEW,))) ** p, 2.0, -0.25),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_gradients_of_expectations(name, reference):
    f, at, wanted = EXPECTED[name]
    slopes = pb.jvp(f, (pb.tensor(at, "f64"),), (pb.tensor(1.0, "f64"),))[1].numpy()
    assert abs(slopes.mean() - wanted) < 4.5 * slopes.std() / math.sqrt(FEW)


# -- values at the ends, and errors ---------------------------------------------------------------


def test_values_at_the_ends(reference):
    tiny = R.beta(KEY, pb.full(200, 1e-3), 1e-3).numpy()  # of gamma numbers that underflow
    assert ((tiny == 0) | (tiny == 1)).mean() > 0.9 and 0.3 < tiny.mean() < 0.7
    sums = R.dirichlet(KEY, pb.full((50, 7), 0.2), dtype="f64").numpy().sum(-1)
    np.testing.assert_allclose(sums, 1, rtol=1e-14)
    assert R.poisson(KEY, [0.0, 0.0]).tolist() == [0, 0]
    wrong = pb.tensor([-1.0, math.nan, math.inf])
    assert R.poisson(KEY, wrong).tolist() == [-1, -1, -1]
    assert R.binomial(KEY, pb.tensor([3.0, 2.5, -1.0]), pb.tensor(1.0)).tolist() == [3, -1, -1]
    assert R.binomial(KEY, 7, pb.tensor([0.0, 1.0, 1.5])).tolist() == [0, 7, -1]
    assert R.geometric(KEY, pb.tensor([1.0, 0.0, -0.5, 2.0])).tolist() == [1, 2**62, -1, -1]
    assert R.lognormal(KEY, 0.0).item() == 1 and R.rayleigh(KEY, 0.0).item() == 0
    assert R.pareto(KEY, 1e-6, dtype="f64").item() == math.inf
    for f in (R.chisquare, R.t, R.pareto, R.wald, R.loggamma, R.generalized_normal):
        assert math.isnan(f(KEY, pb.tensor(-1.0)).item())


def test_multinomial_counts_sum_to_the_number_of_trials(reference):
    n = pb.tensor([[0], [1], [1000]])
    p = np.array([[0.0, 1.0, 3.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    x = R.multinomial(KEY, n, p).numpy()
    assert x.shape == (3, 2, 4) and (x.sum(-1) == n.numpy()).all()
    assert (x[:, 0, [0, 3]] == 0).all() and (x >= 0).all()
    assert R.multinomial(KEY, 5, [1.0], (2,)).tolist() == [[5], [5]]
    assert R.multinomial(KEY, 5, pb.tensor([0.5, -1.0])).tolist()[1] == -1


def test_bounds_have_two_names():
    x = R.uniform(KEY, (4,), minval=-1.0, maxval=3.0)
    assert R.uniform(KEY, (4,), low=-1.0, high=3.0).tolist() == x.tolist()
    assert (R.uniform(KEY, (4,), high=pb.tensor(5.0)).numpy() < 5).all()


def test_invalid_arguments():
    bad = {
        "a must be positive": lambda: R.beta(KEY, 0.0, 1.0),
        "alpha must be positive": lambda: R.dirichlet(KEY, [1.0, -1.0]),
        "scale must not be negative": lambda: R.laplace(KEY, scale=-1.0),
        "sigma must not be negative": lambda: R.lognormal(KEY, -1.0),
        "lam must be at least 0": lambda: R.poisson(KEY, -1.0),
        "n must be an integer from 0": lambda: R.binomial(KEY, 2.5, 0.5),
        r"p must be in \[0, 1\]": lambda: R.binomial(KEY, 2, 1.5),
        "p must be positive and at most 1": lambda: R.geometric(KEY, 0.0),
        "n must be positive": lambda: R.negative_binomial(KEY, 0, 0.5),
        "probabilities must not be negative": lambda: R.multinomial(KEY, 2, [1.0, -1.0]),
        "left <= mode <= right": lambda: R.triangular(KEY, 0.0, 2.0, 1.0),
        "d must not be negative": lambda: R.ball(KEY, -1),
        "p must be positive": lambda: R.ball(KEY, 2, 0.0),
        "mean must be positive": lambda: R.wald(KEY, 0.0),
    }  # fmt: skip
    for message, call in bad.items():
        with pytest.raises(ArgumentError, match=message):
            call()
    with pytest.raises(ShapeError, match="alpha must have rank 1 or more"):
        R.dirichlet(KEY, 1.0)
    with pytest.raises(ShapeError, match="parameters must broadcast to shape"):
        R.beta(KEY, [1.0, 2.0], 1.0, (3,))
    with pytest.raises(DTypeError, match="dtype must be float"):
        R.beta(KEY, 1.0, 1.0, dtype="i32")
    with pytest.raises(DTypeError, match="dtype must be an integer or float"):
        R.poisson(KEY, 1.0, dtype="bool")
    with pytest.raises(DTypeError, match="dtype must be a signed number"):
        R.rademacher(KEY, dtype="u8")


# -- vectors and matrices that need a factorization ------------------------------------------------


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_multivariate_normal(method, reference):
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    x = R.multivariate_normal(KEY, [1.0, -1.0], cov, (N,), "f64", method).numpy()
    np.testing.assert_allclose(x.mean(0), [1, -1], atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.06)
    spread = (x - [1, -1]) @ np.linalg.inv(np.linalg.cholesky(cov)).T
    assert stats.kstest(spread.ravel(), stats.norm.cdf).pvalue > 1e-3

    def draw(mean, root):
        return R.multivariate_normal(KEY, mean, root @ root.T, (3,), method=method)

    pb.check_grads(draw, [pb.tensor([1.0, 2.0], "f64"), pb.tensor(cov)], order=1)


def test_shapes_and_dtypes_of_multivariate_normal(reference):
    mean, cov = pb.zeros((4, 1, 3)), pb.broadcast_to(pb.eye(3), (2, 3, 3))
    assert R.multivariate_normal(KEY, mean, cov).shape == (4, 2, 3)
    assert R.multivariate_normal(KEY, mean, cov, (5, 4, 2), "bf16").dtype is pb.bfloat16
    singular = R.multivariate_normal(KEY, [0.0, 0.0], pb.ones((2, 2)), method="eigh").numpy()
    np.testing.assert_allclose(singular[0], singular[1], atol=1e-5)
    with pytest.raises(ShapeError, match=r"mean and cov must be \[\.\.\., n\]"):
        R.multivariate_normal(KEY, [0.0, 0.0], pb.eye(3))
    with pytest.raises(ArgumentError, match='method must be "cholesky"'):
        R.multivariate_normal(KEY, [0.0], [[1.0]], method="lu")


def test_orthogonal_matrices_are_uniformly_distributed(reference):
    q = R.orthogonal(KEY, 3, (4000,), "f64").numpy()
    np.testing.assert_allclose(
        q @ np.swapaxes(q, -1, -2), np.broadcast_to(np.eye(3), q.shape), atol=1e-12
    )
    for i in range(3):  # a coordinate of a point on the sphere is uniform
        assert stats.kstest(q[:, i, i], stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert abs((np.linalg.det(q) > 0).mean() - 0.5) < 0.04
    u = R.orthogonal(KEY, 3, dtype="complex128").numpy()
    np.testing.assert_allclose(u @ u.conj().T, np.eye(3), atol=1e-12)
    assert R.orthogonal(KEY, 2, m=5, dtype="f16").dtype is pb.float16
    wide = R.orthogonal(KEY, 2, (7,), m=5).numpy()
    np.testing.assert_allclose(wide @ np.swapaxes(wide, -1, -2), [np.eye(2)] * 7, atol=1e-5)
