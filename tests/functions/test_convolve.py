"""Convolution and correlation of sequences."""

from __future__ import annotations

import numpy as np
from against_numpy import check_calls, same_name
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
V, W = RNG.standard_normal(7), RNG.standard_normal(4)
Z = V + 1j * RNG.standard_normal(7)
I = RNG.integers(-5, 5, 6)  # noqa: E741
PAIRS = ((V, W), (W, V), (Z, W), (W, Z), (I, I[:2]), (I[:3], I), (V > 0, W > 0))
CALLS = [
    *[same_name(pb, np, name, a, v, "full") for name in ("convolve", "correlate")
      for a, v in PAIRS],
    *[same_name(pb, np, name, V, v, mode) for name in ("convolve", "correlate")
      for mode in ("same", "valid") for v in (W, W[:3])],
]  # fmt: skip


def test_values_agree_with_numpy() -> None:
    check_calls(CALLS, compiled=3)
    assert pb.convolve(2.0, I).tolist() == (2.0 * I).tolist()
    assert pb.convolve(V, W).shape == (10,) and pb.correlate(V, W).shape == (4,)


def test_derivatives_and_examples() -> None:
    with pb.config(engine="reference"):
        pb.check_grads(lambda a, v: pb.convolve(a, v, "same"), (V, W), 2)
        pb.check_grads(lambda a, v: pb.correlate(a, v, "full"), (W, Z), 2)
    both = np.stack([V, V[::-1]])
    made = pb.vmap(lambda a: pb.correlate(a, W))(both)
    np.testing.assert_allclose(made.numpy(), [np.correlate(a, W) for a in both], rtol=1e-12)


def test_errors() -> None:
    with told(ShapeError, ValueError, "convolve", "empty"):
        pb.convolve([], V)
    with told(ShapeError, ValueError, "correlate", "vectors"):
        pb.correlate(V, [[1.0]])
    with told(ArgumentError, ValueError, "convolve", "mode"):
        pb.convolve(V, W, "some")
