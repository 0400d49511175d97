"""Matrices that a loop multiplies with in each iteration are packed once, before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.kernels import kernel_library
from pullback.graph.canonical import canonicalise

pytestmark = [
    pytest.mark.skipif(kernel_library() is None, reason="kernels were not compiled"),
    pytest.mark.usefixtures("on_cpu"),
]

PACK = "pullback_pack_product"


def drawn(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(0)
    return [pb.tensor(rng.normal(size=s), dtype=dtype) for s in shapes]


def text_of(f: Any, *xs: Any) -> str:
    b = Builder()
    b.kernels, b.neutral, b.literal = True, False, False
    return build_xla_module(canonicalise(pb.trace(f, *xs).graph), b)


def products(xs: Any, w: Any, b: Any) -> Any:
    return pb.scan(lambda _, x: (x[0, 0], x @ w + b), xs[0, 0, 0], xs)[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [16, 32, 100, 300])
@pytest.mark.parametrize("columns", [48, 53, 600])
def test_bits_are_those_of_products_that_pack_for_themselves(
    rows: int, columns: int, dtype: str
) -> None:
    def looped(xs: Any, w: Any, b: Any) -> Any:
        return products(xs, w.mT, b)

    def one_by_one(xs: Any, w: Any, b: Any) -> Any:
        return pb.stack([xs[i] @ w.mT + b for i in range(3)])

    xs, w, b = drawn((3, rows, 500), (columns, 500), (columns,), dtype=dtype)
    text = text_of(looped, xs, w, b)
    assert text.count(PACK) == 1 and text.index(PACK) < text.index("stablehlo.while")
    found = pb.compile(looped)(xs, w, b).numpy()
    assert found.tobytes() == pb.compile(one_by_one)(xs, w, b).numpy().tobytes()
    np.testing.assert_allclose(found, xs.numpy() @ w.numpy().T + b.numpy(), rtol=1e-3, atol=1e-3)


def test_slices_of_a_matrix_and_the_same_matrix_twice() -> None:
    def f(xs: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            y = x @ w[:, 8:40]
            return pb.tanh(h @ w[:, 8:40] + y), y @ w[:32]

        return pb.scan(step, xs[0], xs)

    xs, w = drawn((4, 40, 32), (32, 48))
    text = text_of(lambda xs, w: f(xs, w), xs, w)
    assert text.count(PACK) == 2 and text.count('"pullback_product"') == 3
    found = pb.tree.leaves(pb.compile(f)(xs, w))
    with pb.config(engine="reference"):
        wanted = pb.tree.leaves(f(xs, w))
    for y, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y.numpy(), want.numpy(), rtol=1e-4, atol=1e-3)


def test_infinities_and_nan() -> None:
    xs, w, b = drawn((3, 32, 64), (64, 80), (80,))
    values = xs.numpy().copy()
    values[1, 3, 5], values[2, 7, 8] = np.nan, np.inf
    found = pb.compile(products)(pb.tensor(values), w, b).numpy()
    with np.errstate(invalid="ignore"):
        wanted = values @ w.numpy() + b.numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_matrices_that_change_are_not_packed() -> None:
    def f(w: Any, xs: Any) -> Any:
        return pb.scan(lambda w, x: (w * 0.5, x @ w), w, xs)

    w, xs = drawn((64, 80), (3, 32, 64))
    text = text_of(f, w, xs)
    assert "pullback_product" in text and PACK not in text


def test_large_matrices_and_many_terms_are_not_packed() -> None:
    for shapes in (((3, 32, 1500), (1500, 1000), (1000,)), ((3, 32, 3000), (3000, 48), (48,))):
        text = text_of(products, *drawn(*shapes))
        assert "pullback_product" in text and PACK not in text


def test_loops_in_loops_pack_before_the_inner_one() -> None:
    def f(xs: Any, w: Any, b: Any) -> Any:
        return pb.scan(lambda c, block: (c, products(block, w, b)), xs[0, 0, 0, 0], xs)[1]

    xs, w, b = drawn((2, 3, 32, 64), (64, 80), (80,))
    text = text_of(f, xs, w, b)
    assert text.count(PACK) == 1
    assert text.index("stablehlo.while") < text.index(PACK) < text.rindex("stablehlo.while")
    found = pb.compile(f)(xs, w, b).numpy()
    np.testing.assert_allclose(found, xs.numpy() @ w.numpy() + b.numpy(), rtol=1e-4, atol=1e-4)
