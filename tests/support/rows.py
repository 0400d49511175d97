"""Rows of examples, and functions of one row: what tests of mapping share."""

from __future__ import annotations

import numpy as np

import pullback as pb

RNG = np.random.default_rng(34)
X = RNG.standard_normal((4, 3))
W = RNG.standard_normal((3, 2))
V = RNG.standard_normal(4)


def same(got, want, tolerance=1e-10):
    got = got.numpy() if isinstance(got, pb.Tensor) else got
    want = want.numpy() if isinstance(want, pb.Tensor) else want
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def looped(f, *xs, **kwargs):
    """f on one row of each argument after the other."""
    return pb.stack([f(*[x[i] for x in xs], **kwargs) for i in range(len(xs[0]))])


def loss(x, w):
    return (pb.tanh(x @ w) ** 2).sum() + pb.logsumexp(x * x)
