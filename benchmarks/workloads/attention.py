"""Causal attention, forward and backward: the libraries' functions, and written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.calls import jax_call, pullback_call, torch_gradient
from benchmarks.workload import Case, Workload, normal


def inputs(quick: bool) -> Any:
    """Queries, keys, values and weights of the result: [batch, heads, length, depth]."""
    shape = (2, 2, 5, 4) if quick else (4, 8, 512, 64)
    rng = np.random.default_rng(0)
    return [normal(rng, *shape, scale=1.0) for _ in range(4)]


def with_pullback(arrays: Any) -> Case:
    import pullback as pb

    def f(q: Any, k: Any, v: Any, weights: Any) -> Any:
        y = pb.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (y * weights).sum()

    return pullback_call(pb.value_and_grad(f, argnums=(0, 1, 2)), *arrays)


def with_jax(arrays: Any) -> Case:
    import jax

    def f(q: Any, k: Any, v: Any, weights: Any) -> Any:
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return (y.swapaxes(1, 2) * weights).sum()

    return jax_call(jax.value_and_grad(f, argnums=(0, 1, 2)), *arrays)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch

    @compile
    def f(q: Any, k: Any, v: Any, weights: Any) -> Any:
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (y * weights).sum()

    return torch_gradient(f, *arrays, of=3)


def written_with_pullback(arrays: Any) -> Case:
    import pullback as pb

    def f(q: Any, k: Any, v: Any, weights: Any) -> Any:
        mask = pb.tril(pb.ones((q.shape[-2], k.shape[-2]), dtype=bool))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        y = pb.softmax(pb.where(mask, scores, -math.inf), axis=-1) @ v
        return (y * weights).sum()

    return pullback_call(pb.value_and_grad(f, argnums=(0, 1, 2)), *arrays)


def written_with_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    def f(q: Any, k: Any, v: Any, weights: Any) -> Any:
        mask = jnp.tril(jnp.ones((q.shape[-2], k.shape[-2]), bool))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        y = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1) @ v
        return (y * weights).sum()

    return jax_call(jax.value_and_grad(f, argnums=(0, 1, 2)), *arrays)


def written_with_torch(arrays: Any, compile: Any) -> Case:
    import torch

    @compile
    def f(q: Any, k: Any, v: Any, weights: Any) -> Any:
        mask = torch.ones((q.shape[-2], k.shape[-2]), dtype=torch.bool).tril()
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        y = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1) @ v
        return (y * weights).sum()

    return torch_gradient(f, *arrays, of=3)


WORKLOADS = [
    Workload(
        "attention", "causal attention 4 x 8 x 512 x 64, forward and backward", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch": with_torch},
    ),
    Workload(
        "attention_written", "the same attention, written out", inputs,
        {"pullback": written_with_pullback, "jax": written_with_jax, "torch": written_with_torch},
    ),
]  # fmt: skip
