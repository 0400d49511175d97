"""The sine and cosine over all numbers: of f32 against those of f64, of f64 against longer ones."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.kernels import kernel_library

FUNCTIONS = [(pb.sin, np.sin), (pb.cos, np.cos)]
calls_kernel = pytest.mark.skipif(kernel_library() is None, reason="kernels were not compiled")


def every_size() -> np.ndarray:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0x00800000, 0x7F800000, 100_000, dtype=np.int32)
    anything = patterns.view(np.float32) * rng.choice(np.float32([-1, 1]), patterns.size)
    near_zeros = (np.arange(1, 20_000) * (np.pi / 2)).astype(np.float32)
    hardest = np.float32([16367173 * 2.0**72, 0.5, np.nextafter(np.float32(0.5), np.float32(0))])
    return np.concatenate([anything, near_zeros, hardest, rng.normal(size=50_000) * 5]).astype("f")


def test_sine_and_cosine_of_every_size():
    x = every_size()
    got = pb.compile(lambda x: (pb.sin(x), pb.cos(x)))(pb.tensor(x))
    for made, exact in zip(got, (np.sin(x.astype("d")), np.cos(x.astype("d"))), strict=True):
        error = np.abs(made.numpy() - exact) / np.spacing(np.abs(exact).astype("f"))
        assert error[np.abs(exact) > 1e-37].max() < 1.7  # ulp


def test_zeros_and_what_has_no_sine():
    x = np.float32([0.0, -0.0, 1e-40, np.inf, -np.inf, np.nan])
    sine, cosine = (f(pb.tensor(x)).numpy() for f in (pb.sin, pb.cos))
    np.testing.assert_array_equal(np.signbit(sine[:2]), [False, True])
    np.testing.assert_array_equal(cosine[:3], 1)
    assert np.isnan(sine[3:]).all() and np.isnan(cosine[3:]).all()


def every_long_size() -> np.ndarray:
    rng = np.random.default_rng(0)
    sizes = [1.0, 10.0, 1e3, 1e6, 2e6]  # from 2**20 on, one by one
    anything = np.exp(rng.uniform(-300, 700, 20_000))
    quarters = rng.integers(1, 2**20, 20_000) * (np.pi / 2)
    near_zeros = quarters * (1 + rng.uniform(-1, 1, 20_000) * np.exp(rng.uniform(-40, 0, 20_000)))
    hardest = [2.0**20, np.nextafter(2.0**20, 0), np.pi / 4]
    uniform = [rng.uniform(-size, size, 20_000) for size in sizes]
    return np.concatenate([*uniform, anything, quarters, near_zeros, hardest])


@calls_kernel
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="has no longer numbers")
@pytest.mark.parametrize(("f", "exact"), FUNCTIONS)
def test_kernels_are_within_an_ulp(f, exact):
    x = every_long_size()
    right = exact(x.astype(np.longdouble))
    error = np.abs(f(pb.tensor(x)).numpy() - right) / np.spacing(np.abs(right).astype("d"))
    assert error.max() < 0.8


@calls_kernel
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("size", [1, 255, 256, 257, 1023, 5_000, 70_001])
@pytest.mark.parametrize(("f", "exact"), FUNCTIONS)
def test_kernels_handle_every_length(f, exact, size):
    x = np.random.default_rng(size).normal(size=size) * 3
    x[size // 2 :: 7] *= 1e9  # next to others
    np.testing.assert_allclose(f(pb.tensor(x)).numpy(), exact(x), rtol=4e-16, atol=0)


@calls_kernel
@pytest.mark.usefixtures("on_cpu")
def test_the_double_nearest_to_a_multiple_of_a_quarter_turn():
    x = np.full(1_000, 6381956970095103 * 2.0**797)
    # The C library's cosine, which the kernel calls for large numbers, has an error of 8 ulp there
    np.testing.assert_allclose(pb.cos(pb.tensor(x)).numpy(), -4.6871659242546276e-19, rtol=1e-14)


@calls_kernel
@pytest.mark.usefixtures("on_cpu")
def test_kernels_keep_tiny_numbers_and_what_has_no_value():
    tiny = [0.0, -0.0, 1e-310, -1e-310, 1e-200, 1e-9]
    x = np.tile([*tiny, np.inf, -np.inf, np.nan], 100)
    sine, cosine = (f(pb.tensor(x)).numpy().reshape(100, -1) for f, _ in FUNCTIONS)
    np.testing.assert_array_equal(sine[0, :6].view(np.int64), np.array(tiny).view(np.int64))
    np.testing.assert_array_equal(cosine[:, :6], 1)
    for made in (sine, cosine):
        np.testing.assert_array_equal(made, made[:1].repeat(100, 0))
        assert np.isnan(made[:, 6:]).all()


@calls_kernel
@pytest.mark.usefixtures("on_cpu")
def test_derivatives_and_examples_of_large_arrays():
    x = np.random.default_rng(0).normal(size=(30, 20))
    made = pb.grad(lambda x: pb.sum(pb.vmap(lambda row: pb.sin(row) * pb.cos(row))(x)))
    np.testing.assert_allclose(pb.compile(made)(pb.tensor(x)).numpy(), np.cos(2 * x), atol=1e-15)


def test_programs_without_kernels_do_not_call_them():
    x = np.random.default_rng(0).normal(size=5_000)
    with pb.config(kernels=False):
        got = pb.compile(lambda x: pb.sin(x) + pb.cos(x))(pb.tensor(x)).numpy()
    np.testing.assert_allclose(got, np.sin(x) + np.cos(x), rtol=1e-14, atol=1e-15)
