"""Sets, orders, interpolation, differences of samples and polynomials, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import told
from numpy_cases import Case, case, check_cases, check_derivatives, check_transforms

import pullback as pb
from pullback.errors import ArgumentError, HostReadError, ShapeError

RNG = np.random.default_rng(11)
A, V = RNG.normal(size=(3, 4)), RNG.normal(size=7)
I = RNG.integers(0, 4, (3, 5))  # noqa: E741
X, F = np.sort(RNG.normal(size=6)), RNG.normal(size=6)
Z = np.array([1 + 2j, 1 - 1j, 0.5, 1 + 2j, -3j])
N = np.array([2.0, np.nan, -0.0, 1.0, 0.0, np.nan, 2.0])
AT = np.concatenate([X, X[:-1] + np.diff(X) / 3, [X[0] - 1, X[-1] + 1, np.nan]])
MANY = RNG.integers(0, 40, 60)

SETS = [
    *[case("unique", x, **k) for x in (I, N, V)
      for k in ({}, {"return_index": True}, {"return_inverse": True}, {"return_counts": True},
                {"return_index": True, "return_inverse": True, "return_counts": True})],
    case("unique", I % 2, axis=0), case("unique", N, equal_nan=False), case("unique", Z),
    case("unique", I % 2, axis=1, return_index=True, return_counts=True),
    case("isin", I, [1, 3]), case("isin", I, []), case("isin", I, 2, invert=True),
    case("isin", N, [0.0, np.nan, 2.0]), case("isin", Z, [1 + 2j]), case("isin", 3, I),
    case("isin", I, MANY + 2), case("isin", N, np.linspace(-1, 1, 41)), case("isin", V, I),
    *[case(n, I, [1, 3, 9, 3]) for n in ("union1d", "intersect1d", "setdiff1d", "setxor1d")],
    *[case(n, V, N[3:]) for n in ("union1d", "intersect1d", "setdiff1d", "setxor1d")],
    *[case(n, I, [1.5, 2.0]) for n in ("union1d", "intersect1d", "setdiff1d", "setxor1d")],
    case("intersect1d", I, [1, 3, 9], return_indices=True),
    case("setdiff1d", [5, 1, 3], [1], assume_unique=True), case("setdiff1d", V[:0], V),
]  # fmt: skip


def sorted_part(x: np.ndarray, kth: Any, axis: int | None = -1) -> np.ndarray:
    """A full sort is one of the partitions."""
    return np.sort(x, axis)


ORDERS = [
    case("partition", A, 1, like=sorted_part), case("partition", V, [1, 3], like=sorted_part),
    case("partition", A, 2, axis=0, like=sorted_part), case("partition", A, -5, axis=None,
         like=sorted_part),
    case("argpartition", V, 2, like=lambda x, k: np.argsort(x)),
    case("lexsort", (I[0], I[1])), case("lexsort", (V,)), case("lexsort", I),
    case("lexsort", [A, (A > 0) * 1], axis=0), case("lexsort", (Z.real, Z.imag)),
    case("sort_complex", Z), case("sort_complex", V), case("sort_complex", I[0]),
    case("sort_complex", np.array([3, 1], np.int8)),
]  # fmt: skip

INTERPOLATION = [
    case("interp", AT, X, F), case("interp", AT, X, F, left=-5.0, right=7.0),
    case("interp", AT, X, F + 1j * X), case("interp", 0.3, X, F), case("interp", A, X, F),
    case("interp", AT[:-1], X, F, period=2.5), case("interp", [0.0, 1.0], [0.5], [3.0]),
    case("interp", [0, 2, 5], [1, 3, 4], [10, 20, 40]), case("interp", AT[:0], X, F),
    case("interp", [1.0, 1.5], [0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0]),
    case("gradient", V), case("gradient", A), case("gradient", A, axis=1),
    case("gradient", A, 2.0), case("gradient", A, 0.5, 2.0), case("gradient", V, edge_order=2),
    case("gradient", V, np.cumsum(np.abs(V))), case("gradient", I[0] ** 2),
    case("gradient", V, np.cumsum(np.abs(V)), edge_order=2), case("gradient", V[:2]),
    case("gradient", A, [1.0, 1.5, 4.0], 2.0), case("gradient", A, axis=(1, 0)),
    case("gradient", Z[:4]), case("gradient", A, 2.0, axis=-1, edge_order=2),
    case("ediff1d", V), case("ediff1d", I), case("ediff1d", V, to_begin=1.0, to_end=[2.0, 3.0]),
    case("ediff1d", V[:0]), case("ediff1d", I[0], to_end=-9),
]  # fmt: skip

POLYNOMIALS = [
    *[case(n, X, F[:3]) for n in ("polyadd", "polysub", "polymul")], case("polyadd", 2.0, [1, 2]),
    *[case(n, [1, 2], [3, 4, 5]) for n in ("polyadd", "polysub", "polymul")],
    case("polydiv", X, F[:3]), case("polydiv", F[:2], X), case("polydiv", [3, 5, 2], [2]),
    *[case("polyder", X, m) for m in (0, 1, 3, 9)], case("polyder", [3, 2, 1]),
    *[case("polyint", X, m) for m in (0, 1, 3)], case("polyint", X, 2, [1.0, 2.0]),
    case("polyint", X, 2, 3.0), case("poly", X), case("poly", A[:, :3]),
    case("matvec", np.stack([A, A + 1]), X[:4]), case("vecmat", Z[:3], A),
]  # fmt: skip


@pytest.mark.parametrize(
    "cases", [SETS, ORDERS, INTERPOLATION, POLYNOMIALS],
    ids=["sets", "orders", "interpolation", "polynomials"],
)  # fmt: skip
def test_values_are_those_of_numpy(cases: list[Case]) -> None:
    check_cases(cases)


def test_roots() -> None:
    for p in ([1.0, -3.0, 2.0], [0.0, 2.0, 0.0, 8.0, 0.0, 0.0], [3.0], [0.0, 0.0], [1.0, 2.0], F):
        with pb.config(engine="reference"):
            for found in (pb.roots(np.array(p)), pb.roots(p)):
                want = np.sort_complex(np.roots(p))
                np.testing.assert_allclose(pb.sort_complex(found).numpy(), want, atol=1e-5)
    np.testing.assert_allclose(np.sort(pb.roots(F).numpy()), np.sort(np.roots(F)))
    assert pb.compile(lambda p: pb.roots(p, strip_zeros=False))(F).shape == (5,)


def test_derivatives() -> None:
    inside = X[:-1] + np.diff(X) * 0.4
    check_derivatives([
        (lambda x, xp, fp: pb.interp(x, xp, fp) ** 2, (inside, X, F)),
        (lambda x, xp, fp: pb.interp(x, xp, fp, period=3.0), (inside, X, F)),
        (lambda f: pb.gradient(f * f), (A,)), (lambda f: pb.gradient(f**2, edge_order=2), (V,)),
        (lambda f, x: pb.gradient(f, x), (F, X)), (lambda x: pb.ediff1d(x, x[0]) ** 2, (V,)),
        (lambda x: pb.partition(x, 2) ** 2, (V,)), (lambda x: pb.union1d(x, F) ** 2, (V,)),
        (lambda x: pb.unique(x, axis=0) ** 2, (A,)), (lambda x: pb.setdiff1d(x, F) ** 2, (V,)),
        (lambda x: pb.setxor1d(x, F) ** 2, (V,)),
        (lambda p, q: pb.polymul(p, q) + pb.polyadd(p, q)[0], (X, F[:3])),
        (lambda p, q: pb.polydiv(p, q), (X, F[:3])), (lambda x: pb.poly(x), (X[:4],)),
        (lambda p: pb.polyint(pb.polyder(p) ** 2, 2), (X,)), (pb.matvec, (A, X[:4])),
        (lambda p: pb.sort_complex(pb.roots(p)).real, ([1.0, -6.0, 11.0, -6.0],)),
    ])  # fmt: skip


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_derivatives_at_points_and_ties(engine: str) -> None:
    with pb.config(engine=engine):
        slope = pb.grad(lambda x: pb.interp(x, [0.0, 1.0, 2.0], [0.0, 10.0, 40.0]))
        found = [slope(pb.tensor(v)).item() for v in (-1.0, 0.0, 1.0, 2.0, 3.0)]
        assert found == [0.0, 10.0, 30.0, 30.0, 0.0]  # to the right of a point, 0 outside
        steps = pb.grad(lambda f: pb.interp([0.5], [0.0, 1.0], f, right=9.0)[0])
        assert steps(pb.tensor([1.0, 3.0])).tolist() == [0.5, 0.5]
        first = pb.grad(lambda x: pb.unique(x).sum())(pb.tensor([2.0, 1.0, 2.0]))
        assert first.tolist() == [1.0, 1.0, 0.0]  # to the first occurrence
        common = pb.grad(lambda x: (pb.intersect1d(x, [2.0, 3.0]) ** 2).sum())
        assert common(pb.tensor([3.0, 1.0, 2.0])).tolist() == [6.0, 0.0, 4.0]


def test_they_run_inside_transforms() -> None:
    def f(x: Any) -> tuple:
        return (
            pb.interp(x, X, F), pb.gradient(x), pb.isin(x, [x[0], 3.0]), pb.lexsort((x, x > 0)),
            pb.partition(x, 1), pb.ediff1d(x), pb.isin(pb.argsort(x), MANY % 3),
        )  # fmt: skip

    check_transforms(f, A)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.unique(V, axis=2), ShapeError, "unique: axis 2 is out of range"),
        (lambda: pb.compile(pb.unique)(V), HostReadError, "unique: "),
        (lambda: pb.compile(pb.union1d)(V, V), HostReadError, "union1d: "),
        (lambda: pb.isin(V, V, kind="hash"), ArgumentError, "isin: kind must be"),
        (lambda: pb.partition(V, 7), ArgumentError, "partition: kth must be at least -7 and less"),
        (lambda: pb.lexsort([]), ShapeError, "lexsort: needs keys of the same shape"),
        (lambda: pb.lexsort((V, A)), ShapeError, "lexsort: needs keys of the same shape"),
        (lambda: pb.interp(V, X, V), ShapeError, "interp: xp and fp must be vectors of the same"),
        (lambda: pb.interp(V, X, F, period=0), ArgumentError, "interp: period must not be 0"),
        (lambda: pb.gradient(V[:1]), ShapeError, "gradient: axis 0 needs at least 2 elements"),
        (lambda: pb.gradient(A, 1, 2, 3), ArgumentError, "gradient: needs no spacing, one, or"),
        (lambda: pb.gradient(V, X), ShapeError, "gradient: a spacing must be a number or 7"),
        (lambda: pb.polyadd(A, V), ShapeError, "polyadd: needs vectors of coefficients"),
        (lambda: pb.polyint(V, 2, [1.0, 2.0, 3.0]), ShapeError, "polyint: k must be 2 constants"),
        (lambda: pb.poly(A), ShapeError, "poly: needs a vector of zeros or a square matrix"),
        (lambda: pb.compile(pb.roots)(V), HostReadError, "roots: "),
        (lambda: pb.matvec(V, V), ShapeError, "matvec: needs a matrix and a vector"),
        (lambda: pb.gradient(V, edge_order=3), ArgumentError, "gradient: edge_order must be 1"),
    ],
)  # fmt: skip
def test_mistakes_name_the_function(call: Any, error: type, words: str) -> None:
    with told(error, Exception, words):
        call()
