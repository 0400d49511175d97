"""Kernels for matrices compute what XLA's calls of LAPACK do, at sizes that take other paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.kernels import kernel_library
from pullback.ops.linalg.lu_solve_inverse import Solve
from pullback.ops.linalg.triangular_solve import TriangularSolve

pytestmark = [
    pytest.mark.usefixtures("on_cpu"),
    pytest.mark.skipif(kernel_library() is None, reason="the kernels were not compiled"),
]
la = pb.linalg
# Both sides of the sizes at which copies, threads and LAPACK's blocks change
STACKS = ((1, 1), (3, 33, 33), (70, 70), (2, 150, 5, 5))
TOLERANCE = {"float32": 2e-4, "float64": 1e-11}


def drawn(dtype, *shape):
    return np.random.default_rng([len(shape), *shape]).standard_normal(shape).astype(dtype)


def well_conditioned(dtype, *shape):
    n = shape[-1]
    return (drawn(dtype, *shape) / n**0.5 + 4 * np.eye(n)).astype(dtype)


def symmetric(dtype, *shape):
    x = drawn(dtype, *shape)
    return x + np.swapaxes(x, -1, -2)


def times_adjoint(x):
    return x @ np.swapaxes(x, -1, -2)


def rebuilt_by_eigh(x):
    values, vectors = la.eigh(x)
    return values, (vectors * values[..., None, :]) @ pb.matrix_transpose(vectors)


def rebuilt_by_svd(x, full):
    u, s, vh = la.svd(x, full_matrices=full)
    least = s.shape[-1]
    orthonormal = pb.matrix_transpose(u) @ u, vh @ pb.matrix_transpose(vh)
    return s, (u[..., :least] * s[..., None, :]) @ vh[..., :least, :], *orthonormal


def both_ways(f, *arrays):
    """The results with kernels and without."""
    found = []
    for kernels in (True, False):
        with pb.config(kernels=kernels):
            made = pb.compile(lambda *xs: f(*xs))(*[pb.tensor(a) for a in arrays])
            found.append([y.numpy() for y in (made if isinstance(made, tuple) else (made,))])
    return found


def check(f, *arrays):
    got, want = both_ways(f, *arrays)
    tolerance = TOLERANCE[arrays[0].dtype.name]
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype
        scale = abs(y).max(initial=1, where=np.isfinite(y))
        np.testing.assert_allclose(x, y, tolerance, tolerance * scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", STACKS, ids=str)
def test_kernels_agree_with_the_calls_of_lapack(shape, dtype):
    def f(a, b, positive, s):
        solved = la.inv(a), la.solve(a, b), la.solve(a, b[..., :1]), *la.lu_factor(a)
        spectra = *rebuilt_by_eigh(s), la.eigvalsh(s), la.svdvals(s)
        return *solved, la.det(a), *la.slogdet(a), la.cholesky(positive), *spectra

    a = well_conditioned(dtype, *shape)
    check(f, a, drawn(dtype, *shape[:-1], 3), times_adjoint(a), symmetric(dtype, *shape))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(70, 9), (9, 70), (50, 3, 5), (1, 4)], ids=str)
def test_matrices_that_are_not_square(shape, dtype):
    def f(x):
        factors = *la.qr(x), *la.qr(x, mode="complete"), *la.lu_factor(x)
        return *factors, la.svdvals(x), *rebuilt_by_svd(x, False), *rebuilt_by_svd(x, True)

    check(f, drawn(dtype, *shape))


@pytest.mark.parametrize("trans", [0, 1])
def test_systems_with_the_transpose(trans):
    a, b = well_conditioned("float64", 2, 40, 40), drawn("float64", 2, 40, 50)
    solve = la.solve if not trans else (lambda a, b: la.solve(pb.matrix_transpose(a), b))
    check(pb.grad(lambda a, b: (solve(a, b) ** 2).sum(), argnums=(0, 1)), a, b)


@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_small_systems_exchange_rows(trans, dtype):
    """Up to 24 rows are solved without LAPACK."""
    for n, k in itertools.product((1, 2, 3, 8, 24, 25), (1, 2, 9)):
        a, b = drawn(dtype, 4, n, n), drawn(dtype, 4, n, k)
        x = pb.apply(Solve(trans), pb.tensor(a), pb.tensor(b)).numpy()
        rest = (a if trans == "N" else np.swapaxes(a, -1, -2)).astype("float64") @ x - b
        bound = n * np.abs(a).max() * np.abs(x).max() * np.finfo(dtype).eps
        assert np.abs(rest).max() <= bound


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_triangular_systems_with_few_and_many_right_hand_sides(dtype):
    a, b = well_conditioned(dtype, 2, 40, 40), drawn(dtype, 2, 40, 30)

    def f(a, b):
        flags = itertools.product((False, True), ("N", "T"), (False, True))
        ops = [TriangularSolve(*options) for options in flags]
        return tuple([pb.apply(op, a, b[..., :k]) for op in ops for k in (1, 2, 30)])

    check(f, a, b)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_leaves_the_others_alone(value):
    x = times_adjoint(well_conditioned("float64", 4, 6, 6))
    x[1, 3, 2] = x[1, 2, 3] = value
    check(rebuilt_by_eigh, x)
    check(lambda x: (la.eigvalsh(x), la.svdvals(x), *la.svd(x)), x)
    check(lambda x: (la.inv(x), la.det(x)), x)


def test_only_the_lower_triangle_is_read():
    x = symmetric("float64", 9, 9) + 20 * np.eye(9)
    spoilt = np.where(np.tri(9) > 0, x, np.nan)
    for f in (la.cholesky, la.eigvalsh, lambda x: la.eigh(x)[0]):
        (got,), _ = both_ways(lambda x, f=f: f(x), spoilt)
        (want,), _ = both_ways(lambda x, f=f: f(x), x)
        np.testing.assert_allclose(got, want, 1e-12)


def test_matrices_without_a_result_give_nan():
    singular, indefinite = np.ones((2, 3, 3)), -np.eye(40)
    b = np.ones((2, 3, 2))
    check(lambda x, b: (la.inv(x), la.solve(x, b), la.det(x)), singular, b)
    check(la.cholesky, indefinite)
    assert np.isnan(both_ways(la.cholesky, indefinite)[0][0]).all()


def test_empty_stacks():
    for shape in ((0, 3, 3), (2, 0, 0)):
        x = np.zeros(shape)
        check(lambda x: (la.inv(x), la.cholesky(x), *la.eigh(x), *la.svd(x), *la.qr(x)), x)
