"""Polynomials, powers and integrals of samples."""

from __future__ import annotations

from functools import partial

import numpy as np
from against_numpy import check_calls, same_name
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
V, W, A = RNG.standard_normal(7), RNG.standard_normal(4), RNG.standard_normal((2, 3))
Z = V + 1j * RNG.standard_normal(7)
I = RNG.integers(-5, 5, 6)  # noqa: E741

case = partial(same_name, pb, np)
CALLS = [
    *[case("polyval", p, x) for p, x in
      ((W, V), ([1, 2], I), (W, A), ([2.0], A), (W, 2.0), (W, Z), ([], V), (Z, V))],
    *[case("vander", x, n) for x in (V, I, Z) for n in (None, 0, 1, 4)],
    case("vander", V, 3, increasing=True), case("vander", I[:0]),
    case("trapezoid", V), case("trapezoid", I), case("trapezoid", A, dx=0.5, axis=0),
    case("trapezoid", A, x=W[:3]), case("trapezoid", A, x=W[:2], axis=0), case("trapezoid", Z),
    case("trapezoid", A, x=A * A, axis=1), case("trapezoid", V[:1]), case("trapezoid", V[:0]),
]  # fmt: skip


def test_values_agree_with_numpy() -> None:
    check_calls(CALLS, compiled=3)


def test_derivatives() -> None:
    with pb.config(engine="reference"):
        pb.check_grads(pb.polyval, (W, V), 2)
        pb.check_grads(pb.polyval, (Z[:3], Z[3:]), 2)
        pb.check_grads(lambda x: pb.vander(x, 4), (np.array([0.5, 0.0, -2.0]),), 2)
        pb.check_grads(lambda y, x: pb.trapezoid(y, x), (A, W[:3]), 2)
        pb.check_grads(lambda y, dx: pb.trapezoid(y, dx=dx), (A, np.array(0.5)), 2)


def test_errors() -> None:
    with told(ShapeError, ValueError, "polyval", "vector"):
        pb.polyval(A, V)
    with told(ShapeError, ValueError, "vander", "vector"):
        pb.vander(A)
    with told(ArgumentError, ValueError, "vander", "negative"):
        pb.vander(V, -1)
