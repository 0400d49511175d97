"""Norms of vectors and matrices, and their gradients where they have kinks."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from against_numpy import check_calls, same_name
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
A, B, V = RNG.standard_normal((3, 4)), RNG.standard_normal((2, 3, 4)), RNG.standard_normal(5)
Z = A + 1j * RNG.standard_normal(A.shape)
I = RNG.integers(-5, 6, (3, 4))  # noqa: E741
INF = math.inf
ORDERS = ("fro", "nuc", 1, -1, 2, -2, INF, -INF)

case = partial(same_name, pb.linalg, np.linalg)
CALLS = [
    *[case("vector_norm", x, ord=p) for x in (V, Z) for p in (0, 1, 2, 2.5, INF, -INF, -1, -2.5)],
    case("vector_norm", B, axis=(0, 2)), case("vector_norm", B, axis=1, keepdims=True, ord=3),
    case("vector_norm", B, axis=(2, 1), keepdims=True, ord=0), case("vector_norm", I),
    case("vector_norm", B[:0], axis=0), case("vector_norm", np.array(3.0)),
    case("vector_norm", np.array([0.0, 2.0]), ord=-1), case("vector_norm", A, axis=-2, ord=-INF),
    *[case("matrix_norm", x, ord=p) for x in (A, Z) for p in ORDERS],
    *[case("matrix_norm", B, ord=p, keepdims=True) for p in ORDERS], case("matrix_norm", I, ord=2),
    case("norm", V), case("norm", B), case("norm", B, keepdims=True), case("norm", A, 2),
    case("norm", A, "nuc", axis=(1, 0)), case("norm", B, 1, axis=(2, 0), keepdims=True),
    case("norm", B, -INF, axis=(0, -1)), case("norm", B, 3, axis=1), case("norm", Z, axis=0),
    case("norm", V, INF), case("norm", V, 0), case("norm", B, axis=(0, 1)),
    *[case("cond", B[:, :, :3], p) for p in (*ORDERS, None)], case("cond", A), case("cond", Z, -2),
    case("cond", np.array([[1.0, 2.0], [2.0, 4.0]]), 1), case("cond", np.zeros((2, 2))),
]  # fmt: skip


def test_values_agree_with_numpy() -> None:
    check_calls(CALLS, compiled=5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_dtypes(dtype: str) -> None:
    with pb.config(engine="reference"):
        x = pb.full((2, 2), 300.0, dtype=dtype)
        for made in (
            pb.linalg.vector_norm(x), pb.linalg.vector_norm(x, ord=-1), pb.linalg.matrix_norm(x),
            pb.linalg.matrix_norm(x, ord="nuc"), pb.linalg.norm(x, 2),
        ):  # fmt: skip
            assert made.dtype is x.dtype.real and math.isfinite(made.item())


def test_derivatives() -> None:
    norms = pb.linalg
    with pb.config(engine="reference"):
        for p in (1, 2, 3.5, INF, -INF, -1, -2):
            pb.check_grads(lambda x, p=p: norms.vector_norm(x, ord=p), (V,), 2)
        for p in ORDERS:
            pb.check_grads(lambda x, p=p: norms.matrix_norm(x, ord=p), (B,), 2)
            pb.check_grads(lambda x, p=p: norms.matrix_norm(x, ord=p), (Z,), 1)
        for p in (None, -2, 1, "fro"):
            pb.check_grads(lambda x, p=p: norms.cond(x, p), (B[:, :, :3],), 2)


def test_gradients_at_degenerate_points() -> None:
    norms, zero = pb.linalg, pb.zeros((3, 2))
    with pb.config(engine="reference"):
        for p in ("fro", "nuc", 1, 2, INF):
            assert not pb.any(pb.grad(lambda x, p=p: norms.matrix_norm(x, ord=p))(zero)) or p == 2
        for p in (0.5, 1, 2, 3, INF, -1):
            slope = pb.grad(lambda x, p=p: norms.vector_norm(x, ord=p))(pb.zeros(3))
            assert slope.tolist() == [0.0] * 3
        slope = pb.grad(lambda x: norms.vector_norm(x, ord=-1))(pb.tensor([0.0, 2.0]))
        assert np.isfinite(slope.numpy()).all()
        # a matrix of rank 1: the gradient of the sum of its singular values is u v^T
        u, v = np.array([0.6, 0.8, 0.0]), np.array([0.0, 1.0])
        slope = pb.grad(lambda x: norms.matrix_norm(x, ord="nuc"))(pb.tensor(3 * np.outer(u, v)))
        np.testing.assert_allclose(slope.numpy(), np.outer(u, v), atol=1e-12)
        # all singular values are equal
        assert np.isfinite(pb.grad(norms.cond)(pb.eye(3)).numpy()).all()
        assert np.isfinite(pb.grad(lambda x: norms.norm(x, 2))(pb.eye(3)).numpy()).all()


def test_errors() -> None:
    norms = pb.linalg
    with told(ShapeError, ValueError, "linalg.matrix_norm", "rank of 2"):
        norms.matrix_norm(V)
    with told(ArgumentError, ValueError, "linalg.matrix_norm", "ord"):
        norms.matrix_norm(A, ord=3)
    with told(ArgumentError, ValueError, "linalg.norm", "ord"):
        norms.norm(V, "fro")
    with told(ShapeError, ValueError, "linalg.norm", "vector or a matrix"):
        norms.norm(B, 2)
    with told(ArgumentError, ValueError, "linalg.norm", "one or two axes"):
        norms.norm(B, axis=(0, 1, 2))
    with told(ArgumentError, TypeError, "linalg.vector_norm", "ord"):
        norms.vector_norm(V, ord="fro")
    with told(ShapeError, ValueError, "linalg.cond", "not empty"):
        norms.cond(np.ones((0, 0)))
