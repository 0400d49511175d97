"""Roots, logarithms, polar factors and equations with structure, against SciPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.linalg as sp

import pullback as pb
from pullback.errors import ArgumentError, ShapeError
from pullback.ops.linalg import lu_solve_inverse

la = pb.linalg
RNG = np.random.default_rng(0)
A = RNG.standard_normal((2, 4, 4)) + 4 * np.eye(4)
C = RNG.standard_normal((3, 3)) + 1j * RNG.standard_normal((3, 3))
B, Q = RNG.standard_normal((3, 3)) + 3 * np.eye(3), RNG.standard_normal((2, 4, 3))
BANDS = RNG.standard_normal((4, 5)) + np.array([[0.0], [0.0], [8.0], [0.0]])
RIGHT, COLUMN = RNG.standard_normal((5, 2)), RNG.standard_normal(5) + 6 * np.eye(5)[0]
HERMITIAN = BANDS[1:3] + 1j * BANDS[:2] * [[1.0], [0.0]]


def cases() -> list[tuple]:
    """Pairs of what the library gives and what SciPy does."""
    left, right = la.polar(Q[0], "left"), la.polar(np.conj(C).T[:, :2])
    return [
        (la.sqrtm(A), np.stack([sp.sqrtm(x) for x in A])), (la.sqrtm(C), sp.sqrtm(C)),
        (la.logm(A), np.stack([sp.logm(x) for x in A])), (la.logm(C), sp.logm(C)),
        (la.solve_sylvester(A, B, Q), np.stack([sp.solve_sylvester(*x, q) for x, q in
                                                zip(((a, B) for a in A), Q, strict=True)])),
        *zip(left, sp.polar(Q[0], "left"), strict=True),
        *zip(right, sp.polar(np.conj(C).T[:, :2]), strict=True),
        (la.solve_banded((1, 2), BANDS, RIGHT), sp.solve_banded((1, 2), BANDS, RIGHT)),
        (la.solveh_banded(HERMITIAN, RIGHT), sp.solveh_banded(HERMITIAN, RIGHT)),
        (la.solveh_banded(BANDS[2:], RIGHT[:, 0], lower=True),
         sp.solveh_banded(BANDS[2:], RIGHT[:, 0], lower=True)),
        (la.solve_toeplitz((COLUMN, RIGHT[:, 0]), RIGHT),
         sp.solve_toeplitz((COLUMN, RIGHT[:, 0]), RIGHT)),
        (la.solve_circulant(COLUMN, RIGHT), sp.solve_circulant(COLUMN, RIGHT)),
        (la.companion(COLUMN), sp.companion(COLUMN)), (la.hilbert(4), sp.hilbert(4)),
        (la.hadamard(8), sp.hadamard(8)),
    ]  # fmt: skip


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_values_agree_with_scipy(engine: str) -> None:
    with pb.config(engine=engine):
        pairs = cases()
        pb.evaluate([got for got, _ in pairs])
        for got, want in pairs:
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-12)


def test_large_equations_and_eigenvalues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths that only large matrices take."""
    monkeypatch.setattr(lu_solve_inverse, "LARGE", 60)
    x = RNG.standard_normal((70, 70))
    whole = x + x.T
    made = pb.compile(lambda a, h: (la.inv(a), la.eigvalsh(h), la.solve_sylvester(a, a, h)))
    inverse, values, y = [t.numpy() for t in made(pb.tensor(x), pb.tensor(whole))]
    np.testing.assert_allclose(inverse @ x, np.eye(70), atol=1e-10)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(whole), atol=1e-12)
    np.testing.assert_allclose(x @ y + y @ x, whole, atol=1e-8)
    bad = np.stack([whole, whole, 1j * np.tril(x, -1) - 1j * np.tril(x, -1).T])
    bad[1, 5, 3] = np.nan
    found = la.eigvalsh(bad).numpy()
    assert np.isnan(found).all(-1).tolist() == [False, True, False]
    np.testing.assert_allclose(found[2], np.linalg.eigvalsh(bad[2]), atol=1e-12)


def test_derivatives() -> None:
    """The ops are checked with all others; these functions combine them."""
    with pb.config(engine="reference"):
        square = np.eye(3) + 0.1 * B  # with singular values that are nearly equal
        pb.check_grads(lambda x: la.polar(x, "left").p, (square[:2],), 2)
        pb.check_grads(lambda x: la.polar(x).u, (np.eye(2),), 2)
        pb.check_grads(lambda ab, b: la.solve_banded((1, 2), ab, b), (BANDS, RIGHT[:, 0]), 1)
        pb.check_grads(lambda ab: la.solveh_banded(ab, RIGHT[:, 0]), (BANDS[1:3],), 1)
        pb.check_grads(la.solve_circulant, (COLUMN, RIGHT), 1)


def test_bases_of_subspaces() -> None:
    x = RNG.standard_normal((5, 2)) @ RNG.standard_normal((2, 4))
    basis, rest = la.orth(x).numpy(), la.null_space(x).numpy()
    assert (basis.shape, rest.shape) == ((5, 2), (4, 2))
    np.testing.assert_allclose(basis @ (basis.T @ x), x, atol=1e-12)
    np.testing.assert_allclose(x @ rest, 0, atol=1e-12)
    assert la.null_space(np.eye(3)).shape == (3, 0)


def test_what_has_no_value() -> None:
    """No real root: NaN, and a root for complex numbers; the others of a stack are found."""
    x = np.stack([-np.eye(2), np.diag([4.0, 9.0]), np.diag([1.0, 0.0])])
    with pb.config(engine="reference"):
        for f in (la.sqrtm, la.logm):
            found = f(x).numpy()
            assert np.isnan(found).all((1, 2)).tolist() == [True, False, True]
        negative = x[1] * (-1 + 0j)
        np.testing.assert_allclose(la.sqrtm(negative).numpy(), np.diag([2j, 3j]), atol=1e-12)
        np.testing.assert_allclose(la.logm(negative).numpy(), sp.logm(negative), atol=1e-12)
    wrong = [
        (lambda: la.sqrtm(np.ones((2, 3))), ShapeError, "sqrtm: needs square matrices"),
        (lambda: la.solve_sylvester(B, B, Q[0]), ShapeError, "needs square a and b, and c with"),
        (lambda: la.polar(B, "top"), ArgumentError, 'side must be "right" or "left"'),
        (lambda: la.solve_banded((1, 1), BANDS, RIGHT), ShapeError, "matrix with 3 rows"),
        (lambda: la.solve_banded((-1, 1), BANDS, RIGHT), ArgumentError, "must not be negative"),
        (lambda: la.solve_circulant(COLUMN, RIGHT[1:]), ShapeError, "as many rows of b"),
        (lambda: la.hadamard(6), ArgumentError, "power of 2, got 6"),
        (lambda: la.null_space(A), ShapeError, "needs one matrix"),
    ]
    for f, kind, message in wrong:
        with pytest.raises(kind, match=re.escape(message)):
            f()
