"""Programs for XLA mean what NumPy says, also where one of XLA's rewrites would not."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

NAN, INF = float("nan"), float("inf")
HARD = np.array([NAN, INF, -INF, -1.0, -0.0, 2.0])
TAKEN = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 1.0])
PRODUCTS = {
    "mask on the left": lambda m, x: m.astype(x.dtype) * x,
    "mask on the right": lambda m, x: x * m.astype(x.dtype),
    "bool": lambda m, x: m * x,
    "quotient by zero": lambda m, x: m / 0.0 + 0.0 * x,
    "square of a mask": lambda m, x: m.astype(x.dtype) ** 2 * x,
    "one_hot": lambda m, x: pb.one_hot(pb.tensor([1]), 6, dtype=x.dtype) * x,
    "sum": lambda m, x: (m.astype(x.dtype) * x).sum(),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_mask_is_a_number_and_not_a_choice(name, dtype, compiled):
    def f(choice, x):
        return PRODUCTS[name](choice > 0.5, x)

    choice, x = pb.tensor(TAKEN), pb.tensor(HARD).astype(dtype)
    with np.errstate(all="ignore"), pb.config(engine="reference"):
        want = f(choice, x).numpy()
    got = (pb.compile(f) if compiled else f)(choice, x).numpy()
    np.testing.assert_array_equal(got, want)
    numbers = want.view(want.real.dtype) if want.ndim else want.real
    signs = np.signbit(got.view(numbers.dtype) if want.ndim else got.real)
    np.testing.assert_array_equal(
        signs[~np.isnan(numbers)], np.signbit(numbers)[~np.isnan(numbers)]
    )
