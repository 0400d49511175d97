"""Collectives on three examples or devices, each beside what NumPy says that each of them gets."""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback.graph import dtypes

PARTS = np.random.default_rng(7).standard_normal((3, 6, 2)) * 4


def joined(f, rows, examples):
    """A collective over all examples, by NumPy, from what each of them gets."""
    return np.stack([f(rows, k) for k in range(examples)])


EXCHANGES = {
    "psum": (lambda x: pb.psum(x, "i"), lambda x, k: x.sum(0), "iufc"),
    "pmax": (lambda x: pb.pmax(x, "i"), lambda x, k: x.max(0), "biuf"),
    "pmin": (lambda x: pb.pmin(x, "i"), lambda x, k: x.min(0), "biuf"),
    "all_gather": (lambda x: pb.all_gather(x, "i", axis=1), lambda x, k: np.stack(x, 1), "biufc"),
    "all_gather, tiled": (
        lambda x: pb.all_gather(x, "i", tiled=True), lambda x, k: np.concatenate(x), "biufc",
    ),
    "reduce_scatter": (
        lambda x: pb.reduce_scatter(x, "i"), lambda x, k: x.sum(0)[2 * k : 2 * k + 2], "iufc",
    ),
    "all_to_all": (
        lambda x: pb.all_to_all(x, "i", 0, 1),
        lambda x, k: np.concatenate(x[:, 2 * k : 2 * k + 2], 1), "biufc",
    ),
    "all_to_all, in place": (
        lambda x: pb.all_to_all(x, "i", -2, 0),
        lambda x, k: np.concatenate(x[:, 2 * k : 2 * k + 2]), "biufc",
    ),
    "ppermute": (
        lambda x: pb.ppermute(x, "i", [(0, 2), (2, 1)]),
        lambda x, k: [0 * x[0], x[2], x[0]][k], "iufc",
    ),
}  # fmt: skip


def of_every_type(kinds):
    """Three examples in each element type of some kinds, whole numbers that all can hold."""
    found = [d for d in dtypes.ALL if d.kind in kinds]
    data = np.round(np.abs(PARTS))
    return [(data > 2 if d.kind == "b" else data).astype(d.numpy) for d in found]


def check_exact(name, arrays, made):
    for x, y in zip(arrays, made, strict=True):
        y = y.numpy()
        wide = x if x.dtype.kind in "bc" else x.astype(np.float64)
        want = joined(EXCHANGES[name][1], wide, 3)
        assert y.dtype == x.dtype or (x.dtype.kind in "iu" and y.dtype.itemsize == 8)
        np.testing.assert_array_equal(y.reshape(want.shape).astype(want.dtype), want, str(x.dtype))
