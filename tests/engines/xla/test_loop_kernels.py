"""Elementwise work of loops as calls of one kernel, which reads and writes rows of stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.kernels import kernel_library
from pullback.graph.canonical import canonicalise
from pullback.transforms.lowered_form import lowered_form

pytestmark = [
    pytest.mark.skipif(kernel_library() is None, reason="kernels were not compiled"),
    pytest.mark.usefixtures("on_cpu"),
]

CALL = "pullback_vector_program"
Arrays = list[np.ndarray]


def drawn(*shapes: tuple[int, ...], dtype: str = "float32") -> Arrays:
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(dtype) for s in shapes]


def text_of(f: Any, *xs: Any) -> str:
    b = Builder()
    b.kernels, b.neutral, b.literal = True, False, False
    graph, _ = lowered_form(canonicalise(pb.trace(f, *map(pb.tensor, xs)).graph), "cpu")
    return build_xla_module(graph, b)


def check(f: Any, xs: Arrays, tolerance: float = 2e-6) -> None:
    """The compiled program gives what NumPy gives, and what it gives without kernels."""
    tensors = [pb.tensor(x) for x in xs]
    found = [y.numpy() for y in pb.tree.leaves(pb.compile(f)(*tensors))]
    with pb.config(kernels=False):
        plain = [y.numpy() for y in pb.tree.leaves(pb.compile(f)(*tensors))]
    with pb.config(engine="reference"):
        wanted = [y.numpy() for y in pb.tree.leaves(f(*tensors))]
    for others in (plain, wanted):
        for y, other in zip(found, others, strict=True):
            scale = max(1.0, np.abs(other[np.isfinite(other)]).max(initial=0))
            np.testing.assert_allclose(y, other, rtol=tolerance, atol=tolerance * scale)


def gates(w: Any, xs: Any, **options: Any) -> Any:
    """A recurrence whose gradient joins those of slices."""
    n = w.shape[0]

    def cell(h: Any, x: Any) -> Any:
        z = h @ w + x
        h = pb.sigmoid(z[..., :n]) * h + pb.tanh(z[..., n:])
        return h, h

    _, hs = pb.scan(cell, pb.zeros((*xs.shape[1:-1], n), dtype=xs.dtype), xs, **options)
    return (hs * hs).mean()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(32, 64), (40, 37), (600, 16), (3, 16, 24), (2, 1100)])
def test_rows_of_any_shape(shape: tuple[int, ...], dtype: str) -> None:
    n = shape[-1]
    w, xs = drawn((n, 2 * n), (3, *shape[:-1], 2 * n), dtype=dtype)
    arrays = [w / n, xs]
    assert CALL in text_of(pb.grad(gates, (0, 1)), *arrays)
    check(pb.grad(gates, (0, 1)), arrays, 2e-6 if dtype == "float32" else 1e-13)


def test_one_call_between_two_products() -> None:
    """Nothing else is left of rows, slices and their gradients, but a row that a product adds."""
    w, xs = drawn((64, 128), (5, 32, 128))
    text = text_of(pb.grad(gates), w, xs)
    assert text.count(CALL) == 2  # one forward, one backward
    assert text.count("pullback_read_rows") == 1
    for name in ("pullback_write_rows", "stablehlo.pad", "stablehlo.tanh"):
        assert name not in text


def test_loops_in_reverse() -> None:
    arrays = drawn((32, 64), (5, 32, 64))
    check(pb.grad(lambda *xs: gates(*xs, reverse=True), (0, 1)), [arrays[0] / 32, arrays[1]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_step_with_special_values(dtype: str) -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 87.5, -87.5, 1e30]
    x, y = (a.astype(dtype).reshape(3, 24, 48) for a in np.meshgrid(special * 4, special * 6))
    x, y = (np.broadcast_to(a.reshape(-1)[: 24 * 48].reshape(24, 48), (3, 24, 48)) for a in (x, y))

    def f(x: Any, y: Any) -> Any:
        def step(_: Any, row: Any) -> Any:
            a, b = row
            pairs = a + b, a - b, a * b, pb.maximum(a, b), pb.minimum(a, b)
            return a, (*pairs, -a, pb.exp(a), pb.sigmoid(a), pb.tanh(a))

        return pb.scan(step, x[0], (x, y))[1]

    assert CALL in text_of(f, x, y)
    with np.errstate(all="ignore"):
        check(f, [x, y], 1e-6 if dtype == "float32" else 1e-14)


def test_states_that_change_places() -> None:
    """A state takes the memory of the earlier one only where nothing else is read from there."""

    def f(a: Any, b: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            a, b = state
            return (b * x + a, a * 0.5 - b + x), (a, b)

        return pb.scan(step, (a, b), xs)

    check(f, drawn((20, 32), (20, 32), (5, 20, 32)))


def test_states_that_are_read_in_two_ways() -> None:
    def f(a: Any, xs: Any) -> Any:
        def step(a: Any, x: Any) -> Any:
            return a * a[3:4] + x - a[:, 5:6] * x, a * x

        return pb.scan(step, a, xs)

    arrays = drawn((40, 32), (5, 40, 32))
    assert CALL in text_of(f, *arrays)
    check(f, [x * 0.3 for x in arrays])


def test_rows_that_are_passed_on_and_written_twice() -> None:
    def f(a: Any, xs: Any, b: Any) -> Any:
        def step(a: Any, x: Any) -> Any:
            y = a * x + b
            return pb.tanh(y), (x, y, y, a, y - x)

        return pb.scan(step, a, xs)

    arrays = drawn((16, 64), (4, 16, 64), (64,))
    assert "pullback_write_rows" not in text_of(f, *arrays)
    check(f, arrays)


def test_numbers_keep_their_sign() -> None:
    def f(a: Any, xs: Any) -> Any:
        def step(a: Any, x: Any) -> Any:
            y = x * 0.0
            return a + y * 2.0, (pb.minimum(y, -0.0), pb.maximum(y, 0.0) * -0.0, y - 3.0)

        return pb.scan(step, a, xs)

    check(f, drawn((16, 64), (4, 16, 64)))


def test_many_large_stacks() -> None:
    """More than the caches hold is written past them."""

    def f(a: Any, xs: Any) -> Any:
        return pb.scan(lambda a, x: (a * 0.5 + x, (a - x, a * x, pb.tanh(a))), a, xs)

    arrays = drawn((32, 1000), (40, 32, 1000))
    assert CALL in text_of(f, *arrays)
    check(f, arrays)


def test_loops_in_loops() -> None:
    def f(a: Any, xs: Any) -> Any:
        def outer(a: Any, block: Any) -> Any:
            return pb.scan(lambda a, x: (pb.tanh(a * x + x - a), a * x), a, block)

        return pb.scan(outer, a, xs)

    arrays = drawn((16, 64), (3, 4, 16, 64))
    assert CALL in text_of(f, *arrays)
    check(f, arrays)


def test_what_xla_computes_in_between() -> None:
    """Steps that the kernel does not have split the work, and are done in order."""

    def f(a: Any, xs: Any) -> Any:
        def step(a: Any, x: Any) -> Any:
            y = pb.tanh(a * x + x) * 0.5
            z = pb.where(y > 0, pb.sin(y), x) + y * a
            return pb.sigmoid(z) * z - y, (y, z, z.sum())

        return pb.scan(step, a, xs)

    arrays = drawn((16, 64), (4, 16, 64))
    assert text_of(f, *arrays).count(CALL) == 2
    check(f, arrays, 5e-6)


@pytest.mark.parametrize("shape", [(4, 16), (200, 8), (300, 300)])
def test_small_and_large_rows_are_left_to_xla(shape: tuple[int, ...]) -> None:
    def f(a: Any, xs: Any) -> Any:
        return pb.scan(lambda a, x: (pb.tanh(a * x + x - a), a * x), a, xs)

    arrays = drawn(shape, (3, *shape))
    assert CALL not in text_of(f, *arrays)
    check(f, arrays)


def test_integers_and_unrolled_loops_are_left_to_xla() -> None:
    def f(a: Any, xs: Any, **options: Any) -> Any:
        return pb.scan(lambda a, x: (a * x + x - a, a * x), a, xs, **options)

    arrays = drawn((16, 64), (4, 16, 64))
    assert CALL not in text_of(lambda *xs: f(*xs, unroll=2), *arrays)
    assert CALL not in text_of(f, *[(4 * x).astype("int32") for x in arrays])
    check(lambda *xs: f(*xs, unroll=2), arrays)


def test_sums_that_share_padded_arrays() -> None:
    """The gradients of a gated recurrent unit's products differ in one of three slices."""

    def f(w: Any, xs: Any) -> Any:
        n = w.shape[0]

        def cell(h: Any, a: Any) -> Any:
            u = h @ w
            r, z = (pb.sigmoid(a[:, k : k + n] + u[:, k : k + n]) for k in (0, n))
            new = pb.tanh(a[:, 2 * n :] + r * u[:, 2 * n :])
            h = (1 - z) * new + z * h
            return h, h

        _, hs = pb.scan(cell, pb.zeros((xs.shape[1], n)), xs)
        return (hs * hs).mean()

    w, xs = drawn((32, 96), (4, 20, 96))
    text = text_of(pb.grad(f, (0, 1)), w, xs)
    assert "stablehlo.pad" not in text and text.count(CALL) == 2
    check(pb.grad(f, (0, 1)), [w / 6, xs])
