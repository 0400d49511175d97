"""Factorizations and solvers agree with NumPy and SciPy on both engines, and fail as documented."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, ShapeError

ENGINES = ("xla", "reference")
TOLERANCE = {"float32": 1e-3, "float64": 1e-9, "complex64": 1e-3, "complex128": 1e-9}
la, sp, np_la = pb.linalg, scipy.linalg, np.linalg


def drawn(dtype, *shape):
    rng = np.random.default_rng([len(shape), *shape])
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def operands(dtype):
    a = drawn(dtype, 2, 4, 4) + 3 * np.eye(4, dtype=dtype)
    return {
        "a": a, "one": a[0], "b": drawn(dtype, 2, 4, 3), "stack": drawn(dtype, 3, 1, 4, 2),
        "vector": drawn(dtype, 4), "positive": a @ adjoint(a), "hermitian": (a + adjoint(a)) / 2,
        "tall": drawn(dtype, 2, 5, 3), "wide": drawn(dtype, 3, 5),
    }  # fmt: skip


def of_each(f):
    """A function of SciPy, which takes one matrix, applied to a stack."""

    def call(*stacks):
        made = [f(*matrices) for matrices in zip(*stacks, strict=True)]
        return tuple(map(np.stack, zip(*made))) if isinstance(made[0], tuple) else np.stack(made)

    return call


def cases():
    """Names of operands, pullback's function, and the reference."""
    yield "one vector", la.solve, np_la.solve
    yield "a b", la.solve, np_la.solve
    yield "one stack", la.solve, np_la.solve
    yield "a stack", la.solve, np_la.solve
    yield "a", la.inv, np_la.inv
    yield "a", la.det, np_la.det
    yield "a", la.slogdet, np_la.slogdet
    yield "positive", la.cholesky, np_la.cholesky
    yield "positive", lambda x: la.cholesky(x, upper=True), of_each(sp.cholesky)
    for name in ("a", "tall", "wide"):
        yield name, la.qr, np_la.qr
        yield name, lambda x: la.qr(x, mode="complete"), lambda x: np_la.qr(x, mode="complete")
        yield name, la.svdvals, lambda x: np_la.svd(x, compute_uv=False)
        yield name, lambda x: la.svd(x, compute_uv=False), lambda x: np_la.svd(x, compute_uv=False)
    yield "tall", lambda x: la.qr(x, mode="r"), lambda x: np_la.qr(x, mode="r")
    yield "hermitian", la.eigvalsh, np_la.eigvalsh
    yield "a", lambda x: la.eigvalsh(x, UPLO="U"), lambda x: np_la.eigvalsh(x, UPLO="U")
    for name in ("one", "wide"):
        for how in ({}, {"permute_l": True}, {"p_indices": True}):
            yield name, lambda x, h=how: la.lu(x, **h), lambda x, h=how: sp.lu(x, **h)
    yield "one", la.lu_factor, sp.lu_factor
    for trans in (0, 1, 2):
        yield (
            "one vector", lambda a, b, t=trans: la.lu_solve(la.lu_factor(a), b, t),
            lambda a, b, t=trans: sp.lu_solve(sp.lu_factor(a), b, t),
        )  # fmt: skip
        for lower in (True, False):
            yield (
                "a b", lambda a, b, t=trans, w=lower: la.solve_triangular(a, b, t, w, t == 1),
                of_each(lambda a, b, t=trans, w=lower: sp.solve_triangular(a, b, t, w, t == 1)),
            )  # fmt: skip
    for lower in (True, False):
        yield (
            "positive b", lambda a, b, w=lower: la.cho_solve(la.cho_factor(a, w), b),
            of_each(lambda a, b, w=lower: sp.cho_solve(sp.cho_factor(a, w), b)),
        )  # fmt: skip


def flat(result):
    """The arrays of a result, which may be a tuple; flags are left out."""
    parts = result if isinstance(result, tuple) else (result,)
    return [p for p in parts if not isinstance(p, bool)]


# The op table compares the engines in f64 and complex128.
@pytest.mark.parametrize(
    ("engine", "dtype"),
    [
        ("xla", "float32"),
        ("xla", "complex64"),
        ("reference", "float64"),
        ("reference", "complex128"),
    ],
)
def test_values(engine, dtype):
    given, table = operands(dtype), list(cases())

    @pb.compile
    def all_results(arrays):
        return [flat(f(*[arrays[n] for n in names.split()])) for names, f, _ in table]

    with pb.config(engine=engine):
        found = all_results({k: pb.tensor(v) for k, v in given.items()})
        for (names, _, reference), parts in zip(table, found, strict=True):
            want = flat(reference(*[given[n] for n in names.split()]))
            for got, expected in zip(parts, want, strict=True):
                tolerance = TOLERANCE[dtype] * max(1.0, np.abs(expected).max())
                np.testing.assert_allclose(got.numpy(), expected, atol=tolerance, err_msg=names)
                assert got.numpy().dtype.kind == np.asarray(expected).dtype.kind


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_factors_that_are_not_unique_multiply_to_the_matrix(dtype):
    given, tolerance = operands(dtype), TOLERANCE[dtype]

    @pb.compile
    def all_results(a, hermitian, tall):
        short = la.svd(tall, full_matrices=False)
        return la.svd(a), la.svd(tall), short, la.eigh(hermitian), la.eig(a)

    found = all_results(*[pb.tensor(given[n]) for n in ("a", "hermitian", "tall")])
    *svds, eigh, eig = [[y.numpy() for y in result] for result in found]
    for (u, s, vh), x in zip(svds, (given["a"], given["tall"], given["tall"]), strict=True):
        k = s.shape[-1]
        np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh, x, atol=tolerance)
        unit = np.broadcast_to(np.eye(u.shape[-1]), (2, *u.shape[-1:] * 2))
        np.testing.assert_allclose(adjoint(u) @ u, unit, atol=tolerance)
    assert svds[1][0].shape == (2, 5, 5) and svds[2][0].shape == (2, 5, 3)
    for (w, v), x in ((eigh, given["hermitian"]), (eig, given["a"])):
        np.testing.assert_allclose(x @ v, v * w[..., None, :], atol=10 * tolerance)
        np.testing.assert_allclose(np.abs(v * v.conj()).sum(-2), np.ones(w.shape), atol=tolerance)
    assert eigh[0].dtype.kind == "f" and eig[0].dtype.kind == "c"


