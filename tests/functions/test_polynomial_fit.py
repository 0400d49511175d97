"""Polynomials that are closest to points."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from against_numpy import Call, check_calls, same_name
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
X, Y, W = RNG.standard_normal(6), RNG.standard_normal((6, 2)), RNG.uniform(0.5, 2.0, 6)

case = partial(same_name, pb, np, "polyfit", X)
CALLS = [
    case(Y, 2), case(Y[:, 0], 3, w=W), case(Y[:, 0], 2, full=True), case(Y, 0, w=W, full=True),
    case(Y[:, 0], 1, cov=True), case(Y, 2, w=W, cov=True), case(Y[:, 0], 2, cov="unscaled"),
    case(Y[:, 0] * (1 + 2j), 1), case(np.arange(6), 1),
]  # fmt: skip


def _with_wide_rank(call: Call) -> Call:
    ours, theirs, args, kwargs = call

    def polyfit(*args, **kwargs):
        made = theirs(*args, **kwargs)
        return (*made[:2], np.int64(made[2]), *made[3:]) if kwargs.get("full") else made

    return ours, polyfit, args, kwargs


def test_values_agree_with_numpy() -> None:
    check_calls([_with_wide_rank(call) for call in CALLS], compiled=4)
    with pytest.warns(np.exceptions.RankWarning):
        want = np.polyfit(X, Y, 2, rcond=0.9)
    np.testing.assert_allclose(pb.polyfit(X, Y, 2, rcond=0.9).numpy(), want, rtol=1e-10)


def test_derivatives() -> None:
    with pb.config(engine="reference"):
        pb.check_grads(lambda x, y: pb.polyfit(x, y, 2), (X, Y), 2)
        pb.check_grads(lambda y, w: pb.polyfit(X, y, 1, w=w, cov=True), (Y[:, 0], W), 2)


def test_errors() -> None:
    with told(ArgumentError, ValueError, "polyfit", "deg"):
        pb.polyfit(X, Y, -1)
    with told(ShapeError, ValueError, "polyfit", "x must be"):
        pb.polyfit(Y, Y, 1)
    with told(ShapeError, ValueError, "polyfit", "row for each point"):
        pb.polyfit(X, Y[:3], 1)
    with told(ShapeError, ValueError, "polyfit", "weight for each point"):
        pb.polyfit(X, Y, 1, w=W[:2])
    with told(ArgumentError, ValueError, "polyfit", "unscaled"):
        pb.polyfit(X, Y, 5, cov=True)
    with told(ArgumentError, ValueError, "polyfit", "cov"):
        pb.polyfit(X, Y, 1, cov="scaled")
