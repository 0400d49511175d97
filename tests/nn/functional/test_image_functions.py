"""Interpolation, grids, patches and padding agree with their definitions in NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from nn_cases import check_derivatives, check_dtypes, check_values, real

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

F = pb.nn.functional


def cubic(t, a=-0.75):
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0.0


def hat(t):
    return max(0.0, 1 - abs(t))


def resampled(x, sizes, kernel, reach, align=False):
    """Along each spatial dimension: a sum over the elements near a place, with a kernel."""
    for axis, m in enumerate(sizes, 1):
        n = x.shape[axis]
        matrix = np.zeros((m, n))
        for i in range(m):
            place = i * (n - 1) / (m - 1) if align else (i + 0.5) * n / m - 0.5
            place = max(place, 0) if kernel is hat else place
            low = math.floor(place)
            for j in range(low - reach + 1, low + reach + 1):
                matrix[i, min(max(j, 0), n - 1)] += kernel(place - j)
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x


def folded(c, n, padding, align):
    if padding == "zeros":
        return c
    if padding == "reflection":
        low, high = (0, n - 1) if align else (-0.5, n - 0.5)
        while not low <= c <= high:
            c = 2 * low - c if c < low else 2 * high - c
    return min(max(c, 0), n - 1)


def sampled(x, grid, kernel, reach, padding, align):
    """One place at a time; pixels outside are 0."""
    out = np.zeros((*grid.shape[:3], x.shape[-1]))
    sizes = x.shape[1:3]
    for place in np.ndindex(*grid.shape[:3]):
        given = grid[place][::-1]
        at = [
            (g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2 for g, n in zip(given, sizes)
        ]
        if reach < 2:
            at = [folded(c, n, padding, align) for c, n in zip(at, sizes)]
        starts = [math.floor(c) - reach + 1 for c in at]
        for i, j in itertools.product(*[range(s, s + 2 * reach) for s in starts]):
            y, z = (folded(float(k), n, padding, align) for k, n in zip((i, j), sizes))
            if 0 <= y < sizes[0] and 0 <= z < sizes[1]:
                weight = kernel(at[0] - i) * kernel(at[1] - j)
                out[place] += weight * x[place[0], int(y), int(z)]
    return out


def patches(x, size, dilation, padding, stride):
    full = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    reach = (size - 1) * dilation + 1
    counts = [(n - reach) // stride + 1 for n in full.shape[1:3]]
    rows = []
    for i, j in itertools.product(*map(range, counts)):
        a, b = i * stride, j * stride
        part = full[:, a : a + reach : dilation, b : b + reach : dilation]
        rows.append(part.transpose(0, 3, 1, 2).reshape(len(x), -1))
    return np.stack(rows, 1)


X, X1 = real(2, 4, 5, 3), real(2, 5, 3)
GRID = np.random.default_rng(3).uniform(-1.6, 1.6, (2, 3, 2, 2))
THETA = real(2, 2, 3)
CASES = {
    "nearest": (
        lambda x: F.interpolate(x, (6, 3)),
        lambda x: x[:, np.arange(6) * 4 // 6][:, :, np.arange(3) * 5 // 3], X,
    ),
    "nearest twice": (
        lambda x: F.interpolate(x, scale_factor=2), lambda x: x.repeat(2, 1).repeat(2, 2), X,
    ),
    "linear": (
        lambda x: F.interpolate(x, 7, mode="linear"), lambda x: resampled(x, (7,), hat, 1), X1,
    ),
    "bilinear": (
        lambda x: F.interpolate(x, (7, 3), mode="bilinear", align_corners=True, layout="NCHW"),
        lambda x: np.moveaxis(resampled(np.moveaxis(x, 1, -1), (7, 3), hat, 1, True), -1, 1),
        np.moveaxis(X, -1, 1),
    ),
    "bicubic": (
        lambda x: F.interpolate(x, (3, 8), mode="bicubic"),
        lambda x: resampled(x, (3, 8), cubic, 2), X,
    ),
    "trilinear": (
        lambda x: F.interpolate(x, 3, mode="trilinear"),
        lambda x: resampled(x, (3, 3, 3), hat, 1), real(1, 2, 2, 4, 1),
    ),
    "area": (
        lambda x: F.interpolate(x, (2, 2), mode="area"),
        lambda x: np.stack([
            np.stack([x[:, a : a + 2, b : b + 3].mean((1, 2)) for b in (0, 2)], 1) for a in (0, 2)
        ], 1), X,
    ),
    **{f"grid_sample {padding} {align}": (
        lambda x, g, p=padding, a=align: F.grid_sample(x, g, "bilinear", p, a),
        lambda x, g, p=padding, a=align: sampled(x, g, hat, 1, p, a), X, GRID,
    ) for padding, align in (("zeros", False), ("border", True), ("reflection", False))},
    "grid_sample bicubic": (
        lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", True),
        lambda x, g: sampled(x, g, cubic, 2, "reflection", True), X, GRID,
    ),
    "affine_grid": (
        lambda t: F.affine_grid(t, (2, 4, 5, 1)),
        lambda t: np.stack([[[
            t[n] @ [(2 * j + 1) / 5 - 1, (2 * i + 1) / 4 - 1, 1] for j in range(5)
        ] for i in range(4)] for n in range(2)]), THETA,
    ),
    "pixel_shuffle": (
        lambda x: F.pixel_shuffle(x, 2),
        lambda x: x.reshape(1, 2, 2, 3, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(1, 4, 4, 3),
        real(1, 2, 2, 12),
    ),
    "pixel_unshuffle": (
        lambda x: F.pixel_shuffle(F.pixel_unshuffle(x, 2) * 2, 2), lambda x: 2 * x,
        real(1, 4, 2, 3),
    ),
    "unfold": (lambda x: F.unfold(x, 2, 2, 1, 2), lambda x: patches(x, 2, 2, 1, 2), X),
    "fold": (
        lambda x: F.fold(F.unfold(x, 2), (4, 5), 2), lambda x: x * np.outer(
            [1, 2, 2, 1], [1, 2, 2, 2, 1])[:, :, None], X,
    ),
    "pad": (
        lambda x: F.pad(x, (0, 0, 1, 2), "reflect"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 0)), "reflect"), X,
    ),
}  # fmt: skip


def test_values(engine):
    few = ("nearest", "bicubic", "area", "grid_sample reflection False", "unfold", "fold")
    check_values({name: CASES[name] for name in few} if engine == "xla" else CASES)


def test_derivatives():
    check_derivatives(CASES)


def test_dtypes():
    grids = {name for name in CASES if "grid" in name}  # places are rounded, too
    check_dtypes({name: case for name, case in CASES.items() if name not in grids})
    check_dtypes({name: CASES[name] for name in grids}, 0.2)


def test_places_far_outside_and_nan():
    with pb.config(engine="reference"):
        grid = np.array([[[[np.nan, 0.0], [1e30, 0.0], [np.inf, 0.0]]]])
        found = F.grid_sample(X[:1], grid, "nearest").numpy()
        assert not found.any()


def test_nearest_places_and_whole_grids():
    with pb.config(engine="reference"):
        same = F.affine_grid(np.eye(2, 3)[None].repeat(2, 0), X.shape)
        for mode in ("nearest", "bilinear", "bicubic"):
            np.testing.assert_allclose(F.grid_sample(X, same, mode).numpy(), X, 1e-5, 1e-5)
        volume = real(1, 2, 3, 4, 2)
        theta = np.eye(3, 4)[None]
        grid = F.affine_grid(theta, volume.shape)
        np.testing.assert_allclose(F.grid_sample(volume, grid).numpy(), volume)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: F.interpolate(X), ArgumentError, "needs either size or scale_factor"),
    (lambda: F.interpolate(X, 3, mode="linear"), ArgumentError, "for 2 spatial dimensions"),
    (lambda: F.interpolate(X, 3, mode="cubic"), ArgumentError, "mode must be one of"),
    (lambda: F.interpolate(X, (1, 2, 3)), ArgumentError, "size must be"),
    (lambda: F.interpolate(X, 0), ArgumentError, "at least 1"),
    (lambda: F.grid_sample(X, GRID[:1]), ShapeError, "grid_sample: needs images"),
    (lambda: F.affine_grid(THETA, (3, 4, 5, 1)), ShapeError, "needs theta"),
    (lambda: F.pixel_shuffle(X, 2), ShapeError, "divisible by 2"),
    (lambda: F.fold(pb.ones((1, 5, 4)), (3, 3), 2), ShapeError, "needs 4 patches"),
    (lambda: F.pad(X, (1,)), ArgumentError, "pad must have a pair"),
    (lambda: F.pad(X, (3, 3), "reflect"), ArgumentError, "needs pad below"),
])  # fmt: skip
def test_mistakes_are_reported(call, error, message):
    with pb.config(engine="reference"), pytest.raises(error, match=message):
        call()
