"""The kernels for stacks of small matrices that are generated for GPUs, run with NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.linalg import lu_factor
from triton_ir import KernelProgram

import pullback as pb
from pullback.engines.xla import mlir
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.triton import matrix_tiles, small_matrices
from pullback.engines.xla.triton.small_matrices import KERNELS, LARGEST

KINDS = {"f32": np.float32, "f64": np.float64}
# Rows of one number a lane and of several; whole tiles of matrices, masked ones, a single matrix
CASES = [
    *itertools.product(KINDS, [1, 2, 3, 5, 8], [13]),
    *itertools.product(KINDS, [1, 4], [1, 64, 70]),
    *itertools.product(KINDS, [11, LARGEST], [3]),
]


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs walk over several tiles, and the last one over fewer than the others."""
    monkeypatch.setattr(matrix_tiles, "PROGRAMS", 3)


def random(kind: str, *shape: int) -> np.ndarray:
    seed = np.random.default_rng(shape)
    return seed.normal(size=shape).astype(KINDS[kind])


def hermitian(kind: str, count: int, n: int) -> np.ndarray:
    x = random(kind, count, n, n)
    return x @ x.swapaxes(1, 2) + np.eye(n, dtype=x.dtype)


def run(name: str, *xs: np.ndarray, **options: Any) -> tuple[np.ndarray, ...]:
    """The results of a kernel."""
    kind = next(k for k, dtype in KINDS.items() if dtype == xs[0].dtype)
    count, n, _ = xs[0].shape
    kernel = KERNELS[name](kind, count, n, *[x.shape[-1] for x in xs[1:]], **options)
    made = [np.full(xs[-1].shape, 7, xs[0].dtype)]
    if name == "lu":
        made.append(np.full((count, n), 7, np.int32))
    KernelProgram(kernel.k.module()).run(kernel.grid, [*map(np.ascontiguousarray, xs), *made])
    return tuple(made)


def close(found: np.ndarray, want: np.ndarray, scale: float = 1) -> None:
    """Equal within roundings of systems with a condition of `scale`."""
    size = np.abs(want[np.isfinite(want)]).max(initial=1)
    tolerance = 100 * scale * size * np.finfo(found.dtype).eps
    np.testing.assert_allclose(found, want, rtol=0, atol=tolerance)


def wide(*xs: np.ndarray) -> list[np.ndarray]:
    return [x.astype(np.float64) for x in xs]