@pytest.mark.parametrize("engine", ENGINES)
def test_failures_give_nan(engine):
    """Only the matrices on which a computation fails; nothing raises, because values are lazy."""
    good = np.array([[2.0, 1.0], [1.0, 2.0]])
    stack = {
        "singular": np.stack([good, np.array([[1.0, 2.0], [2.0, 4.0]])]),
        "indefinite": np.stack([good, -good]),
        "nan": np.stack([good, np.array([[np.nan, 1.0], [1.0, 2.0]])]),
        "infinite": np.stack([good, np.array([[np.inf, 1.0], [1.0, 2.0]])]),
    }

    @pb.compile
    def all_results(x):
        made = [la.inv(x["singular"]), la.solve(x["singular"], x["singular"])]
        made.append(la.cholesky(x["indefinite"]))
        for name in ("nan", "infinite"):
            for f in (la.svd, la.svdvals, la.eigh, la.eigvalsh, la.eig, la.eigvals):
                made += flat(f(x[name]))
        return made, la.slogdet(x["singular"]), la.det(x["singular"])

    with pb.config(engine=engine):
        results, (sign, size), det = all_results({k: pb.tensor(v) for k, v in stack.items()})
        for y in results:
            assert np.isfinite(y.numpy()[0]).all() and np.isnan(y.numpy()[1]).all()
        assert sign.tolist() == [1.0, 0.0] and size.numpy()[1] == -np.inf
        np.testing.assert_allclose(det.numpy(), [3.0, 0.0])


@pytest.mark.parametrize("engine", ENGINES)
def test_only_one_triangle_is_read(engine):
    whole = operands("complex128")["positive"]
    with pb.config(engine=engine):
        for upper, letter in ((False, "L"), (True, "U")):
            half = np.where(np.tri(4).T if upper else np.tri(4), whole, np.nan)
            np.testing.assert_allclose(
                la.eigh(half, UPLO=letter).eigenvalues.numpy(), np_la.eigvalsh(whole)
            )
            factor = la.cholesky(half, upper=upper).numpy()
            product = adjoint(factor) @ factor if upper else factor @ adjoint(factor)
            np.testing.assert_allclose(product, whole, atol=1e-9)


def test_empty_matrices_and_stacks():
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        x = np.zeros(shape)
        for name in ("inv", "cholesky", "det", "eigvalsh"):
            got, want = getattr(la, name)(x).numpy(), getattr(np_la, name)(x)
            np.testing.assert_array_equal(got, want, strict=True)
    for shape in ((3, 0), (0, 2)):
        for y, w in zip(la.svd(np.zeros(shape)), np_la.svd(np.zeros(shape)), strict=True):
            np.testing.assert_array_equal(y.numpy(), w, strict=True)


def test_integers_become_the_default_float():
    assert la.inv([[2, 0], [0, 4]]).numpy().tolist() == [[0.5, 0.0], [0.0, 0.25]]
    assert la.solve([[2, 0], [0, 4]], [2, 4]).dtype == pb.float32
    with pb.default_dtype("float64"):
        assert la.eigh([[2, 0], [0, 4]]).eigenvectors.dtype == pb.float64


MISTAKES = {
    "half": (lambda x: la.inv(x.astype("float16")), DTypeError, "linalg.inv: .*f16"),
    "vector": (lambda x: la.cholesky(x[0]), ShapeError, "linalg.cholesky: .*rank of 2"),
    "rectangular": (lambda x: la.det(x[:1]), ShapeError, r"linalg.det: .*square.*f64\[1,2\]"),
    "rows": (lambda x: la.solve(x, np.ones((3, 1))), ShapeError, "linalg.solve: .*as many rows"),
    "stacks": (
        lambda x: la.solve(pb.ones((3, 2, 2)), pb.ones((2, 2, 1))), ShapeError, "linalg.solve: lead"
    ),
    "mode": (lambda x: la.qr(x, mode="raw"), ArgumentError, 'linalg.qr: mode must be "reduced"'),
    "uplo": (lambda x: la.eigh(x, UPLO="X"), ArgumentError, 'linalg.eigh: UPLO must be "L"'),
    "trans": (
        lambda x: la.solve_triangular(x, x, trans=3), ArgumentError, "solve_triangular: trans must"
    ),
    "flag": (lambda x: la.svd(x, full_matrices="no"), ArgumentError, "linalg.svd: full_matrices"),
    "pair": (lambda x: la.cho_solve(x, x), ArgumentError, "linalg.cho_solve: .*pair"),
    "pivots": (lambda x: la.lu_solve((x, x), x), ArgumentError, "linalg.lu_solve: pivots"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told(name):
    call, kind, message = MISTAKES[name]
    with pytest.raises(kind, match=message):
        call(pb.tensor(np.eye(2)))
