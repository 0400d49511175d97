"""GELU by a hyperbolic tangent, as it is written by hand, becomes one op, and so its gradient."""

import math

import numpy as np
import pytest
from spelled import finds, fused_ops, leaves, pulled, rows, same_with_kernels

import pullback as pb

X = rows(40, 120)
C = math.sqrt(2 / math.pi)

SPELLINGS = [
    lambda x: 0.5 * x * (1 + pb.tanh(C * (x + 0.044715 * x**3))),
    lambda x: x * 0.5 * (1.0 + pb.tanh((x + x**3 * 0.044715) * C)),
    lambda x: 0.5 * (x * (1 + pb.tanh(C * (x + 0.044715 * x * x * x)))),
    lambda x: x * (0.5 * (pb.tanh(C * (x + 0.044715 * (x * x * x))) + 1)),
]


@pytest.mark.parametrize("f", SPELLINGS)
def test_the_formula_is_found(f):
    finds(f, [X], "TanhGelu", "TanhGeluGradient")


def test_numbers_may_be_inputs():
    def f(x, half, one, c, a):
        return half * x * (one + pb.tanh(c * (x + a * x**3)))

    numbers = [np.asarray(n) for n in (0.5, 1.0, C, 0.044715)]
    finds(f, [X, *numbers], "TanhGelu", "TanhGeluGradient")
    # Their own gradients need the values in between.
    found = fused_ops(pulled(f, 0, 3), X, *numbers)
    assert found["TanhGelu"] == found["TanhGeluGradient"] == 0


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 0.5 * x * (1 + pb.tanh(C * (x + 0.044715 * x**2))),
        lambda x: 0.5 * x * (1 + pb.sin(C * (x + 0.044715 * x**3))),
        lambda x: 0.5 * x * (1 - pb.tanh(C * (x + 0.044715 * x**3))),
        lambda x: 0.5 * x * (1 + pb.tanh(C * (x + 0.044715 * (x + 1) ** 3))),
        lambda x: 0.5 * x.sum() * (1 + pb.tanh(C * (x + 0.044715 * x**3))),
    ],
)
def test_near_misses_stay(f):
    leaves(f, [X], "TanhGelu")
    leaves(pulled(f), [X], "TanhGelu", "TanhGeluGradient")


def test_values_in_between_that_are_used_elsewhere():
    def f(x):
        t = pb.tanh(C * (x + 0.044715 * x**3))
        return 0.5 * x * (1 + t) + pb.sum(t)

    leaves(f, [X], "TanhGelu")


def test_with_kernels_and_without():
    x = X.copy()
    x[0, :8] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30
    x[1] = np.linspace(-9, 9, 120)
    f = SPELLINGS[0]
    same_with_kernels([f, pb.grad(lambda x: f(x).sum()), pulled(lambda x: f(x) * 0.5)], [x])
