"""Concatenations of what kernels return are copied by a kernel; others are XLA's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.kernels import kernel_library
from pullback.graph.canonical import canonicalise
from pullback.transforms.lowered_form import lowered_form

pytestmark = pytest.mark.skipif(kernel_library() is None, reason="kernels were not compiled")


def array(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def joins(f: Callable, *xs: Any) -> int:
    """How often the program of a function calls the kernel."""
    b = Builder()
    b.kernels, b.neutral, b.literal = True, False, False
    graph, _ = lowered_form(canonicalise(pb.trace(f, *xs).graph), "cpu")
    return build_xla_module(graph, b).count("pullback_join")


def check(f: Callable, *arrays: np.ndarray, calls: int = 1) -> None:
    """A function calls the kernel so often, and computes what the reference engine does."""
    xs = [pb.tensor(x) for x in arrays]
    assert joins(f, *xs) == calls
    found = pb.compile(f)(*xs).numpy()
    with pb.config(engine="reference"):
        wanted = f(*xs).numpy()
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * scale)


def sorted_parts(x: Any, count: int = 3) -> list[Any]:
    """Results of a kernel."""
    return [pb.sort(x * (i + 1), axis=-1) for i in range(count)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parts_along_every_axis(axis: int, dtype: str) -> None:
    check(lambda x: pb.concat(sorted_parts(x), axis), array(8, 30, 40, dtype=dtype))


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1)])
def test_transposed_parts(order: tuple[int, ...]) -> None:
    check(lambda x: pb.concat([y.transpose(*order) for y in sorted_parts(x)], 1), array(20, 30, 40))


def test_columns_slices_and_empty_parts() -> None:
    x = array(9000, 3)
    check(lambda x: pb.concat([y[:, 1:2] for y in sorted_parts(x)], 1), x)
    check(lambda x: pb.concat([y[:0] for y in sorted_parts(x)] + sorted_parts(x)), x)


def test_gradients_of_slices_of_a_product() -> None:
    """Of queries, keys and values that are parts of one product."""

    def loss(x: Any, w: Any) -> Any:
        qkv = (x @ w).reshape(4, 64, 3, 4, 16)
        q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        mixed = pb.softmax(q @ k.swapaxes(-1, -2) / 4, axis=-1) @ v
        return (mixed.transpose(0, 2, 1, 3).reshape(4, 64, 64) * x).sum()

    arrays = array(4, 64, 64), 0.1 * array(64, 192, seed=1)
    check(pb.grad(loss, 1), *arrays)


def test_one_part_that_xla_computes() -> None:
    """Recorded programs have numbers as operands: the gradient of queries is a product by one."""

    def loss(x: Any, w: Any, root: Any) -> Any:
        qkv = (x @ w).reshape(4, 64, 3, 4, 16)
        q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        mixed = pb.softmax(q / root @ k.swapaxes(-1, -2), axis=-1) @ v
        return (mixed.transpose(0, 2, 1, 3).reshape(4, 64, 64) * x).sum()

    arrays = array(4, 64, 64), 0.1 * array(64, 192, seed=1)
    check(pb.grad(loss, 1), *arrays, np.float32(4))


def test_what_xla_computes_is_left_to_it() -> None:
    check(lambda x: pb.concat([pb.exp(x), pb.sin(x)], 0), array(100, 300), calls=0)
    check(lambda x: pb.concat([pb.sort(x), pb.sin(x)], 0), array(100, 300), calls=0)
    check(lambda x: pb.concat([pb.sort(x), x, x + 1], 0), array(100, 300), calls=0)
    check(lambda x: pb.concat(sorted_parts(x), 0), array(10, 30), calls=0)  # few elements
    c = array(100, 300) + 1j * array(100, 300, seed=1)
    xs = [pb.tensor(c.astype("complex64"))]
    assert joins(lambda x: pb.concat([x, 2 * x], 0), *xs) == 0
