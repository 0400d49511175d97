"""Bounds of values, and products that need no guard against 0 times infinity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.builder import Builder, build_xla_block
from pullback.engines.xla.hlo_instructions import HloBlock
from pullback.engines.xla.hlo_printer import print_hlo_module
from pullback.engines.xla.value_ranges import ANY, value_range

SPECIAL = np.array(
    [np.nan, -np.inf, np.inf, 0, -0.0, 1e-45, -1e-30, 1e30, -3e38, 88, -104, 1.5], np.float32
)
X = np.concatenate([SPECIAL, np.linspace(-12, 12, 999, dtype=np.float32)])


def program(f: Callable[..., Any], *xs: Any, platform: str = "cuda") -> HloBlock:
    graph = pb.compile(f).lower(*map(pb.tensor, xs)).graph
    builder = Builder()
    builder.kernels, builder.platform = True, platform
    builder.neutral = builder.literal = False
    return build_xla_block(graph, builder)


def values(block: HloBlock, *xs: np.ndarray) -> list[np.ndarray]:
    """The results of a program, computed on the CPU."""
    engine: Any = registered_engine("xla", None)
    run = engine.load(print_hlo_module(block), [y.type for y in block.results], 0).run
    buffers = [engine.put(x, a.type) for x, a in zip(xs, block.arguments, strict=True)]
    return [np.asarray(engine.get(y)) for y in run(buffers)]


def guards(block: HloBlock) -> int:
    return sum(i.name == "select" for i in block.instructions)


def bell(x: Any) -> Any:
    return pb.grad(lambda x: pb.tanh(pb.sin(x) * pb.exp(-x * x)).sum())(x)


def test_bounded_factors_need_no_guard() -> None:
    before, after = program(bell, X, platform="cpu"), program(bell, X)
    assert guards(before) > guards(after) == 0
    with np.errstate(all="ignore"):
        x = X.astype(np.float64)
        e, s = np.exp(-x * x), np.sin(x)
        want = (1 - np.tanh(s * e) ** 2) * e * (np.cos(x) - 2 * x * s)
    (old,), (new,) = values(program(bell, X, platform="cpu"), X), values(after, X)
    np.testing.assert_array_equal(np.isnan(old), np.isnan(new))
    np.testing.assert_allclose(new[12:], want[12:], rtol=2e-5, atol=2e-7)


def unbounded(x: Any) -> Any:
    return pb.grad(lambda x: pb.tanh(pb.sin(x) * pb.exp(x * x)).sum())(x)


def not_taken(x: Any) -> Any:
    """Where x is not positive, the cotangent is 0 and the slope of the root is not finite."""
    return pb.grad(lambda x: pb.where(x > 0, pb.sqrt(x) * pb.tanh(x), 0).sum())(x)


def of_another_value(x: Any, y: Any) -> Any:
    return pb.grad(lambda x: (pb.tanh(x) * pb.exp(-y * y) * pb.exp(-x * x)).sum())(x)


@pytest.mark.parametrize("f", [unbounded, not_taken, of_another_value])
def test_other_products_keep_their_guard(f: Callable[..., Any]) -> None:
    xs = (X, X[::-1].copy())[: f.__code__.co_argcount]
    block = program(f, *xs)
    assert guards(block) > 0
    for old, new in zip(values(program(f, *xs, platform="cpu"), *xs), values(block, *xs)):
        np.testing.assert_allclose(new, old, rtol=1e-2, atol=1e-5)


def bounds(f: Callable[..., Any]) -> tuple[float, float]:
    return value_range(program(f, X).results[0], {})


@pytest.mark.parametrize(
    ("f", "low", "high"),
    [
        (lambda x: pb.tanh(x) * 3 - pb.cos(x), -4, 4), (lambda x: x * x, 0, np.inf),
        (lambda x: -x * x, -np.inf, 0), (lambda x: pb.exp(-(x * x)), 0, 1),
        (lambda x: pb.exp(pb.sin(x)), 0, np.e), (lambda x: x + 1, *ANY),
        (lambda x: pb.sin(x) * np.inf, *ANY), (lambda x: x * np.nan, *ANY),
        (lambda x: (pb.sin(x) * 1e30) * (pb.sin(x) * 1e30), 0, np.inf),
        (lambda x: pb.sigmoid(x).astype(pb.bfloat16), 0, 1), (lambda x: -abs(x), -np.inf, 0),
    ],
)  # fmt: skip
def test_bounds_hold(f: Callable[..., Any], low: float, high: float) -> None:
    found = bounds(f)
    assert low >= found[0] and high <= found[1]
    y = values(program(f, X), X)[0].astype(np.float64)
    y = y[~np.isnan(y)]
    assert np.all((y >= found[0] - 1e-6) & (y <= found[1] + 1e-6))


def test_long_programs_are_walked_without_recursion() -> None:
    def chain(x: Any) -> Any:
        y = pb.tanh(x)
        for _ in range(3000):
            y = -y
        return y + pb.tanh(x)

    assert bounds(chain) == (-2, 2)
