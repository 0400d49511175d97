"""Rows of a table of words, and the gradient of the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.calls import jax_call, pullback_call, torch_gradient
from benchmarks.workload import Case, Workload, normal


def inputs(quick: bool) -> Any:
    words, width, tokens = (20, 4, (2, 8)) if quick else (50_000, 256, (8, 1024))
    rng = np.random.default_rng(0)
    table, weights = normal(rng, words, width), normal(rng, *tokens, width, scale=1.0)
    return table, weights, rng.integers(0, words, tokens).astype(np.int32)


def with_pullback(arrays: Any) -> Case:
    import pullback as pb

    def f(table: Any, weights: Any, tokens: Any) -> Any:
        return (table[tokens] * weights).sum()

    return pullback_call(pb.value_and_grad(f, argnums=(0,)), *arrays)


def with_jax(arrays: Any) -> Case:
    import jax

    def f(table: Any, weights: Any, tokens: Any) -> Any:
        return (table[tokens] * weights).sum()

    return jax_call(jax.value_and_grad(f, argnums=(0,)), *arrays)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch

    @compile
    def f(table: Any, weights: Any, tokens: Any) -> Any:
        return (torch.nn.functional.embedding(tokens, table) * weights).sum()

    return torch_gradient(f, *arrays, of=1)


WORKLOADS = [
    Workload(
        "embedding", "embedding 50,000 x 256 of 8 x 1024 tokens, forward and backward", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch": with_torch},
    )
]  # fmt: skip
