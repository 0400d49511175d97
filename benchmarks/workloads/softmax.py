"""Softmax over the rows of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.calls import jax_call, pullback_call, torch_call
from benchmarks.workload import Case, Workload, normal


def inputs(quick: bool) -> Any:
    return normal(np.random.default_rng(0), *((8, 10) if quick else (8000, 1000)), scale=1.0)


def with_pullback(x: Any) -> Case:
    import pullback as pb

    return pullback_call(lambda x: pb.softmax(x, axis=-1), x)


def with_jax(x: Any) -> Case:
    import jax

    return jax_call(lambda x: jax.nn.softmax(x, axis=-1), x)


def with_torch(x: Any, compile: Any) -> Case:
    import torch

    return torch_call(compile(lambda x: torch.softmax(x, dim=-1)), x)


WORKLOADS = [
    Workload(
        "softmax", "softmax 8000 x 1000", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch": with_torch},
    )
]  # fmt: skip
