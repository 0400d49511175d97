"""Derivatives of samples with respect to the parameters of their distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback.ops.random.between import NormalBetween
from pullback.ops.random.gamma_slope import GammaSlope

R = pb.random
KEY = R.key(0)
FLOATS = (pb.float16, pb.bfloat16, pb.float32, pb.float64)


@pytest.fixture
def reference():
    """Use the reference engine, which needs no compilation and gives the same bits."""
    with pb.config(engine="reference"):
        yield


def test_derivatives_with_respect_to_bounds_location_and_scale():
    unit = R.uniform(KEY, (3,), "f64").numpy()
    low, high = pb.tensor(-1.0, dtype="f64"), pb.tensor(2.0, dtype="f64")
    a, b = pb.grad(lambda a, b: R.uniform(KEY, (3,), minval=a, maxval=b).sum(), (0, 1))(low, high)
    np.testing.assert_allclose([a.item(), b.item()], [(1 - unit).sum(), unit.sum()])
    z = R.normal(KEY, (3,)).numpy()
    loc, scale = pb.grad(lambda m, s: R.normal(KEY, (3,), loc=m, scale=s).sum(), (0, 1))(0.5, 2.0)
    np.testing.assert_allclose([loc.item(), scale.item()], [3, z.sum()], rtol=1e-6)
    e = pb.grad(lambda s: R.exponential(KEY, (3,), scale=s).sum())(2.0)
    np.testing.assert_allclose(e.item(), R.exponential(KEY, (3,)).numpy().sum(), rtol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_derivatives_have_the_dtype_of_the_parameters(dtype, reference):
    low = pb.tensor([0.5, 0.25], dtype=dtype)
    for f in (
        lambda a: R.uniform(KEY, (4, 2), minval=a, maxval=a + 1),
        lambda a: R.normal(KEY, (4, 2), loc=a, scale=a),
        lambda a: R.exponential(KEY, (4, 2), scale=a),
        lambda a: R.truncated_normal(KEY, a, a + 2, (4, 2)),
        lambda a: R.gamma(KEY, a, (4, 2)),
    ):
        g = pb.grad(lambda a, f=f: f(a).sum())(low)
        assert g.dtype is dtype and g.shape == (2,)
        y, t = pb.jvp(f, (low,), (pb.ones_like(low),))
        assert t.dtype is y.dtype is dtype
        np.testing.assert_allclose(
            t.numpy().astype(float).sum(0), g.numpy().astype(float), rtol=0.1, atol=0.05
        )


def test_truncated_normal_with_respect_to_its_bounds(reference):
    bounds = [pb.tensor(v, dtype="f64") for v in (-0.7, 1.9)]
    pb.check_grads(lambda a, b: R.truncated_normal(KEY, a, b, (5,)), bounds, order=2)
    far = [pb.tensor(v, dtype="f64") for v in (41.0, 42.0)]
    pb.check_grads(lambda a, b: R.truncated_normal(KEY, a, b, (5,)), far, order=1)
    g = pb.grad(lambda a: R.truncated_normal(KEY, -math.inf, a, (5,)).sum())(1.0).item()
    assert 0 < g < 5
    # an infinite bound has no influence
    assert pb.grad(lambda a: R.truncated_normal(KEY, a, 1.0, (5,)).sum())(-math.inf).item() == 0


def lower_gamma(a, x):
    """Return the gamma distribution function by its power series."""
    total = term = 1 / a
    for n in range(1, 400):
        term *= x / (a + n)
        total += term
    return total * math.exp(a * math.log(x) - x - math.lgamma(a))


@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 3.0, 30.0])
def test_gamma_has_the_derivative_of_a_quantile(a, reference):
    x = R.gamma(KEY, a, (6,), "f64").numpy()
    slopes = pb.jvp(lambda a: R.gamma(KEY, a, (6,)), (pb.tensor(a, dtype="f64"),),
                    (pb.tensor(1.0, dtype="f64"),))[1].numpy()  # fmt: skip
    h = 1e-4 * a
    for value, slope in zip(x, slopes):
        change = (lower_gamma(a + h, value) - lower_gamma(a - h, value)) / (2 * h)
        density = math.exp((a - 1) * math.log(value) - value - math.lgamma(a))
        assert abs(slope + change / density) < 1e-6 * (1 + abs(slope))


def test_gamma_to_second_order(reference):
    """Along a quantile, x' = slope(a, x): the second derivative is that of the slope there."""
    a = pb.tensor(1.7, dtype="f64")
    first = pb.grad(lambda a: R.gamma(KEY, a).sum())
    x = R.gamma(KEY, a).item()
    slope = lambda a, x: float(GammaSlope().numpy(np.array(a), np.array(x)))  # noqa: E731
    h = 1e-3
    moved = []
    for s in (h, -h):  # one step of Runge and Kutta's method
        k1 = slope(1.7, x)
        k2 = slope(1.7 + s / 2, x + s / 2 * k1)
        k3 = slope(1.7 + s / 2, x + s / 2 * k2)
        k4 = slope(1.7 + s, x + s * k3)
        moved.append(slope(1.7 + s, x + s / 6 * (k1 + 2 * k2 + 2 * k3 + k4)))
    wanted = (moved[0] - moved[1]) / (2 * h)
    assert abs(pb.grad(first)(a).item() - wanted) < 1e-6
    assert abs(pb.jvp(first, (a,), (pb.ones_like(a),))[1].item() - wanted) < 1e-6


def test_gradients_of_expectations():
    """E x = a and E log x = digamma(a) for a gamma number."""
    n, a = 20_000, pb.tensor(2.5)
    mean = pb.grad(lambda a: R.gamma(KEY, a, (n,)).mean())(a).item()
    log_mean = pb.grad(lambda a: pb.log(R.gamma(KEY, a, (n,))).mean())(a).item()
    assert abs(mean - 1) < 0.03
    assert abs(log_mean - pb.polygamma(1, a).item()) < 0.03


def test_decisions_have_no_derivative(reference):
    p = pb.tensor([0.3, 0.7])

    def f(p):
        drawn = R.bernoulli(KEY, p) + R.categorical(KEY, pb.log(p), shape=(2,))
        drawn = drawn + R.choice(KEY, 2, (2,), p=p) + R.choice(KEY, 2, (2,), False, p)
        return (drawn * p).sum()

    g = pb.grad(f)(p)
    _, t = pb.jvp(f, (p,), (pb.ones_like(p),))
    assert abs(g.sum().item() - t.item()) < 1e-5


def test_quantiles_of_the_truncated_normal_distribution():
    u = np.array([0.1, 0.5, 0.9])
    symmetric = NormalBetween().numpy(u, np.array(-1.0), np.array(1.0))
    np.testing.assert_allclose(symmetric, [-symmetric[2], 0, symmetric[2]], atol=1e-15)
    p = math.erf(symmetric[2] / math.sqrt(2)) / math.erf(1 / math.sqrt(2))
    assert abs(p - 0.8) < 1e-14
