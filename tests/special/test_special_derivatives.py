"""Derivatives of functions that are built from several ops, and derivatives at hard points."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

INF = np.inf
special = pb.special
X = np.array([0.3, 0.8, 1.7])
B = np.array([0.5, -0.2, 1.5])

# functions without an op of their own; tests/ops/test_op_table.py differentiates every op
COMPOSED = {
    "erfcinv": (special.erfcinv, [X]),
    "entr": (special.entr, [X]),
    "log_expit": (special.log_expit, [X]),
    "factorial": (special.factorial, [X]),
    "comb": (special.comb, [X + 3, X]),
    "multigammaln": (lambda a: special.multigammaln(a, 3), [X + 2]),
    "zeta": (special.zeta, [np.array([-2.5, -0.4, 0.5, 3.0])]),
    "hurwitz": (special.zeta, [X + 1, X]),
    "spherical_jn": (lambda z: special.spherical_jn(2, z, derivative=True), [X]),
    "logsumexp": (lambda a, b: special.logsumexp(a, b=b, return_sign=True)[0], [X, B]),
    "softmax": (special.softmax, [X]),
    "polygamma": (lambda x: special.polygamma(0, x), [X]),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_both_modes_to_second_order(name):
    f, arrays = COMPOSED[name]
    with pb.config(engine="reference"):
        pb.check_grads(f, tuple([pb.tensor(a) for a in arrays]), order=2, tol=1e-5)


@pytest.fixture(params=["xla", "reference"])
def _engine(request):
    with pb.config(engine=request.param), np.errstate(all="ignore"):
        yield


def slopes(f, *values):
    """Return the derivative at points, which must be the same in both modes."""
    x = pb.tensor(list(values), dtype="f64")
    by_reverse = pb.grad(lambda x: f(x).sum())(x).numpy()
    by_forward = pb.jvp(f, (x,), (pb.ones_like(x),))[1].numpy()
    np.testing.assert_array_equal(by_forward, by_reverse)
    return by_reverse.tolist()


@pytest.mark.usefixtures("_engine")
def test_hard_points():
    half, one = pb.tensor(0.5, dtype="f64"), pb.tensor(1.0, dtype="f64")
    assert slopes(special.entr, 0.0) == [INF]
    assert slopes(special.logit, 0.0, 1.0, 0.5) == [INF, INF, 4.0]
    assert slopes(special.ndtri, 0.0, 1.0) == [INF, INF]
    assert slopes(lambda x: special.xlogy(x, one * 0), 0.0) == [-INF]
    assert slopes(lambda y: special.xlogy(one * 0, y), 0.0, 2.0) == [0.0, 0.0]
    assert slopes(lambda y: special.xlog1py(one * 0, y), -1.0) == [0.0]
    assert slopes(lambda y: special.rel_entr(one * 0, y), 0.0, 2.0) == [0.0, 0.0]
    assert slopes(special.i0e, 0.0) == [0.0] and slopes(special.i1e, 0.0) == [0.5]
    assert slopes(pb.sinc, 0.0) == [0.0] and slopes(special.exprel, 0.0) == [0.5]
    assert slopes(special.j1, 0.0) == [0.5]
    assert slopes(lambda x: special.gammainc(half, x), 0.0, INF) == [INF, 0.0]
    assert slopes(lambda a: special.gammainc(a, one * 0), 2.0) == [0.0]
    assert slopes(lambda x: special.betainc(one, half, x), 0.0, 1.0) == [0.5, INF]


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("name", ["silu", "gelu", "gelu-tanh"])
def test_activations_at_infinity(name):
    """The slope is that of the line which the function approaches, and all others are 0."""
    f = {"silu": pb.silu, "gelu": pb.gelu, "gelu-tanh": lambda x: pb.gelu(x, approximate=True)}[
        name
    ]
    ends = (INF, -INF, 1e200, -1e200)
    assert slopes(f, *ends) == [1.0, 0.0, 1.0, 0.0]

    def derivative(f):
        return lambda x: pb.grad(lambda x: f(x).sum())(x)

    second = derivative(f)
    assert slopes(second, *ends) == [0.0] * 4
    assert slopes(derivative(second), *ends) == [0.0] * 4
    assert f(pb.tensor(ends)).tolist()[:2] == [INF, 0.0]


def test_derivatives_of_any_order_at_zero():
    """Even functions are not written with abs(x), whose second derivative is 0."""
    x = pb.tensor(0.0, dtype="f64")
    for f, want in ((pb.erfinv, np.pi**1.5 / 4), (pb.tanh, -2.0), (special.j1, -3 / 8)):
        third = pb.grad(pb.grad(pb.grad(f)))
        assert abs(third(x).item() - want) < 1e-13
