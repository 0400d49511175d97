"""Transforms of a small perceptron: gradients of each example, and a Hessian."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.calls import jax_call, pullback_call, torch_call
from benchmarks.workload import Case, Workload, normal


def arrays_of(sizes: tuple[int, ...], batch: int) -> Any:
    """Weights, inputs and targets."""
    rng = np.random.default_rng(0)
    params = [normal(rng, m, n) for m, n in pairwise(sizes)]
    x, y = (normal(rng, batch, n, scale=1.0) for n in (sizes[0], sizes[-1]))
    return params, x, y


def loss(tanh: Any, params: Any, x: Any, y: Any) -> Any:
    """The square error, of one example or of a batch, with the `tanh` of a library."""
    *hidden, last = params
    for w in hidden:
        x = tanh(x @ w)
    return ((x @ last - y) ** 2).mean()


def per_example_inputs(quick: bool) -> Any:
    return arrays_of((4, 3, 2), 5) if quick else arrays_of((256, 256, 10), 128)


def per_example_pullback(arrays: Any) -> Case:
    import pullback as pb

    gradient = pb.grad(lambda params, x, y: loss(pb.tanh, params, x, y))
    return pullback_call(pb.vmap(gradient, in_axes=(None, 0, 0)), *arrays)


def per_example_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    gradient = jax.grad(lambda params, x, y: loss(jnp.tanh, params, x, y))
    return jax_call(jax.vmap(gradient, in_axes=(None, 0, 0)), *arrays)


def per_example_torch(arrays: Any, compile: Any) -> Case:
    import torch

    gradient = torch.func.grad(lambda params, x, y: loss(torch.tanh, params, x, y))
    return torch_call(compile(torch.func.vmap(gradient, in_dims=(None, 0, 0))), *arrays)


def hessian_inputs(quick: bool) -> Any:
    return arrays_of((3, 2, 1), 5) if quick else arrays_of((10, 20, 20, 1), 64)


def hessian_pullback(arrays: Any) -> Case:
    import pullback as pb

    return pullback_call(pb.hessian(lambda params, x, y: loss(pb.tanh, params, x, y)), *arrays)


def hessian_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    return jax_call(jax.hessian(lambda params, x, y: loss(jnp.tanh, params, x, y)), *arrays)


def hessian_torch(arrays: Any, compile: Any) -> Case:
    import torch

    hessian = torch.func.hessian(lambda params, x, y: loss(torch.tanh, params, x, y))
    return torch_call(compile(hessian), *arrays)


WORKLOADS = [
    Workload(
        "per_example", "gradients of 128 examples, MLP 256-256-10", per_example_inputs,
        {"pullback": per_example_pullback, "jax": per_example_jax, "torch": per_example_torch},
    ),
    Workload(
        "hessian", "Hessian of an MLP 10-20-20-1, batch 64", hessian_inputs,
        {"pullback": hessian_pullback, "jax": hessian_jax, "torch": hessian_torch},
        tolerance=1e-3, torch_compile=False,
    ),
]  # fmt: skip
