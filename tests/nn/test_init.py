"""Initialisers: their fans, variances, limits and exact patterns."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

I = pb.nn.init  # noqa: E741
KEY = pb.random.key(1)
SHAPE = (60, 40)  # [out, in]


@pytest.fixture(autouse=True)
def _reference():
    with pb.config(engine="reference"):
        yield


def test_fans():
    assert I.fans(SHAPE) == (40, 60) and I.fans(SHAPE, 0, 1) == (60, 40)
    assert I.fans((3, 5, 8, 16)) == (15 * 8, 15 * 16)
    assert I.fans((16, 8, 3, 5), in_axis=1, out_axis=0) == (15 * 8, 15 * 16)


VARIANCES = {
    "xavier_uniform": (lambda **k: I.xavier_uniform(KEY, SHAPE, 2.0, **k), 4 * 2 / 100, True),
    "xavier_normal": (lambda **k: I.xavier_normal(KEY, SHAPE, **k), 2 / 100, False),
    "kaiming_uniform": (lambda **k: I.kaiming_uniform(KEY, SHAPE, **k), 2 / 40, True),
    "kaiming_normal": (
        lambda **k: I.kaiming_normal(KEY, SHAPE, 1.0, "fan_out", **k), 1 / 60, False,
    ),
    "relu": (
        lambda **k: I.kaiming_normal(KEY, SHAPE, nonlinearity="relu", **k), 2 / 40, False,
    ),
    "lecun_uniform": (lambda **k: I.lecun_uniform(KEY, SHAPE, **k), 1 / 40, True),
    "lecun_normal": (lambda **k: I.lecun_normal(KEY, SHAPE, **k), 1 / 40, False),
    "normal": (lambda **k: I.normal(KEY, SHAPE, std=0.2, **k), 0.04, False),
    "uniform": (lambda **k: I.uniform(KEY, SHAPE, -1.0, 1.0, **k), 1 / 3, True),
}  # fmt: skip


def test_variances():
    for name, (make, variance, uniform) in VARIANCES.items():
        w = make(dtype="f64").numpy()
        assert w.shape == SHAPE and w.dtype == np.float64, name
        assert abs(w.var() / variance - 1) < 0.1 and abs(w.mean()) < 4 * math.sqrt(variance) / 49
        if uniform:
            limit = math.sqrt(3 * variance)
            assert 0.98 * limit < np.abs(w).max() <= limit, name
        for dtype in (pb.float16, pb.bfloat16, pb.float32):
            assert make(dtype=dtype).dtype is dtype, name
        assert make().dtype is pb.float32 and make().tolist() == make().tolist(), name


def test_gains():
    assert I.calculate_gain("relu") == math.sqrt(2) and I.calculate_gain("tanh") == 5 / 3
    assert I.calculate_gain("leaky_relu", 0.5) == math.sqrt(2 / 1.25)
    assert I.calculate_gain("conv2d") == I.calculate_gain("linear") == 1
    with pytest.raises(ArgumentError, match="nonlinearity must be one of"):
        I.calculate_gain("swoosh")


def test_matrices_and_patterns():
    for shape in ((5, 8), (8, 5), (3, 2, 4)):
        w = I.orthogonal(KEY, shape, 2.0, "f64").numpy().reshape(-1, shape[-1])
        small = w @ w.T if w.shape[0] < w.shape[1] else w.T @ w
        np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-9)
    cut = I.truncated_normal(KEY, 1000, 1.0, 2.0, 0.0, 1.5).numpy()
    assert cut.min() >= 0 and cut.max() <= 1.5 and len(set(cut.tolist())) > 900
    few = I.sparse(KEY, (10, 6), 0.33, 1.0).numpy()
    assert (few == 0).sum(0).tolist() == [4] * 6
    assert I.zeros(2).tolist() == [0, 0] and I.ones((1, 2), "f64").dtype is pb.float64
    assert I.constant(2, 3).tolist() == [3.0, 3.0] and I.eye((2, 3)).numpy()[1, 1] == 1
    x = pb.tensor(np.random.default_rng(0).normal(size=(1, 4, 5, 4)))
    w = I.dirac((3, 3, 2, 4), groups=2, dtype="f64")
    assert (pb.nn.functional.conv2d(x, w, padding=1, groups=2) == x).numpy().all()
    w = I.dirac((4, 2, 3, 3), groups=2, dtype="f64", in_axis=1, out_axis=0)
    y = pb.nn.functional.conv2d(x, w, padding=1, groups=2, filter_layout="OIHW")
    assert (y == x).numpy().all()


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: I.xavier_normal(KEY, 3), ShapeError, "needs a shape of rank 2"),
    (lambda: I.kaiming_normal(KEY, SHAPE, mode="fan"), ArgumentError, "mode must be"),
    (lambda: I.fans(SHAPE, 1, 1), ArgumentError, "must differ"),
    (lambda: I.orthogonal(KEY, 3), ShapeError, "rank 2"),
    (lambda: I.sparse(KEY, SHAPE, 1.5), ArgumentError, "sparsity must be"),
    (lambda: I.truncated_normal(KEY, 3, low=2.0), ArgumentError, "low must be less"),
    (lambda: I.eye(3), ShapeError, "shape of a matrix"),
    (lambda: I.dirac((3, 2, 4), groups=3), ArgumentError, "groups must divide"),
])  # fmt: skip
def test_mistakes_are_reported(call, error, message):
    with pytest.raises(error, match=message):
        call()
