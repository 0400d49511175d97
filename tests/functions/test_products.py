"""Products that are defined as NumPy has them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from against_numpy import check_calls, same_name
from helpers import told

import pullback as pb
from pullback.errors import AxisError, ShapeError

RNG = np.random.default_rng(0)
A, B, C = (
    RNG.standard_normal((2, 3)),
    RNG.standard_normal((4, 2, 3)),
    RNG.standard_normal((5, 3, 2)),
)
V, W = RNG.standard_normal(3), RNG.standard_normal(4)
Z = A + 1j * RNG.standard_normal(A.shape)
I = RNG.integers(-5, 6, (2, 3))  # noqa: E741

case = partial(same_name, pb, np)
CALLS = [
    *[case("dot", x, y) for x, y in
      ((A, A.T), (B, A.T), (A, V), (V, V), (2.0, A), (B, C), (I, I.T), (Z, V), (Z.T, Z))],
    *[case("inner", x, y) for x, y in ((A, A), (B, A), (A, V), (2, I), (Z, Z))],
    case("vdot", Z, Z[::-1]), case("vdot", A, A), case("vdot", I, I), case("vdot", Z, A),
    *[case("kron", x, y) for x, y in ((A, B), (B, A), (V, W), (V, A), (2.0, A), (I, I), (Z, V))],
    *[case("cross", x, y) for x, y in
      ((A, V), (A, B), (I, I), (Z, A))],
    case("cross", A.T, A.T, axis=0), case("cross", A.T, A, axisa=0), case("cross", B, B, axisc=0),
    case("cross", C, B[:1, :1], axisa=1, axisc=0), case("kron", A[:, :0], A),
    case("dot", A[:, :0], A[:, :0].T), case("cross", A[:0], V),
]  # fmt: skip


def test_values_agree_with_numpy() -> None:
    check_calls(CALLS, compiled=3)


def test_vectors_in_a_plane() -> None:
    assert pb.cross([1, 2], [[3, 4], [2, 4]]).tolist() == [-2, 0]
    flat = np.concatenate([A[:, :2], np.zeros((2, 1))], axis=1)
    np.testing.assert_allclose(pb.cross(A[:, :2], A).numpy(), np.cross(flat, A), atol=1e-15)
    np.testing.assert_allclose(pb.cross(A, A[:, :2]).numpy(), np.cross(A, flat), atol=1e-15)


@pytest.mark.parametrize("f", [pb.dot, pb.inner, pb.vdot, pb.kron, pb.cross])
def test_derivatives(f) -> None:
    with pb.config(engine="reference"):
        pb.check_grads(f, (A[:, :3], A[0] if f is pb.cross else A.T if f is pb.dot else A[::-1]), 2)
        pb.check_grads(f, (V, V[::-1] * 1j), 2)


def test_under_vmap() -> None:
    made = pb.vmap(pb.cross, in_axes=(0, None))(B[:, 0], V)
    np.testing.assert_allclose(made.numpy(), np.cross(B[:, 0], V))
    made = pb.vmap(pb.kron)(B, C[:4])
    np.testing.assert_allclose(made.numpy(), [np.kron(b, c) for b, c in zip(B, C[:4])])


def test_errors() -> None:
    with told(ShapeError, ValueError, "dot", "must agree"):
        pb.dot(A, A)
    with told(ShapeError, ValueError, "inner", "must agree"):
        pb.inner(A, W)
    with told(ShapeError, ValueError, "vdot", "must agree"):
        pb.vdot(V, W)
    with told(ShapeError, ValueError, "cross", "2 or 3"):
        pb.cross(W, W)
    with told(AxisError, IndexError, "cross", "axis 1"):
        pb.cross(V, V, axis=1)
