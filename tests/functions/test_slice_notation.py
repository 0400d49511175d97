"""`r_` and `c_` join what NumPy's do; grids are tested with the other functions of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError

X = np.linspace(0.2, 0.7, 3)
M = np.arange(6.0).reshape(2, 3) / 7
S = np.s_
INDICES: list[Any] = [
    X, (X,), (X, X), (X, 0.1, 2), (X, [0.1, 0.3], S[0:1:4j], S[2:5], S[:6:2]), (M, M),
    ("-1", M, M), ("0,2", X, X), ("0,2,0", X, X), ("1,2,0", X, [0.1, 0.2, 0.3]),
    ("0,3,1", M, M), ("-1,3,-2", X, X), ("0,2", S[0:3], X), ("1,2,0", S[0:3], X), (0.1, X[0], X),
]  # fmt: skip
COLUMNS: list[Any] = [
    X, (X, X), (X, [0.1, 0.2, 0.3]), (M, [0.1, 0.2]), (S[0:3], X), (0.1, X[:1]), (M[None], M[None]),
]  # fmt: skip


def test_values_are_those_of_numpy() -> None:
    cases = [(pb.r_, np.r_, i) for i in INDICES] + [(pb.c_, np.c_, i) for i in COLUMNS]
    with pb.config(engine="reference"):
        for ours, theirs, index in cases:
            items = index if isinstance(index, tuple) else (index,)
            own = tuple([pb.asarray(x) if isinstance(x, np.ndarray) else x for x in items])
            got, want = ours[own if isinstance(index, tuple) else own[0]], theirs[index]
            assert got.shape == want.shape and got.dtype is pb.float64, index
            np.testing.assert_allclose(got.numpy(), want, 1e-15)


def test_numbers_take_the_dtype_of_tensors() -> None:
    small = pb.tensor([1, 2], dtype="uint8")
    assert pb.r_[small, 3].dtype is pb.uint8
    assert pb.r_[small, 0.5].dtype is pb.r_[0.5, 1].dtype is pb.float32
    assert pb.c_[small, small.astype("float16")].dtype is pb.float16


def test_derivatives() -> None:
    def f(x: pb.Tensor, m: pb.Tensor) -> pb.Tensor:
        return pb.r_[x, 0.1, m[0] * x, 1:3].prod() + (pb.c_[m, x[:2], m * m] ** 2).sum()

    with pb.config(engine="reference"):
        pb.check_grads(f, (pb.asarray(X), pb.asarray(M + 1)), order=2)
    got = pb.compile(f)(pb.asarray(X), pb.asarray(M)).item()
    assert got == pytest.approx(f(pb.asarray(X), pb.asarray(M)).item())


def test_mistakes() -> None:
    with told(ArgumentError, TypeError, "r_: needs slices with an end"):
        pb.r_[1:]
    with told(ArgumentError, TypeError, "r_: a layout must be one to three integers, got str 'r'"):
        pb.r_["r", X]
    with told(ArgumentError, TypeError, "c_: there is nothing to join"):
        pb.c_["0,2"]
    assert repr(pb.r_) == "pullback.r_"
