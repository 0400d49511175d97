"""The matrix exponential: values, scaling, derivatives."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from helpers import told

import pullback as pb
from pullback.errors import ShapeError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 3))
MATRICES = np.stack([X * size for size in (0.0, 1e-9, 1e-2, 1.0, 5.0, 40.0)])


def test_values_agree_with_scipy() -> None:
    """Each matrix of a stack is squared as often as it needs."""
    angle = 1000.0
    turn = np.array([[0.0, -angle], [angle, 0.0]])
    stiff = np.array([[-1e5, 1.0], [0.0, -1.0]])
    given = [MATRICES, MATRICES[:5] * (1 + 2j), turn, stiff, np.ones((0, 3, 3)), np.ones((0, 0))]
    single = [x.astype(np.complex64 if x.dtype.kind == "c" else np.float32) for x in given[:2]]
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    wanted = [*[scipy.linalg.expm(x) for x in given[:2]], rotation, scipy.linalg.expm(stiff)]
    wanted += given[4:]
    for engine in ("reference", "xla"):
        with pb.config(engine=engine):
            made = [
                pb.linalg.expm(x) for x in (given + single if engine == "reference" else given[:1])
            ]
            pb.evaluate(made)
            for got, want in zip(made, wanted + wanted[:2], strict=False):
                assert got.shape == want.shape
                tolerance = 1e-11 if got.dtype.bits > 64 or got.dtype is pb.float64 else 2e-5
                error = np.linalg.norm(got.numpy() - want, axis=(-2, -1))
                assert (error <= tolerance * np.linalg.norm(want, axis=(-2, -1))).all()
    assert np.isnan(pb.linalg.expm([[math.nan, 0.0], [0.0, 1.0]]).numpy()).any()


def test_derivatives() -> None:
    with pb.config(engine="reference"):
        pb.check_grads(pb.linalg.expm, (MATRICES[1:5],), 2)
        pb.check_grads(pb.linalg.expm, (X + 1j * X.T,), 2)
        # a large direction does not decide how often is squared
        _, slope = pb.jvp(pb.linalg.expm, (X,), (X.T * 1e12,))
        want = scipy.linalg.expm_frechet(X, X.T, compute_expm=False)
        np.testing.assert_allclose(slope.numpy() / 1e12, want, rtol=1e-12)


def test_a_differential_equation() -> None:
    """d/dt expm(t a) y = a expm(t a) y, for several times at once."""
    y = RNG.standard_normal(3)
    path = pb.vmap(lambda t: pb.jvp(lambda s: pb.linalg.expm(s * X) @ y, (t,), (1.0,)))
    with pb.config(engine="reference"):
        places, speeds = path(np.array([0.0, 0.5, 2.0]))
    np.testing.assert_allclose(speeds.numpy(), places.numpy() @ X.T, rtol=1e-10, atol=1e-12)


def test_errors() -> None:
    with told(ShapeError, ValueError, "linalg.expm", "square"):
        pb.linalg.expm(np.ones((2, 3)))
    with told(ShapeError, ValueError, "linalg.expm", "rank of 2"):
        pb.linalg.expm(np.ones(3))