@pytest.mark.parametrize(("kind", "n", "count"), CASES)
def test_cholesky(kind: str, n: int, count: int) -> None:
    x = hermitian(kind, count, n)
    (found,) = run("cholesky", np.where(np.tri(n, dtype=bool), x, np.nan))
    close(found, np.linalg.cholesky(*wide(x)), 10)
    assert (np.triu(found, 1) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_cholesky_of_other_matrices_is_nan(kind: str) -> None:
    x = hermitian(kind, 8, 4)
    want = np.linalg.cholesky(*wide(x))
    x[1, 2, 2] *= -1
    x[2] = 0
    x[3, 3, 1] = np.nan
    x[4, 3, 3] = np.nan
    x[5, 2, 0] = np.inf
    tiny = np.finfo(x.dtype).tiny
    x[6] *= tiny
    want[1:6] = np.nan
    (found,) = run("cholesky", x)
    found[6] /= np.sqrt(tiny)
    close(found, want, 10)


@pytest.mark.parametrize(("kind", "n", "count"), CASES)
def test_lu(kind: str, n: int, count: int) -> None:
    x = random(kind, count, n, n)
    for columns in (False, True):
        factors, pivots = run("lu", x, columns=columns)
        for a, f, p in zip(x, factors, pivots, strict=True):
            want, exchanges = lu_factor(a.T if columns else a)
            np.testing.assert_array_equal(p, exchanges)
            close(f.T if columns else f, want, 100)


@pytest.mark.filterwarnings("ignore:Diagonal number")
@pytest.mark.parametrize("kind", KINDS)
def test_lu_of_singular_matrices(kind: str) -> None:
    """Among equal numbers the first is the pivot, and factors below a pivot of 0 are 0."""
    x = np.zeros((4, 4, 4), KINDS[kind])
    x[1] = 1
    x[2] = np.diag([1, 0, 2, 3]) + np.eye(4, k=1)
    x[3] = [[1, -2, 3, 4], [-1, 2, 1, 1], [1, 2, 3, 4], [-1, 1, 1, 1]]
    factors, pivots = run("lu", x, columns=False)
    for a, f, p in zip(x, factors, pivots, strict=True):
        want, exchanges = lu_factor(a)
        np.testing.assert_array_equal(p, exchanges)
        close(f, want)


@pytest.mark.parametrize(("kind", "n", "count"), CASES)
def test_solve(kind: str, n: int, count: int) -> None:
    x = random(kind, count, n, n) + np.eye(n, dtype=KINDS[kind])
    condition = np.linalg.cond(*wide(x)).max()
    for k, transposed in itertools.product((1, n, 2 * n + 3), (False, True)):
        y = random(kind, count, n, k)
        (found,) = run("solve", x, y, transposed=transposed)
        a, b = wide(x.swapaxes(1, 2) if transposed else x, y)
        close(found, np.linalg.solve(a, b), condition)


@pytest.mark.parametrize(("kind", "n", "count"), CASES)
def test_inverse(kind: str, n: int, count: int) -> None:
    x = random(kind, count, n, n) + np.eye(n, dtype=KINDS[kind])
    close(*run("inverse", x), np.linalg.inv(*wide(x)), np.linalg.cond(*wide(x)).max())


@pytest.mark.parametrize("kind", KINDS)
def test_systems_without_a_solution_are_nan(kind: str) -> None:
    n, tiny = 4, np.finfo(KINDS[kind]).tiny
    x, y = random(kind, 8, n, n), random(kind, 8, n, 3)
    x += 3 * np.eye(n, dtype=x.dtype)
    want = np.linalg.solve(*wide(x, y))
    x[1], x[2, 3], x[3, :, 2] = 0, 0, 0
    x[4, 1, 1] = np.nan
    x[5, 0, 3] = np.nan
    x[6], y[6] = x[6] * (tiny / 64), y[6] * (tiny / 64)  # subnormal: they lose 6 bits
    want[1:6] = np.nan
    close(*run("solve", x, y, transposed=False), want, 1000)
    assert np.isnan(run("inverse", x)[0][1:6]).all()


@pytest.mark.parametrize(("kind", "n", "count"), CASES)
def test_triangular_solve(kind: str, n: int, count: int) -> None:
    x = random(kind, count, n, n) / n + 2 * np.eye(n, dtype=KINDS[kind])
    for lower, transposed, unit in itertools.product((False, True), repeat=3):
        inside = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
        inside = inside & ~np.eye(n, dtype=bool) if unit else inside
        a = np.where(inside, x, np.eye(n) if unit else 0).astype(np.float64)
        y = random(kind, count, n, n + 1)
        options = {"lower": lower, "transposed": transposed, "unit": unit}
        (found,) = run("triangular_solve", np.where(inside, x, np.nan), y, **options)
        want = np.linalg.solve(a.swapaxes(1, 2) if transposed else a, y.astype(np.float64))
        close(found, want, 10)


def test_triangles_with_zeros() -> None:
    x = np.array([[[0, 0], [1, 2]], [[2, 0], [1, 0]]], np.float32)
    y = np.array([[[1, 0], [3, 1]], [[2, 4], [3, 2]]], np.float32)
    (found,) = run("triangular_solve", x, y, lower=True, transposed=False, unit=False)
    want = [[[np.inf, np.nan], [-np.inf, np.nan]], [[1, 2], [np.inf, np.nan]]]
    np.testing.assert_array_equal(found, np.array(want, np.float32))


def text(f: Any, *xs: np.ndarray, kernels: bool = True) -> str:
    """The program of a function for a GPU."""
    b = Builder()
    b.platform, b.kernels, b.neutral = "cuda", kernels, False
    return build_xla_module(pb.trace(f, *map(pb.tensor, xs)).graph, b)


USES = {
    "cholesky": pb.linalg.cholesky, "lu": lambda x: pb.linalg.det(x), "inverse": pb.linalg.inv,
    "solve": lambda x: pb.linalg.solve(x, x),
    "triangular_solve": lambda x: pb.linalg.solve_triangular(x, x),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_programs_call_the_kernels(name: str) -> None:
    x = random("f64", 2, 3, 4, 4)
    program = text(USES[name], x)
    mlir.parsed_mlir(program)
    assert program.count("__gpu$xla.gpu.triton") == 1 and f'name = "{name}_4' in program
    large = random("f64", 2, LARGEST + 1, LARGEST + 1)
    for given, kernels in ((x, False), (large, True), (x.astype(np.complex64), True)):
        assert "triton" not in text(USES[name], given, kernels=kernels)


def test_gradients_call_the_kernels() -> None:
    def f(a: Any, b: Any) -> Any:
        return pb.vjp(pb.linalg.solve, a, b)[1](b)

    program = text(f, random("f32", 3, 4, 4), random("f32", 3, 4, 2))
    assert program.count("__gpu$xla.gpu.triton") == 2 and "cusolver" not in program


def test_large_stacks_have_wide_offsets() -> None:
    kernel = small_matrices.cholesky_kernel("f32", 1 << 26, 8)
    assert "arith.extsi" in kernel.k.module()


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_tiny_pivots_cancel_in_cofactors(kind: str) -> None:
    """A matrix of rank n - 1 has cofactors, but rounding decides about its last pivot."""
    for n in (3, 5, 8):
        x = random(kind, 40, n, n)
        x[:, -1] = x[:, 0] + 3 * x[:, 1]
        factors, exchanges = run("lu", x, columns=True)
        (inverse,) = run("inverse", x)
        signs = np.where(exchanges == np.arange(n), 1, -1)
        determinant = (np.diagonal(factors, axis1=1, axis2=2) * signs).prod(-1)
        found = determinant[:, None, None] * inverse.swapaxes(1, 2)
        tiny = determinant != 0  # elsewhere the inverse is NaN
        assert tiny.sum() > 20
        u, s, vh = np.linalg.svd(*wide(x))
        products = np.stack([np.delete(s, i, -1).prod(-1) for i in range(n)], -1)
        orientation = np.linalg.det(u) * np.linalg.det(vh)
        want = orientation[:, None, None] * ((u * products[:, None]) @ vh)
        scale = np.abs(want).max((1, 2), keepdims=True)
        error = (np.abs(found - want) / scale)[tiny].max((1, 2))
        assert np.median(error) < 100 * np.finfo(x.dtype).eps
