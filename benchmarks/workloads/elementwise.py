"""The gradient of a chain of elementwise functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.calls import jax_call, pullback_call, torch_call
from benchmarks.workload import Case, Workload, normal


def inputs(quick: bool) -> Any:
    return normal(np.random.default_rng(0), 1_000 if quick else 8_000_000, scale=1.0)


def with_pullback(x: Any) -> Case:
    import pullback as pb

    return pullback_call(pb.grad(lambda x: pb.tanh(pb.sin(x) * pb.exp(-x * x)).sum()), x)


def with_jax(x: Any) -> Case:
    import jax
    import jax.numpy as jnp

    return jax_call(jax.grad(lambda x: jnp.tanh(jnp.sin(x) * jnp.exp(-x * x)).sum()), x)


def with_torch(x: Any, compile: Any) -> Case:
    import torch

    f = torch.func.grad(lambda x: torch.tanh(torch.sin(x) * torch.exp(-x * x)).sum())
    return torch_call(compile(f), x)


WORKLOADS = [
    Workload(
        "elementwise", "gradient of sum tanh(sin x exp -x^2), 8M", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch": with_torch},
    )
]  # fmt: skip
