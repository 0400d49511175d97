"""Layer normalisation, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.calls import jax_call, pullback_call, torch_gradient
from benchmarks.workload import Case, Workload, normal


def inputs(quick: bool) -> Any:
    rows, columns = (6, 8) if quick else (8192, 512)
    rng = np.random.default_rng(0)
    scale, shift = (normal(rng, columns, scale=1.0) for _ in range(2))
    x, weights = (normal(rng, rows, columns, scale=1.0) for _ in range(2))
    return x, scale, shift, weights


def with_pullback(arrays: Any) -> Case:
    import pullback as pb

    def f(x: Any, scale: Any, shift: Any, weights: Any) -> Any:
        y = pb.nn.functional.layer_norm(x, x.shape[-1:], scale, shift)
        return (y * weights).sum()

    return pullback_call(pb.value_and_grad(f, argnums=(0, 1, 2)), *arrays)


def with_jax(arrays: Any) -> Case:
    import jax

    def f(x: Any, scale: Any, shift: Any, weights: Any) -> Any:
        mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
        y = (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift
        return (y * weights).sum()

    return jax_call(jax.value_and_grad(f, argnums=(0, 1, 2)), *arrays)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch

    @compile
    def f(x: Any, scale: Any, shift: Any, weights: Any) -> Any:
        y = torch.nn.functional.layer_norm(x, x.shape[-1:], scale, shift)
        return (y * weights).sum()

    return torch_gradient(f, *arrays, of=3)


WORKLOADS = [
    Workload(
        "layer_norm", "layer norm 8192 x 512, forward and backward", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch": with_torch}, tolerance=1e-3,
        note=(
            "the sum of all results is a loop of XLA's, one number at a time. With sums by "
            "YNNPACK, which may crash, 2.1 ms."
        ),
    )
]  # fmt: skip
