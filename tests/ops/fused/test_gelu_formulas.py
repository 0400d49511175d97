"""GELU by a hyperbolic tangent or the error function, as it is written by hand, becomes one op, and
so its gradient."""

import math

import numpy as np
import pytest
from spelled import finds, fused_ops, leaves, pulled, rows, same_with_kernels

import pullback as pb
from pullback.special import erf

X = rows(40, 120)
C = math.sqrt(2 / math.pi)
ROOT = math.sqrt(2)
OPS = "TanhGelu", "TanhGeluGradient", "ErfGelu", "ErfGeluGradient"

BY_TANH = [
    lambda x: 0.5 * x * (1 + pb.tanh(C * (x + 0.044715 * x**3))),
    lambda x: x * 0.5 * (1.0 + pb.tanh((x + x**3 * 0.044715) * C)),
    lambda x: 0.5 * (x * (1 + pb.tanh(C * (x + 0.044715 * x * x * x)))),
    lambda x: x * (0.5 * (pb.tanh(C * (x + 0.044715 * (x * x * x))) + 1)),
    lambda x: x * (1 + pb.tanh(C * (x + 0.044715 * x**3))) / 2,
    lambda x: x / 2 * (1 + pb.tanh(C * (x + 0.044715 * x**3))),
]
BY_ERF = [
    lambda x: 0.5 * x * (1 + erf(x / ROOT)),
    lambda x: x * 0.5 * (1.0 + erf(x * (1 / ROOT))),
    lambda x: 0.5 * (x * (erf(0.7071 * x) + 1)),
    lambda x: x * (0.5 * (1 + erf(x / ROOT))),
    lambda x: x * (1 + erf(x / ROOT)) * 0.5,
    lambda x: x * (1 + erf(x / ROOT)) / 2,
    lambda x: x / 2 * (1 + erf(x / ROOT)),
    lambda x: (1 + erf(x * 0.7071)) / 2 * x,
]


@pytest.mark.parametrize("f", BY_TANH)
def test_the_formula_by_tanh_is_found(f):
    finds(f, [X], *OPS[:2])


@pytest.mark.parametrize("f", BY_ERF)
def test_the_formula_by_erf_is_found(f):
    finds(f, [X], *OPS[2:])


def test_numbers_may_be_inputs():
    def by_tanh(x, half, one, c, a):
        return half * x * (one + pb.tanh(c * (x + a * x**3)))

    def by_erf(x, half, one, c):
        return half * x * (one + erf(x / c))

    for f, given in ((by_tanh, (0.5, 1.0, C, 0.044715)), (by_erf, (0.5, 1.0, ROOT))):
        numbers = [np.asarray(n) for n in given]
        ops = OPS[:2] if f is by_tanh else OPS[2:]
        finds(f, [X, *numbers], *ops)
        # Their own gradients need the values in between.
        found = fused_ops(pulled(f, 0, 3), X, *numbers)
        assert not any(found[op] for op in OPS)


def test_other_numbers():
    """They may be any, and need not be those of GELU."""
    f = lambda x: -3.0 * x * (0.25 + erf(x * 7.0))  # noqa: E731
    finds(f, [X], *OPS[2:])
    same_with_kernels([f, pulled(f), lambda x: 0.5 * x * (0.0 + erf(x / 3e3)) * 1e3], [X])


NEAR_MISSES = [
    lambda x: 0.5 * x * (1 + pb.tanh(C * (x + 0.044715 * x**2))),
    lambda x: 0.5 * x * (1 + pb.sin(C * (x + 0.044715 * x**3))),
    lambda x: 0.5 * x * (1 - pb.tanh(C * (x + 0.044715 * x**3))),
    lambda x: 0.5 * x * (1 + pb.tanh(C * (x + 0.044715 * (x + 1) ** 3))),
    lambda x: 0.5 * x.sum() * (1 + pb.tanh(C * (x + 0.044715 * x**3))),
    lambda x: 0.5 * x * (1 - erf(x / ROOT)),
    lambda x: 0.5 * x * (1 + erf(ROOT / x)),
    lambda x: 0.5 * x * (1 + erf((x + 1) / ROOT)),
    lambda x: 0.5 * x * (1 + erf(x * x)),
    lambda x: 0.5 * x * (1 + pb.special.erfc(x / ROOT)),
    lambda x: 0.5 * (1 + erf(x / ROOT)),
    lambda x: 0.5 * x.sum() * (1 + erf(x / ROOT)),
    lambda x: 2 / (x * (1 + erf(x / ROOT))),
]


@pytest.mark.parametrize("f", NEAR_MISSES)
def test_near_misses_stay(f):
    leaves(f, [X], *OPS)
    leaves(pulled(f), [X], *OPS)


def test_values_in_between_that_are_used_elsewhere():
    def by_tanh(x):
        t = pb.tanh(C * (x + 0.044715 * x**3))
        return 0.5 * x * (1 + t) + pb.sum(t)

    def by_erf(x):
        t = erf(x / ROOT)
        return 0.5 * x * (1 + t), t

    leaves(by_tanh, [X], *OPS)
    leaves(by_erf, [X], *OPS)


@pytest.mark.parametrize("f", [BY_TANH[0], BY_ERF[0], BY_ERF[1], BY_ERF[6]])
def test_with_kernels_and_without(f):
    x = X.copy()
    x[0, :8] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30
    x[1], x[2] = np.linspace(-9, 9, 120), np.linspace(-30, 30, 120)
    same_with_kernels([f, pb.grad(lambda x: f(x).sum()), pulled(lambda x: f(x) * 0.5)], [x])


def test_second_derivatives():
    for f in (BY_TANH[0], BY_ERF[0]):
        slope = pb.grad(lambda x, f=f: f(x).sum())
        same_with_kernels(
            [
                pb.grad(lambda x, slope=slope: pb.sum(slope(x) ** 2)),
                lambda x, f=f: pb.jvp(f, (x,), (x,)),
                lambda x, slope=slope: pb.jvp(slope, (x,), (x,)),
            ],
            [X],
        )
