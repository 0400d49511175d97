"""Distances agree with SciPy's and NumPy's, in both engines, with derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial import distance

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((5, 3)), RNG.standard_normal((4, 3))
ORDERS = {0.0: "hamming", 1.0: "cityblock", 2.0: "euclidean", 3.5: "minkowski"}
ORDERS[math.inf] = "chebyshev"


def scipy_cdist(p):
    if p == 0:
        return distance.cdist(X, Y, "hamming") * 3
    options = {"p": p} if p == 3.5 else {}
    return distance.cdist(X, Y, ORDERS[p], **options)


def test_values(engine):
    x, y = pb.tensor(X), pb.tensor(Y)
    found = pb.evaluate({
        "cdist": [pb.cdist(x, y, p) for p in ORDERS],
        "batch": pb.cdist(x[None], pb.stack([y, 2 * y])),
        "pdist": pb.pdist(x), "pairwise": pb.pairwise_distance(x[:4], y, eps=0.0, keepdims=True),
        "dist": [pb.dist(x[:4], y, p) for p in (0.0, 1.0, 2.0, math.inf, -1.0)],
        "cosine": pb.cosine_similarity(x[:4], y), "normalize": pb.normalize(x, 3.0, axis=0),
        "renorm": pb.renorm(x, 2.0, 0, 1.0),
    })  # fmt: skip
    for p, made in zip(ORDERS, found["cdist"], strict=True):
        np.testing.assert_allclose(made.numpy(), scipy_cdist(p), rtol=1e-12, err_msg=str(p))
    np.testing.assert_allclose(found["batch"][1].numpy(), distance.cdist(X, 2 * Y), rtol=1e-12)
    np.testing.assert_allclose(found["pdist"].numpy(), distance.pdist(X), rtol=1e-12)
    wanted = np.linalg.norm(X[:4] - Y, axis=1, keepdims=True)
    np.testing.assert_allclose(found["pairwise"].numpy(), wanted, rtol=1e-12)
    for p, made in zip((0, 1, 2, math.inf, -1), found["dist"], strict=True):
        wanted = np.linalg.norm((X[:4] - Y).ravel(), p)
        np.testing.assert_allclose(made.item(), wanted, rtol=1e-12)
    cosine = [1 - distance.cosine(a, b) for a, b in zip(X, Y)]
    np.testing.assert_allclose(found["cosine"].numpy(), cosine, rtol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(found["normalize"].numpy(), 3, axis=0), 1, rtol=1e-12)
    lengths = np.linalg.norm(found["renorm"].numpy(), axis=1)
    assert (lengths <= 1).all() and np.allclose(lengths, np.minimum(np.linalg.norm(X, axis=1), 1))


def test_derivatives():
    with pb.config(engine="reference"):
        x, y = pb.tensor(X), pb.tensor(Y)
        for p in (1.0, 2.0, 3.5, math.inf):
            pb.check_grads(lambda x, y, p=p: pb.cdist(x, y, p), (x, y), order=2)
        pb.check_grads(lambda x: [pb.pdist(x), pb.normalize(x), pb.renorm(x, 2.0, 0, 1.0)], (x,))
        pb.check_grads(lambda x, y: pb.cosine_similarity(x[:4], y), (x, y), order=2)
        same = pb.grad(lambda x: pb.cdist(x, x).sum())(x)  # the distance 0 has the gradient 0
        assert np.isfinite(same.numpy()).all()
        assert pb.vmap(pb.cdist, (0, None))(x[None], y).shape == (1, 5, 4)


def test_sizes_of_0_and_errors():
    assert pb.cdist(pb.ones((0, 3)), pb.ones((4, 3))).shape == (0, 4)
    assert pb.cdist(pb.ones((2, 0)), pb.ones((4, 0))).tolist() == [[0.0] * 4] * 2
    assert pb.pdist(pb.ones((1, 3))).shape == (0,)
    assert pb.normalize(pb.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ShapeError, match="cdist: needs points"):
        pb.cdist(pb.ones((2, 3)), pb.ones((2, 4)))
    with pytest.raises(ShapeError, match="pdist: needs a matrix"):
        pb.pdist(pb.ones(3))
    with pytest.raises(ArgumentError, match="renorm: p must be positive"):
        pb.renorm(pb.ones((2, 2)), 0.0, 0, 1.0)
