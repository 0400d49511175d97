"""Combinations, windows, embedded diagonals, runs and weighted products, in both engines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(9)
A, B, C = (RNG.standard_normal(s) for s in ((3, 4), (4, 5), (3, 5)))
V, W = RNG.standard_normal(4), RNG.standard_normal(3)
T, U = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((2, 4, 5))
Z = A + 1j * A[::-1]
windows = np.lib.stride_tricks.sliding_window_view

# name: the value, and the same in NumPy
CASES = {
    "addmm": (lambda: pb.addmm(C, A, B, beta=2, alpha=3.0), 2 * C + 3 * A @ B),
    "addmm alone": (lambda: pb.addmm(pb.nan, A, B, beta=0), A @ B),
    "addmv": (lambda: pb.addmv(W, A, V, alpha=0.5), W + 0.5 * A @ V),
    "addr": (lambda: pb.addr(A, W, V), A + np.outer(W, V)),
    "baddbmm": (lambda: pb.baddbmm(C, T, U), C + T @ U),
    "addbmm": (lambda: pb.addbmm(C, T, U, beta=0.5), 0.5 * C + (T @ U).sum(0)),
    "addcmul": (lambda: pb.addcmul(A, V, A, value=2), A + 2 * V * A),
    "addcdiv": (lambda: pb.addcdiv(A, V, A, value=2), A + 2 * V / A),
    "lerp": (lambda: pb.lerp(A, V, 0.25), A + 0.25 * (V - A)),
    "cartesian": (
        lambda: pb.cartesian_prod(V, W), np.array(list(itertools.product(V, W))),
    ),
    "combinations": (lambda: pb.combinations(V, 3), np.array(list(itertools.combinations(V, 3)))),
    "replacement": (
        lambda: pb.combinations(W, 2, True),
        np.array(list(itertools.combinations_with_replacement(W, 2))),
    ),
    "embed": (lambda: pb.diag_embed(A, 1)[2], np.diag(A[2], 1)),
    "embed below": (lambda: pb.diag_embed(A, -2, 0, 2)[:, 1], np.diag(A[1], -2)),
    "windows": (lambda: pb.sliding_window_view(A, (2, 3)), windows(A, (2, 3))),
    "windows along": (lambda: pb.sliding_window_view(T, 2, 1), windows(T, 2, 1)),
    "integral": (
        lambda: pb.cumulative_trapezoid(A, V, axis=1), integrate.cumulative_trapezoid(A, V, axis=1),
    ),
    "integral from": (
        lambda: pb.cumulative_trapezoid(A, dx=0.5, axis=0, initial=0),
        integrate.cumulative_trapezoid(A, dx=0.5, axis=0, initial=0),
    ),
    "polar": (lambda: pb.polar(A, A[::-1]), A * np.exp(1j * A[::-1])),
    "parts": (lambda: pb.view_as_real(Z), np.stack([Z.real, Z.imag], -1)),
    "whole": (lambda: pb.view_as_complex(np.stack([A, A[::-1]], -1)), Z),
    "frac": (lambda: pb.frac(3 * A), 3 * A - np.trunc(3 * A)),
    "kth": (lambda: pb.kthvalue(A, 2, 0).values, np.sort(A, 0)[1]),
    "kth place": (lambda: pb.kthvalue(A, 3, -1, True).indices, np.argsort(A, -1)[:, 2:3]),
    "runs": (lambda: pb.unique_consecutive([3, 3, 1, 1, 3]), np.array([3, 1, 3])),
}  # fmt: skip


def test_values(engine):
    found = pb.evaluate({name: f() for name, (f, _) in CASES.items()})
    for name, (_, wanted) in CASES.items():
        assert found[name].shape == wanted.shape, name
        np.testing.assert_allclose(found[name].numpy(), wanted, rtol=1e-12, err_msg=name)


def test_derivatives():
    def f(a, v, w):
        return [
            pb.addmm(C, a, B, beta=w[0], alpha=v[0]), pb.addmv(w, a, v), pb.addr(a, w, v),
            pb.addcmul(a, v, a, value=2.0), pb.addcdiv(a, v, a), pb.lerp(a, v, w[1]),
            pb.cartesian_prod(v, w) ** 2, pb.combinations(v) ** 2, pb.diag_embed(a, 1) ** 2,
            pb.sliding_window_view(a, 2, 1) ** 2, pb.cumulative_trapezoid(a, v), pb.polar(a, a),
            pb.view_as_complex(pb.stack([a, a**2], -1)), pb.frac(a), pb.kthvalue(a**2, 2).values,
            pb.unique_consecutive(v), pb.addbmm(C, T * w[0], U), pb.baddbmm(C, T, U * v[0]),
        ]  # fmt: skip

    with pb.config(engine="reference"):
        pb.check_grads(f, [pb.tensor(x) for x in (A, V, W)], order=2)
        assert pb.vmap(pb.diag_embed)(pb.ones((2, 3))).shape == (2, 3, 3)


def test_runs_with_numbers_and_counts():
    values, runs, counts = pb.unique_consecutive([[1, 1], [2, 1]], True, True)
    assert values.tolist() == [1, 2, 1] and counts.tolist() == [2, 1, 1]
    assert runs.tolist() == [[0, 0], [1, 2]]
    rows, runs = pb.unique_consecutive([[1, 2], [1, 2], [1, 3]], return_inverse=True, axis=0)
    assert rows.tolist() == [[1, 2], [1, 3]] and runs.tolist() == [0, 0, 1]
    assert pb.unique_consecutive(pb.zeros(0)).shape == (0,)


def test_spacings_keep_the_precision_of_the_values():
    x = pb.tensor(A)
    wanted = np.gradient(A, 2.1, 0.3)
    for made, value in zip(pb.gradient(x, 2.1, 0.3), wanted, strict=True):
        np.testing.assert_allclose(made.numpy(), value, rtol=1e-14)


def test_sizes_of_0_and_errors():
    assert pb.combinations([1, 2], 3).shape == (0, 3) and pb.combinations([1], 0).shape == (0,)
    assert pb.diag_embed(pb.zeros((2, 0))).shape == (2, 0, 0)
    assert pb.kthvalue(5.0, 1, 0).values.item() == 5.0
    for message, call in {
        "cartesian_prod: needs vectors": lambda: pb.cartesian_prod(A, V),
        "combinations: needs a vector": lambda: pb.combinations(A),
        "diag_embed: needs rank 1": lambda: pb.diag_embed(1.0),
        "sliding_window_view: a window of 9": lambda: pb.sliding_window_view(V, 9),
        "view_as_complex: the last axis": lambda: pb.view_as_complex(W),
    }.items():
        with pytest.raises(ShapeError, match=message):
            call()
    with pytest.raises(DTypeError, match="view_as_real: needs complex"):
        pb.view_as_real(V)
    with pytest.raises(ArgumentError, match="kthvalue: k must be from 1 to 4"):
        pb.kthvalue(V, 5)
