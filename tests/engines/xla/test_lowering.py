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

    choice, x = pb.tensor(TAKEN), pb.tensor(HARD, dtype=dtype)
    with np.errstate(all="ignore"), pb.config(engine="reference"):
        want = f(choice, x).numpy()
    got = (pb.compile(f) if compiled else f)(choice, x).numpy()
    np.testing.assert_array_equal(got, want)
    numbers = want.view(want.real.dtype) if want.ndim else want.real
    signs = np.signbit(got.view(numbers.dtype) if want.ndim else got.real)
    np.testing.assert_array_equal(
        signs[~np.isnan(numbers)], np.signbit(numbers)[~np.isnan(numbers)]
    )


QUOTIENTS = {
    "divisor of all": (lambda x, y, z: x / y[0], 3e38, 3e38, 1.0),
    "quotient of quotients": (lambda x, y, z: (x / y) / (z / y), 1e30, 1e30, 1e30),
    "divisor is a quotient": (lambda x, y, z: x / (y / z), 1e30, 1e30, 1e30),
    "dividend is a quotient": (lambda x, y, z: (x / y) / z, 1e30, 1e30, 1e30),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_quotient_does_not_overflow_on_the_way(name, compiled):
    f, *values = QUOTIENTS[name]
    operands = [pb.tensor(np.array([v, v / 2, NAN], np.float32)) for v in values]
    with np.errstate(all="ignore"), pb.config(engine="reference"):
        want = f(*operands).numpy()
    got = (pb.compile(f) if compiled else f)(*operands).numpy()
    np.testing.assert_array_equal(got, want)


@pytest.mark.usefixtures("on_cpu")  # GPUs round quotients of float32 otherwise
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_quotient_by_one_number_is_rounded_once(dtype):
    x = pb.tensor(np.arange(1, 200) / 7, dtype=dtype)
    tiny = 1e-5 if dtype == "float16" else 1e-30
    for y in (pb.tensor(3.0, dtype=dtype), pb.tensor(tiny, dtype=dtype)):
        with np.errstate(all="ignore"), pb.config(engine="reference"):
            want = (x / y).numpy()
        np.testing.assert_array_equal((x / y).numpy(), want)
