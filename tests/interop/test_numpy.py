"""NumPy functions on tensors: same values, tensors where possible, and no lost gradient."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import told
from scipy import special

import pullback as pb
from pullback.errors import ArgumentError, UnsupportedOp
from pullback.interop import numpy as numpy_calls

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
    "reduce": lambda x: np.add.reduce(x),
    "reduce all": lambda x: np.maximum.reduce(x, axis=None, keepdims=True),
    "reduce by position": lambda x: np.multiply.reduce(x, 1),
    "accumulate": lambda x: np.add.accumulate(x, axis=1),
    "outer of a ufunc": lambda x: np.subtract.outer(x[0], x),
    "ufunc in a dtype": lambda x: np.add(x, 1, dtype=np.float32),
    "default casting": lambda x: np.add(x, 1, casting="same_kind"),
    "rint": lambda x: np.rint(x),
    "fabs": lambda x: np.fabs(-x),
    "trace": lambda x: np.trace(x),
    "trace of axes": lambda x: np.trace(np.stack([x, x]), 1, 1, 2),
    "diagonal": lambda x: np.diagonal(np.stack([x, x])),
    "diagonals of matrices": lambda x: np.linalg.diagonal(np.stack([x, x])),
    "traces of matrices": lambda x: np.linalg.trace(np.stack([x, x])),
    "fft": lambda x: np.abs(np.fft.rfft(x, 4, axis=0)),
    "solve": lambda x: np.linalg.solve(x[:, :2], x),
    "matrix norm": lambda x: np.linalg.norm(x, np.inf, axis=(0, 1), keepdims=True),
    "singular values": lambda x: np.linalg.svd(x, compute_uv=False),
    "linspace": lambda x: np.linspace(x[0], x[1]),
    "norm": lambda x: np.linalg.norm(x),
    "norm of vectors": lambda x: np.linalg.norm(x, 3, axis=1, keepdims=True),
    "norm along": lambda x: np.linalg.norm(x, axis=0),
    "copy": lambda x: np.copy(x),
    "sorted flat": lambda x: np.sort(x, axis=None),
    "where in a sum": lambda x: np.sum(x, where=X > 1, initial=1.0),
    "decimals": lambda x: np.round(x, 1),
    "pad": lambda x: np.pad(x, 1, "reflect"),
    "upper trace": lambda x: np.trace(x, 1),
    "take along": lambda x: np.take_along_axis(x, np.array([[0], [2]]), 1),
    "repeat": lambda x: np.repeat(x, 2, axis=1),
}

# Calls with several results
SEVERAL = {
    "split": lambda x: np.split(x, 3, axis=1),
    "split at": lambda x: np.split(x, [1, 1, 2], axis=1),
    "divmod": lambda x: np.divmod(x, 0.7),
    "where": lambda x: np.where(x > 1),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, x[0]),
}

HOST = {
    "out": lambda x: np.add(x, 1, out=np.zeros_like(X)),
    "order": lambda x: np.add(x, 1, order="F"),
    "method": lambda x: np.add.reduceat(x, [0, 1]),
    "unknown ufunc": lambda x: special.struve(0, x),
    "of a module": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1)[..., 0].max(),
}


def agrees(name, got, want):
    assert isinstance(got, pb.Tensor), name
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-12, err_msg=name)


def test_known_functions_return_tensors():
    with pb.config(engine="reference"):
        made = {name: f(pb.tensor(X)) for name, f in TENSORS.items()}
        pb.evaluate(list(made.values()))
    traced = pb.compile(lambda x: {name: f(x) for name, f in TENSORS.items()})(pb.tensor(X))
    for name, f in TENSORS.items():
        agrees(name, made[name], f(X))
        agrees(name, traced[name], f(X))


def test_several_results_are_tensors():
    made = {name: f(pb.tensor(X)) for name, f in SEVERAL.items()}
    for name, f in SEVERAL.items():
        for got, want in zip(made[name], f(X), strict=True):
            agrees(name, got, want)


def test_modules_of_numpy_and_scipy_are_found_by_name(monkeypatch):
    """Functions are looked up in pullback's module of the same name when they are first called."""
    numpy_calls._counterpart_of_numpy.cache_clear()
    found = pb.ones(1)
    monkeypatch.setattr(pb.linalg, "matrix_power", lambda x, n: found, raising=False)
    monkeypatch.setattr(pb.fft, "fft", lambda x, *, n=None, axis=-1, norm="x": found, raising=False)
    monkeypatch.setattr(pb.special, "jv", lambda n, x: found, raising=False)
    x = pb.tensor(X)
    assert np.linalg.matrix_power(x, 3) is np.fft.fft(x, axis=0) is special.jv(2, x) is found
    assert isinstance(special.gammaln(x), pb.Tensor)
    numpy_calls._counterpart_of_numpy.cache_clear()


def test_results_are_written_to_tensors():
    x, target = pb.tensor(X), pb.zeros_like(pb.tensor(X))
    assert np.add(x, 1, out=target) is target and target.tolist() == (X + 1).tolist()
    assert np.multiply(x, 2, out=target, where=X > 1) is target
    np.testing.assert_array_equal(target.numpy(), np.where(X > 1, X * 2, X + 1))
    total = pb.zeros(3, dtype="float64")
    assert np.sum(x, axis=0, out=total) is total and total.tolist() == X.sum(0).tolist()
    with told(ArgumentError, ValueError, "np.add", "where= needs out=", "pb.where"):
        np.add(x, 1, where=X > 1)
    with told(ArgumentError, ValueError, "np.add(out=...)", "f32[2,3]", "f32[2]"):
        np.add(x, 1, out=pb.zeros(2))


def test_dtypes_are_known_without_values():
    def f(x):
        assert not np.iscomplexobj(x) and np.isrealobj(x)
        assert np.result_type(x, np.float32) == np.float64
        return x

    pb.compile(f)(pb.tensor(X))
    assert np.broadcast_arrays(pb.tensor(X), None)[1][0, 0] is None  # as plt.bar calls it


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
