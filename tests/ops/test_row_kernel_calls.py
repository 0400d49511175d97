"""Which rows are given to kernels, and which are left to XLA's loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.kernels import kernel_library
from pullback.graph.canonical import canonicalise
from pullback.nn import functional as F
from pullback.transforms.lowered_form import lowered_form

pytestmark = [
    pytest.mark.skipif(kernel_library() is None, reason="kernels were not compiled"),
    pytest.mark.usefixtures("on_cpu"),
]

MANY = 20_000  # elements of an array, at least


def kernels_of(f: Callable, *xs: Any) -> int:
    """How many kernels the program of a function calls."""
    b = Builder()
    b.kernels, b.neutral, b.literal = True, False, False
    b.platform = "cpu"
    graph, _ = lowered_form(canonicalise(pb.trace(f, *xs).graph), "cpu")
    return build_xla_module(graph, b).count("pullback_")


def rows(n: int, dtype: type, elements: int = MANY) -> np.ndarray:
    count = -(-elements // n)
    return np.random.default_rng(n).normal(size=(count, n)).astype(dtype)


def full_vector(dtype: type) -> int:
    library = kernel_library()
    assert library is not None
    return library.vector_bytes // np.dtype(dtype).itemsize


def softmax(x: Any) -> Any:
    return pb.softmax(x, axis=-1)


def layer_norm(x: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:])


@pytest.mark.parametrize("f", [softmax, layer_norm, lambda x: pb.log_softmax(x, axis=-1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_rows_that_fill_no_vector_are_left_to_xla(f, dtype):
    shortest = min(full_vector(dtype), 9)
    for n in range(2, shortest):
        assert kernels_of(f, rows(n, dtype)) == 0
    assert kernels_of(f, rows(shortest, dtype)) == 1
    assert kernels_of(f, rows(2, dtype, elements=100)) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 8])
def test_short_rows_have_the_values_and_gradients_of_loops(n, dtype):
    x, labels = rows(n, dtype), np.arange(-(-MANY // n)) % n
    x += 3 * np.arange(n)  # rows of nearly equal numbers have norms without digits
    x[1], x[2, 0] = np.inf, np.nan

    def f(x, labels):
        y = pb.softmax(x, axis=-1) + layer_norm(x)
        return pb.sum(y * y) + F.cross_entropy(x, labels, reduction="sum")

    made = {}
    for kernels in (True, False):
        with pb.config(kernels=kernels):
            made[kernels] = pb.compile(pb.grad(f))(pb.tensor(x), pb.tensor(labels)).numpy()
    assert np.isfinite(made[True][3:]).all()
    rounding = 1e-4 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(made[True], made[False], rtol=rounding, atol=rounding)
