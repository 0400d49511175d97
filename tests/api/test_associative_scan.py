"""associative_scan: any associative function, over trees, along any axis, in both directions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import told
from numpy_tables import check_rows, check_second_order

import pullback as pb
from pullback.errors import ArgumentError, AxisError

RNG = np.random.default_rng(13)
X = RNG.normal(size=(2, 9, 3))
M = RNG.normal(size=(6, 2, 2)) / 2


def affine(f, g):
    """h -> a h + b, the second after the first."""
    return {"a": f["a"] * g["a"], "b": f["b"] * g["a"] + g["b"]}


def recurrence(a, b):
    h = np.zeros(a.shape[1:])
    out = []
    for x, y in zip(a, b):
        h = x * h + y
        out.append(h)
    return np.stack(out)


def products(m):
    out = [m[0]]
    for x in m[1:]:
        out.append(out[-1] @ x)
    return np.stack(out)


def test_prefixes_agree_with_loops():
    rows = []
    for n in (0, 1, 2, 3, 4, 5, 8, 9):
        part = X[:, :n]
        rows.append((f"sum {n}", lambda p=part: pb.associative_scan(pb.add, p, axis=1),
                     np.cumsum(part, 1)))  # fmt: skip
    back = np.maximum.accumulate(X[:, ::-1], 1)[:, ::-1]
    a, b = RNG.normal(size=(2, 7, 3))
    keep_last = lambda x, y: y  # noqa: E731
    rows += [
        ("reverse", lambda: pb.associative_scan(pb.maximum, X, reverse=True, axis=-2), back),
        ("matrices", lambda: pb.associative_scan(pb.matmul, M), products(M)),
        ("tree", lambda: pb.associative_scan(affine, {"a": a, "b": b})["b"], recurrence(a, b)),
        ("last", lambda: pb.associative_scan(keep_last, X, axis=2), X),
        ("integers", lambda: pb.associative_scan(pb.bitwise_xor, np.arange(7)),
         np.bitwise_xor.accumulate(np.arange(7))),
    ]  # fmt: skip
    check_rows(rows)


def test_the_function_runs_a_logarithmic_number_of_times():
    calls = []

    def add(a, b):
        calls.append(a.shape)
        return a + b

    assert pb.associative_scan(add, pb.ones(1000))[-1].item() == 1000.0
    assert len(calls) <= 2 * 10


def test_associative_scan_in_transforms():
    check_second_order(
        [lambda m: pb.associative_scan(pb.matmul, m),
         lambda m: pb.associative_scan(affine, {"a": m, "b": m * m}, reverse=True)["b"]],
        M,
    )  # fmt: skip
    got = pb.vmap(lambda v: pb.associative_scan(pb.multiply, v))(pb.tensor(X)).numpy()
    np.testing.assert_allclose(got, np.cumprod(X, 1))
    step = lambda s, m: (s, pb.associative_scan(pb.matmul, m))  # noqa: E731
    got = pb.compile(lambda m: pb.scan(step, 0.0, m)[1])(pb.tensor(M[None])).numpy()
    np.testing.assert_allclose(got[0], products(M))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.associative_scan(lambda a, b: a.sum(), X), ArgumentError, "must return what"),
        (lambda: pb.associative_scan(lambda a, b: (a, b), X), ArgumentError, "must return a tree"),
        (lambda: pb.associative_scan(lambda a, b: a < b, X), ArgumentError, "got bool[1,9,3]"),
        (lambda: pb.associative_scan(affine, {"a": X, "b": X[0]}), ArgumentError, "the same size"),
        (lambda: pb.associative_scan(pb.add, 1.0), AxisError, "axis 0 is out of range"),
        (lambda: pb.associative_scan(pb.add, X, axis=3), AxisError, "axis 3 is out of range"),
        (lambda: pb.associative_scan(pb.add, []), ArgumentError, "needs at least one tensor"),
        (lambda: pb.associative_scan(3, X), ArgumentError, "fn must be a function"),
    ],
)
def test_wrong_scans(call, error, words):
    with told(error, Exception, words):
        call()
