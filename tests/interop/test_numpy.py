"""NumPy functions on tensors: same values, tensors where possible, and no lost gradient."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import UnsupportedOp

X = np.array([[0.5, 2.0, 1.0], [3.0, 0.25, 4.0]])

TENSORS = {
    "sum": lambda x: np.sum(x),
    "sum along": lambda x: np.sum(x, axis=1, keepdims=True),
    "sum by position": lambda x: np.sum(x, 0),
    "sum in a dtype": lambda x: np.sum(x, 0, np.float32),
    "mean": lambda x: np.mean(x, axis=0),
    "max": lambda x: np.max(x, axis=1),
    "amin": lambda x: np.amin(x),
    "prod": lambda x: np.prod(x, axis=0),
    "std": lambda x: np.std(x, ddof=1),
    "var": lambda x: np.var(x, 0, ddof=1),
    "all": lambda x: np.all(x > 0.3),
    "any": lambda x: np.any(x > 3, axis=0),
    "argmax": lambda x: np.argmax(x, axis=1),
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "transpose": lambda x: np.transpose(x, (1, 0)),
    "ravel": lambda x: np.ravel(x),
    "clip": lambda x: np.clip(x, 1, 3),
    "clip by name": lambda x: np.clip(x, a_min=1, a_max=None),
    "cumsum": lambda x: np.cumsum(x),
    "cumsum along": lambda x: np.cumsum(x, axis=1),
    "take": lambda x: np.take(x, [0, 4]),
    "sort": lambda x: np.sort(x),
    "add": lambda x: np.add(x, 1),
    "exp": lambda x: np.exp(x),
    "arctan2": lambda x: np.arctan2(x, X),
    "power": lambda x: np.power(x, 2),
    "absolute": lambda x: np.abs(-x),
    "array on the left": lambda x: X * x + X,
    "scalar on the left": lambda x: np.float32(2) * x,
    "array of products": lambda x: X.T @ x,
    "matmul": lambda x: np.matmul(x, X.T),
    "dot": lambda x: np.dot(x, X.T),
    "dot of vectors": lambda x: np.dot(x[0], X[1]),
    "dot of numbers": lambda x: np.dot(x, 2.0),
    "outer": lambda x: np.outer(x, X),
    "concatenate": lambda x: np.concatenate([x, X], axis=1),
    "stack": lambda x: np.stack([x, x]),
    "where": lambda x: np.where(x > 1, x, 0),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, X),
    "expand_dims": lambda x: np.expand_dims(x, 0),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 2, 3)),
    "zeros_like": lambda x: np.zeros_like(x),
    "where in a sum": lambda x: np.sum(x, where=X > 1, initial=1.0),
    "decimals": lambda x: np.round(x, 1),
    "pad": lambda x: np.pad(x, 1, "reflect"),
    "trace": lambda x: np.trace(x, 1),
    "take along": lambda x: np.take_along_axis(x, np.array([[0], [2]]), 1),
}

HOST = {
    "out": lambda x: np.add(x, 1, out=np.zeros_like(X)),
    "method": lambda x: np.add.reduce(x),
    "unknown ufunc": lambda x: np.heaviside(x, 0.5),
    "unknown function": lambda x: np.median(x),
    "of a module": lambda x: np.linalg.norm(x),
}


@pytest.mark.parametrize("name", TENSORS)
def test_known_functions_return_tensors(name):
    f = TENSORS[name]
    got, want = f(pb.tensor(X)), f(X)
    assert isinstance(got, pb.Tensor)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(pb.compile(f)(pb.tensor(X)).numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("name", HOST)
def test_other_functions_run_in_numpy_on_the_values(name):
    f = HOST[name]
    got = f(pb.tensor(X))
    assert isinstance(got, (np.ndarray, np.generic))
    np.testing.assert_allclose(got, f(X))


def test_shapes_are_read_without_computing_values():
    def f(x):
        assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3), 2, 6, 3)
        return x

    pb.compile(f)(pb.tensor(X))


def test_no_gradient_is_lost():
    x = pb.tensor(X)
    slope = pb.grad(lambda x: np.sum(x * np.exp(x)))(x)
    np.testing.assert_allclose(slope.numpy(), (1 + X) * np.exp(X))
    w = pb.tensor(X, requires_grad=True)
    np.dot(w, np.ones(3)).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.ones_like(X))


@pytest.mark.parametrize("name", HOST)
def test_a_lost_gradient_is_an_error(name):
    f = HOST[name]
    with told(UnsupportedOp, TypeError, "np.", "would be lost", "x.detach()"):
        pb.grad(lambda x: pb.sum(x * f(x)))(pb.tensor(X))
    with told(UnsupportedOp, TypeError, "would be lost"):
        f(pb.tensor(X, requires_grad=True))
    with pb.no_grad():
        f(pb.tensor(X, requires_grad=True))
    pb.grad(lambda x: pb.sum(x * f(x.detach())))(pb.tensor(X))


def test_results_without_a_derivative_are_allowed():
    def f(x):
        return x.sum() if np.array_equal(x, X) and np.allclose(x, X) else -x.sum()

    np.testing.assert_array_equal(pb.grad(f)(pb.tensor(X)).numpy(), np.ones_like(X))


@pytest.mark.parametrize("write", [np.copyto, lambda z, v: np.put(z, [0], v)])
def test_writing_a_differentiated_value_elsewhere_is_an_error(write):
    def f(v):
        z = np.zeros(2)
        write(z, v)
        return pb.asarray(z).sum() + 0 * v

    with pytest.raises(UnsupportedOp, match="its derivative would be lost"):
        pb.grad(f)(pb.tensor(2.0))


def test_options_and_axes_of_numpy():
    x = np.array([[3.0, 1.0], [2.0, 0.0]])
    t = pb.tensor(x)
    for f in (
        lambda a: np.pad(a, 1, constant_values=3.0), lambda a: np.pad(a, 1, mode="constant"),
        lambda a: np.sort(a, axis=None), lambda a: np.argsort(a, axis=None),
        lambda a: np.sort(a, axis=0), lambda a: np.sort(a),
    ):  # fmt: skip
        made = f(t)
        assert isinstance(made, pb.Tensor)
        np.testing.assert_array_equal(made.numpy(), f(x))
