"""The gradient of a Gaussian mixture's log-likelihood, with a Wishart prior (ADBench's GMM).

Component k has the weight `alphas[k]` before normalisation, the mean `means[k]`, and an inverse
covariance Q'Q whose factor Q is triangular: `factors[k]` holds the logarithms of its diagonal and
then the rows below the diagonal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.calls import jax_call, pullback_call, torch_gradient
from benchmarks.workload import Case, Workload

GAMMA, EXTRA = 1.0, 0  # the prior's scale, and its degrees of freedom beyond the least number


def inputs(quick: bool) -> Any:
    points, depth, components = (7, 3, 2) if quick else (1000, 32, 25)
    rng = np.random.default_rng(0)
    alphas = rng.normal(size=components)
    means = rng.normal(size=(components, depth))
    factors = 0.3 * rng.normal(size=(components, depth * (depth + 1) // 2))
    return alphas, means, factors, rng.normal(size=(points, depth))


def constant(points: int, depth: int, components: int) -> float:
    """The terms that depend on no parameter."""
    freedom = depth + EXTRA + 1
    log_gamma = 0.25 * depth * (depth - 1) * math.log(math.pi) + sum(
        math.lgamma(0.5 * (freedom - i)) for i in range(depth)
    )
    prior = freedom * depth * (math.log(GAMMA) - 0.5 * math.log(2)) - log_gamma
    return components * prior - points * depth * 0.5 * math.log(2 * math.pi)


def with_pullback(arrays: Any) -> Case:
    import pullback as pb

    def log_likelihood(alphas: Any, means: Any, factors: Any, x: Any) -> Any:
        (points, depth), components = x.shape, alphas.shape[0]
        rows, columns = np.tril_indices(depth, -1)
        logs, below = factors[:, :depth], factors[:, depth:]
        lower = pb.zeros((components, depth, depth), dtype=x.dtype)
        lower = lower.at[:, rows, columns].set(below)
        centered = x[None] - means[:, None]
        scaled = centered * pb.exp(logs)[:, None] + centered @ lower.swapaxes(1, 2)
        sums = logs.sum(axis=1)
        inner = (alphas + sums)[:, None] - 0.5 * (scaled * scaled).sum(axis=2)
        prior = 0.5 * GAMMA**2 * ((pb.exp(logs) ** 2).sum() + (below**2).sum()) - EXTRA * sums.sum()
        fit = pb.logsumexp(inner, axis=0).sum() - points * pb.logsumexp(alphas)
        return fit - prior + constant(points, depth, components)

    return pullback_call(pb.value_and_grad(log_likelihood, argnums=(0, 1, 2)), *arrays)


def with_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def log_likelihood(alphas: Any, means: Any, factors: Any, x: Any) -> Any:
        (points, depth), components = x.shape, alphas.shape[0]
        rows, columns = np.tril_indices(depth, -1)
        logs, below = factors[:, :depth], factors[:, depth:]
        lower = jnp.zeros((components, depth, depth)).at[:, rows, columns].set(below)
        centered = x[None] - means[:, None]
        scaled = centered * jnp.exp(logs)[:, None] + centered @ lower.swapaxes(1, 2)
        sums = logs.sum(axis=1)
        inner = (alphas + sums)[:, None] - 0.5 * (scaled * scaled).sum(axis=2)
        squares = (jnp.exp(logs) ** 2).sum() + (below**2).sum()
        prior = 0.5 * GAMMA**2 * squares - EXTRA * sums.sum()
        logsumexp = jax.nn.logsumexp
        fit = logsumexp(inner, axis=0).sum() - points * logsumexp(alphas)
        return fit - prior + constant(points, depth, components)

    return jax_call(jax.value_and_grad(log_likelihood, argnums=(0, 1, 2)), *arrays)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch

    offset = constant(*arrays[3].shape, arrays[0].shape[0])
    rows, columns = map(torch.tensor, np.tril_indices(arrays[3].shape[1], -1))

    @compile
    def log_likelihood(alphas: Any, means: Any, factors: Any, x: Any) -> Any:
        (points, depth), components = x.shape, alphas.shape[0]
        logs, below = factors[:, :depth], factors[:, depth:]
        lower = torch.zeros((components, depth, depth), dtype=x.dtype)
        lower[:, rows, columns] = below
        centered = x[None] - means[:, None]
        scaled = centered * torch.exp(logs)[:, None] + centered @ lower.swapaxes(1, 2)
        sums = logs.sum(dim=1)
        inner = (alphas + sums)[:, None] - 0.5 * (scaled * scaled).sum(dim=2)
        squares = (torch.exp(logs) ** 2).sum() + (below**2).sum()
        prior = 0.5 * GAMMA**2 * squares - EXTRA * sums.sum()
        fit = torch.logsumexp(inner, 0).sum() - points * torch.logsumexp(alphas, 0)
        return fit - prior + offset

    return torch_gradient(log_likelihood, *arrays, of=3)


WORKLOADS = [
    Workload(
        "gmm", "ADBench GMM, f64, 1,000 points, 32 dimensions, 25 components", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch": with_torch}, tolerance=1e-9,
    )
]  # fmt: skip
