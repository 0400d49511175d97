"""The sine and cosine of f32 over all its numbers, against those of f64."""

from __future__ import annotations

import numpy as np

import pullback as pb


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
