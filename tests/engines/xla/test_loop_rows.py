"""Rows that loops read and write: by a kernel where they are small, and as XLA does elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla import loop_rows
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.kernels import kernel_library
from pullback.graph.canonical import canonicalise

pytestmark = pytest.mark.skipif(kernel_library() is None, reason="kernels were not compiled")

DTYPES = ["bool", "int8", "int32", "uint64", "float16", "bfloat16", "float32", "complex128"]


def text_of(f: Any, *xs: Any) -> str:
    b = Builder()
    b.kernels, b.neutral, b.literal = True, False, False
    return build_xla_module(canonicalise(pb.trace(f, *xs).graph), b)


def on_both_engines(f: Any, *xs: Any) -> None:
    found = pb.tree.leaves(pb.compile(f)(*xs))
    with pb.config(engine="reference"):
        wanted = pb.tree.leaves(f(*xs))
    for y, want in zip(found, wanted, strict=True):
        assert y.dtype == want.dtype
        assert y.numpy().tobytes() == want.numpy().tobytes()


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"unroll": 2}])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_every_dtype(dtype: str, options: dict) -> None:
    """A loop that exchanges rows: it reads one of each stack, and writes the earlier ones."""
    bits = np.random.default_rng(0).integers(0, 2, (5, 3, 4))
    xs, ys = pb.tensor(bits, dtype=dtype), pb.tensor(1 - bits[:, 0], dtype=dtype)

    def f(xs: Any, ys: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            return row, (state[1], state[0])

        return pb.scan(step, (xs[0], ys[0]), (xs, ys), **options)

    on_both_engines(f, xs, ys)
    text = text_of(f, xs, ys)
    assert "pullback_read_rows" in text and "pullback_write_rows" in text
    assert "dynamic_slice" not in text and "dynamic_update_slice" not in text


def test_large_rows_are_left_to_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_rows, "_LARGEST", 64)
    small, large = pb.tensor(np.eye(4)), pb.tensor(np.arange(80.0).reshape(4, 20))

    def f(small: Any, large: Any) -> Any:
        return pb.scan(lambda c, row: (c + row[0][0], row), pb.zeros((), "float64"), (small, large))

    on_both_engines(f, small, large)
    text = text_of(f, small, large)
    assert "pullback_read_rows" in text and "stablehlo.dynamic_slice" in text
    assert "pullback_write_rows" in text and "stablehlo.dynamic_update_slice" in text


def test_empty_rows_and_no_iterations() -> None:
    def f(xs: Any) -> Any:
        return pb.scan(lambda c, x: (c + 1, (x, c)), pb.tensor(0), xs)

    on_both_engines(f, pb.zeros((3, 0)))
    on_both_engines(f, pb.zeros((0, 2)))
    on_both_engines(f, pb.zeros((1, 2)))


def test_a_state_that_is_also_a_row() -> None:
    """The row must be written before the state is overwritten in place."""

    def f(x: Any) -> Any:
        return pb.scan(lambda c, _: (c * 2 + 1, (c, c * 3)), x, None, length=6)

    on_both_engines(f, pb.tensor(np.arange(1000.0)))


def test_the_same_loop_in_two_runs_writes_new_stacks() -> None:
    step = pb.compile(lambda x: pb.scan(lambda c, _: (c + 1, c), x, None, length=4)[1])
    first, second = step(pb.zeros(100)), step(pb.ones(100))
    np.testing.assert_array_equal(first.numpy()[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(second.numpy()[:, 0], [1, 2, 3, 4])


def test_loops_in_loops() -> None:
    def f(xs: Any) -> Any:
        def outer(c: Any, block: Any) -> Any:
            return pb.scan(lambda c, x: (c + x, c * x), c, block)

        return pb.scan(outer, xs[0, 0], xs)

    on_both_engines(f, pb.tensor(np.arange(24.0).reshape(2, 3, 4)))
