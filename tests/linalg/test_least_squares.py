"""Ranks, pseudoinverses and least squares, also of matrices without full rank."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from against_numpy import check_calls, same_name
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((4, 3)), RNG.standard_normal((2, 3, 4))
Z = A + 1j * RNG.standard_normal(A.shape)
LOW = RNG.standard_normal((4, 2)) @ RNG.standard_normal((2, 3))  # rank 2
H = Z @ Z.conj().T  # Hermitian, rank 3
Y, YS = RNG.standard_normal(4), RNG.standard_normal((4, 2))

case = partial(same_name, pb.linalg, np.linalg)
CALLS = [
    *[case("matrix_rank", x) for x in (LOW, np.zeros((2, 3)), np.ones(3), np.zeros(2))],
    case("matrix_rank", LOW, tol=1e-3), case("matrix_rank", B, rtol=np.array([0.9, 1e-3])),
    case("matrix_rank", H, hermitian=True), case("matrix_rank", np.ones((2, 0))),
    *[case("pinv", x, rtol=1e-10) for x in (B, Z, LOW, np.ones((0, 2)))],
    case("pinv", H, rtol=1e-10, hermitian=True), case("pinv", A, rcond=0.3),
    case("lstsq", A, Y), case("lstsq", Z, YS), case("lstsq", A.T, Y[:3]),
    case("lstsq", A, YS, 0.7),
]  # fmt: skip


def _as_numpy(call):
    """NumPy's residuals are empty and its rank is an i32 number."""
    ours, theirs, args, kwargs = call
    if ours is not pb.linalg.lstsq:
        return call

    def lstsq(a, b, rcond=None):
        x, r, rank, s = theirs(a, b, rcond)
        if rank < a.shape[1] < a.shape[0]:
            missed = abs(b - a @ x) ** 2
            r = missed.sum(axis=0, keepdims=b.ndim == 1)
        return x, r, np.int64(rank), s

    return ours, lstsq, args, kwargs


def test_values_agree_with_numpy() -> None:
    check_calls([_as_numpy(call) for call in CALLS], compiled=4)


def test_stacks_of_equations() -> None:
    a, b = np.stack([A, LOW]), np.stack([YS, -YS])
    x, residuals, rank, s = pb.linalg.lstsq(a, b)
    pb.evaluate(x, residuals, rank, s)
    for i in range(2):
        np.testing.assert_allclose(x.numpy()[i], np.linalg.lstsq(a[i], b[i])[0], rtol=1e-9)
    assert residuals.shape == (2, 2) and rank.tolist() == [3, 2] and s.shape == (2, 3)
    mapped = pb.vmap(lambda a, b: pb.linalg.lstsq(a, b).x)(a, b)
    np.testing.assert_allclose(mapped.numpy(), x.numpy(), rtol=1e-12)


@pytest.mark.parametrize("x", [A, A.T, Z, B], ids=["tall", "wide", "complex", "stack"])
def test_derivatives(x: np.ndarray) -> None:
    with pb.config(engine="reference"):
        pb.check_grads(pb.linalg.pinv, (x,), 2)
        if x.ndim == 2:
            pb.check_grads(
                lambda a, b: pb.linalg.lstsq(a, b)[:2], (x, YS[: x.shape[0]] + 0 * x[0, 0]), 2
            )


def test_derivatives_among_matrices_of_low_rank() -> None:
    """Of a product of two factors, whose rank does not change."""
    left, right = RNG.standard_normal((4, 2)), RNG.standard_normal((2, 3))
    with pb.config(engine="reference"):
        pb.check_grads(lambda p, q: pb.linalg.pinv(p @ q, 1e-6), (left, right), 2)
        pb.check_grads(lambda p: pb.linalg.pinv(p @ p.T, 1e-6, hermitian=True), (left,), 2)
        assert np.isfinite(
            pb.grad(lambda x: pb.linalg.pinv(x).sum())(pb.zeros((2, 3))).numpy()
        ).all()


def test_errors() -> None:
    linalg = pb.linalg
    with told(ArgumentError, ValueError, "linalg.matrix_rank", "both"):
        linalg.matrix_rank(A, tol=1.0, rtol=1.0)
    with told(ArgumentError, ValueError, "linalg.pinv", "rcond"):
        linalg.pinv(A, 1.0, rcond=1.0)
    with told(ShapeError, ValueError, "linalg.pinv", "rank of 2"):
        linalg.pinv(Y)
    with told(ShapeError, ValueError, "linalg.pinv", "each matrix"):
        linalg.pinv(B, [0.1, 0.1, 0.1])
    with told(ShapeError, ValueError, "linalg.lstsq", "as many rows"):
        linalg.lstsq(A, Y[:3])


def test_a_hermitian_pseudoinverse_reads_the_lower_triangle(engine: str) -> None:
    rng = np.random.default_rng(3)
    for x in (rng.normal(size=(3, 3)), rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(3, 3))):
        found = pb.linalg.pinv(pb.tensor(x), hermitian=True).numpy()
        np.testing.assert_allclose(found, np.linalg.pinv(x, hermitian=True), atol=1e-10)
