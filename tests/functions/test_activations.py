"""Activation functions agree with their definitions in NumPy, in both engines, with derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ShapeError

X = np.array([[-7.0, -3.0, -2.5, -0.5, -0.2, -0.0], [0.0, 0.3, 0.5, 1.0, 3.0, 8.0]])
ALPHA = 1.6732632423543772
W = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


def clip6(x):
    return np.clip(x, 0, 6)


# name: the call, and the same in NumPy
CASES = {
    "hardtanh": (pb.hardtanh, lambda x: np.clip(x, -1, 1)),
    "hardtanh wide": (lambda x: pb.hardtanh(x, -2.0, 4.0), lambda x: np.clip(x, -2, 4)),
    "relu6": (pb.relu6, clip6),
    "hardsigmoid": (pb.hardsigmoid, lambda x: clip6(x + 3) / 6),
    "hardswish": (pb.hardswish, lambda x: x * clip6(x + 3) / 6),
    "hardshrink": (lambda x: pb.hardshrink(x, 0.4), lambda x: np.where(np.abs(x) > 0.4, x, 0)),
    "softshrink": (
        lambda x: pb.softshrink(x, 0.4), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.4, 0),
    ),
    "tanhshrink": (pb.tanhshrink, lambda x: x - np.tanh(x)),
    "threshold": (lambda x: pb.threshold(x, 0.4, -7.0), lambda x: np.where(x > 0.4, x, -7)),
    "celu": (lambda x: pb.celu(x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
    "selu": (
        pb.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, ALPHA * np.expm1(x)),
    ),
    "prelu": (lambda x: pb.prelu(x, W), lambda x: np.where(x > 0, x, W * x)),
    "prelu of one": (lambda x: pb.prelu(x, 0.25), lambda x: np.where(x > 0, x, 0.25 * x)),
    "mish": (pb.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "softsign": (pb.softsign, lambda x: x / (1 + np.abs(x))),
    "softmin": (pb.softmin, lambda x: np.exp(-x) / np.exp(-x).sum(-1, keepdims=True)),
}  # fmt: skip


def test_values(engine):
    found = pb.evaluate({name: f(pb.tensor(X)) for name, (f, _) in CASES.items()})
    for name, (_, wanted) in CASES.items():
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(found[name].numpy(), wanted(X), rtol=1e-12, err_msg=name)


def test_derivatives():
    inner = np.array([[-7.1, -2.7, -0.7, -0.25, 0.25, 0.7], [0.3, 1.7, 2.3, 3.1, 5.1, 8.2]])
    with pb.config(engine="reference"):
        for f, _ in CASES.values():
            pb.check_grads(f, (pb.tensor(inner),), order=2)
        pb.check_grads(lambda w: pb.prelu(-inner, w), (pb.tensor(W),), order=2)
        ends = pb.grad(lambda x: pb.hardtanh(x).sum())(pb.tensor([-1.0, 1.0, 0.0]))
        assert ends.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_dtypes_and_extremes(dtype):
    with pb.config(engine="reference"):
        x = pb.tensor([-1e4, -1.0, 0.0, 1.0, 1e4], dtype)
        for name, (f, _) in CASES.items():
            if name != "prelu":
                assert f(x).dtype is x.dtype and np.isfinite(f(x).numpy().astype(float)).all(), name
        assert pb.relu6(pb.tensor([7, -1])).dtype is pb.float32
        assert pb.vmap(pb.mish)(pb.ones((2, 3))).shape == (2, 3)


def test_weights_of_prelu_must_fit():
    with pytest.raises(ShapeError, match="prelu: weight must be one number, or one"):
        pb.prelu(pb.ones((2, 3)), pb.ones(2))
