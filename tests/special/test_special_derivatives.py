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
    "betainc": (special.betainc, [X + 0.5, X, X / 2]),
    "polygamma": (lambda x: special.polygamma(0, x), [X]),
    "rgamma": (special.rgamma, [np.array([-2.0, -0.7, 0.3, 2.5])]),
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


def both_modes(f, values):
    """Return the derivative at points, by reverse and by forward mode."""
    x = pb.tensor(list(values), dtype="f64")
    return pb.grad(lambda x: f(x).sum())(x), pb.jvp(f, (x,), (pb.ones_like(x),))[1]


def check_slopes(*cases):
    """Compare derivatives of functions at points, all in one program."""
    made = [both_modes(f, values) for f, values, _ in cases]
    pb.evaluate(made)
    for i, (pair, (_, _, want)) in enumerate(zip(made, cases, strict=True)):
        assert [t.tolist() for t in pair] == [want, want], f"case {i}"


@pytest.mark.usefixtures("_engine")
def test_hard_points():
    zero = pb.tensor(0.0, dtype="f64")
    check_slopes(
        (special.entr, [0.0], [INF]),
        (special.logit, [0.0, 1.0, 0.5], [INF, INF, 4.0]),
        (special.ndtri, [0.0, 1.0], [INF, INF]),
        (lambda x: special.xlogy(x, zero), [0.0], [-INF]),
        (lambda y: special.xlogy(zero, y), [0.0, 2.0], [0.0, 0.0]),
        (lambda y: special.xlog1py(zero, y), [-1.0], [0.0]),
        (lambda y: special.rel_entr(zero, y), [0.0, 2.0], [0.0, 0.0]),
        (pb.sinc, [0.0], [0.0]),
        (special.exprel, [0.0], [0.5]),
    )


def test_hard_points_of_long_formulas():
    """Both engines share them."""
    zero, half, one = (pb.tensor(v, dtype="f64") for v in (0.0, 0.5, 1.0))
    with pb.config(engine="reference"), np.errstate(all="ignore"):
        check_slopes(
            (special.i0e, [0.0], [0.0]),
            (special.i1e, [0.0], [0.5]),
            (special.j1, [0.0], [0.5]),
            (lambda x: special.gammainc(half, x), [0.0, INF], [INF, 0.0]),
            (lambda a: special.gammainc(a, zero), [2.0], [0.0]),
            (lambda x: special.betainc(one, half, x), [0.0, 1.0], [0.5, INF]),
        )


def derivative(f):
    return lambda x: pb.grad(lambda x: f(x).sum())(x)


@pytest.mark.usefixtures("_engine")
def test_activations_at_infinity():
    """The slope is that of the line which the function approaches, and all others are 0."""
    ends = [INF, -INF, 1e200, -1e200]
    functions = (pb.silu, pb.gelu, lambda x: pb.gelu(x, approximate=True))
    check_slopes(*[(f, ends, [1.0, 0.0, 1.0, 0.0]) for f in functions],
                 *[(derivative(f), ends, [0.0] * 4) for f in functions])  # fmt: skip
    with pb.config(engine="reference"):
        check_slopes(*[(derivative(derivative(f)), ends, [0.0] * 4) for f in functions])
    assert [f(pb.tensor(ends)).tolist()[:2] for f in functions] == [[INF, 0.0]] * 3


def test_derivatives_of_any_order_at_zero():
    """Even functions are not written with abs(x), whose second derivative is 0."""
    x = pb.tensor(0.0, dtype="f64")
    with pb.config(engine="reference"):
        for f, want in ((pb.erfinv, np.pi**1.5 / 4), (pb.tanh, -2.0), (special.j1, -3 / 8)):
            third = pb.grad(pb.grad(pb.grad(f)))
            assert abs(third(x).item() - want) < 1e-13
