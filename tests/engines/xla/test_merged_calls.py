"""Updates of many parameters are one call of the kernel, with the values of separate calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla import merged_calls
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.kernels import kernel_library
from pullback.graph.canonical import canonicalise

pytestmark = [
    pytest.mark.skipif(kernel_library() is None, reason="kernels were not compiled"),
    pytest.mark.usefixtures("on_cpu"),
]

RULE = pb.optim.adamw(0.1, weight_decay=0.01)
SHAPES = [(70, 80), (9000,), (3, 3), (5000,), (64, 65), (4096,)]


def calls(f: Callable, *xs: Any) -> int:
    """How often the program of a function calls the kernel."""
    b = Builder()
    b.kernels, b.neutral = True, False
    text = build_xla_module(canonicalise(pb.trace(f, *xs).graph), b)
    return text.count("pullback_adam_step")


def normal(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def arguments(shapes: Any = SHAPES, dtype: str = "float32") -> tuple:
    params = [pb.tensor(normal(s, i, dtype)) for i, s in enumerate(shapes)]
    grads = [pb.tensor(normal(s, 100 + i, dtype)) for i, s in enumerate(shapes)]
    return grads, RULE.init(params), params


def check(f: Callable, *xs: Any) -> None:
    """A compiled function computes what the reference engine does."""
    compiled = pb.compile(f)
    found = [y.numpy() for y in pb.tree.leaves(compiled(*xs)) if isinstance(y, pb.Tensor)]
    with pb.config(engine="reference"):
        wanted = [y.numpy() for y in pb.tree.leaves(f(*xs)) if isinstance(y, pb.Tensor)]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_parameters_in_one_call(dtype: str) -> None:
    xs = arguments(dtype=dtype)
    assert calls(RULE.update, *xs) == 1
    check(RULE.update, *xs)


def test_each_dtype_has_a_call_of_its_own() -> None:
    both = [arguments(dtype=dtype) for dtype in ("float32", "float64")]

    def update(xs: Any) -> Any:
        return [RULE.update(*x) for x in xs]

    assert calls(update, both) == 2
    check(update, both)


def test_numbers_that_differ_keep_calls_apart() -> None:
    slow, xs = pb.optim.adamw(0.01, weight_decay=0.01), arguments()

    def update(*xs: Any) -> Any:
        return RULE.update(*xs), slow.update(*xs)

    assert calls(update, *xs) == 2
    check(update, *xs)


def test_values_that_are_needed_earlier_are_computed_earlier() -> None:
    def twice(grads: Any, state: Any, params: Any) -> Any:
        params, state = RULE.update(grads, state, params)
        return RULE.update([pb.sin(p) for p in params], state, params)

    xs = arguments()
    assert calls(twice, *xs) == 2
    check(twice, *xs)


def test_a_result_that_the_body_of_a_loop_reads() -> None:
    def f(grads: Any, state: Any, params: Any) -> Any:
        params, state = RULE.update(grads, state, params)
        total, _ = pb.scan(lambda c, _: (c + params[1].sum(), None), 0.0 * grads[0].sum(), length=3)
        return total, params, state

    xs = arguments()
    assert calls(f, *xs) == 1
    check(f, *xs)


def test_calls_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    many = arguments([(4096,)] * 130)
    assert calls(RULE.update, *many) == 3
    xs = arguments()
    monkeypatch.setattr(merged_calls, "_MOST_BYTES", 1)
    assert calls(RULE.update, *xs) == sum(np.prod(s) >= 4096 for s in SHAPES)
    check(RULE.update, *xs)


def test_results_take_donated_memory() -> None:
    xs = arguments([(80, 90), (9000,)])
    trace = pb.trace(RULE.update, *xs)
    b = Builder()
    b.kernels, b.neutral = True, False
    text = build_xla_module(canonicalise(trace.graph), b, range(len(trace.graph.inputs)))
    pairs = re.findall(r"output_tuple_indices = \[(\d)\], operand_index = (\d)", text)
    assert pairs == [("0", "0"), ("1", "2"), ("2", "3"), ("3", "4"), ("4", "6"), ("5", "7")]
    wanted = pb.wait(RULE.update(*xs))
    found = pb.compile(RULE.update, donate_argnums=(1, 2))(*xs)
    for x, y in zip(pb.tree.leaves(found), pb.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())


@pytest.mark.parametrize("donated", [(), (0, 1)])
def test_gradients_that_are_other_parameters(donated: tuple[int, ...]) -> None:
    """A call may not overwrite a parameter that it still reads as the gradient of another."""

    def step(params: Any, state: Any) -> Any:
        grads = pb.grad(lambda ps: (ps[0] * ps[1]).sum())(params)
        return RULE.update(grads, state, params)

    params = [pb.tensor(normal((300_000,), i)) * 1 for i in range(2)]
    state = RULE.init(params)
    with pb.config(engine="reference"):
        wanted = [p.numpy() for p in step(params, state)[0]]
    assert calls(step, params, state) == 1
    found = pb.compile(step, donate_argnums=donated)(params, state)[0]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-5, atol=1e-6)


def test_bits_do_not_depend_on_neighbours() -> None:
    grads, state, params = arguments()
    together = RULE.update(grads, state, params)[0]
    for i in range(len(SHAPES)):
        alone = RULE.update(grads[i : i + 1], RULE.init(params[i : i + 1]), params[i : i + 1])[0]
        np.testing.assert_array_equal(together[i].numpy(), alone[0].numpy())
