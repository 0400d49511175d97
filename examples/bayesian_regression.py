"""Bayesian regression in two ways that need only the log posterior, beside the exact answer.

Laplace's approximation takes the mode, and the Hessian there; variational inference fits a normal
distribution by stochastic gradients of a bound. In linear regression with known noise the posterior
is normal, so both can be compared with it.
"""

from __future__ import annotations

import math

import numpy as np

import pullback as pb
from pullback import linalg

NOISE, PRIOR = 0.5, 2.0  # standard deviations


def log_joint(weights, x, y):
    """The log density of the observations and the weights."""
    n, d = x.shape
    constant = n * math.log(2 * math.pi * NOISE**2) + d * math.log(2 * math.pi * PRIOR**2)
    misfit = ((y - x @ weights) ** 2).sum() / NOISE**2
    return -0.5 * (misfit + (weights**2).sum() / PRIOR**2 + constant)


def laplace(x, y):
    """The mode and the covariance of the posterior, and the log evidence of the observations."""
    start = pb.zeros(x.shape[1], dtype=x.dtype)
    mode = pb.optim.lbfgs().minimize(lambda w: -log_joint(w, x, y), start).params
    precision = pb.hessian(lambda w: -log_joint(w, x, y))(mode)
    evidence = log_joint(mode, x, y) + 0.5 * (
        len(mode) * math.log(2 * math.pi) - linalg.slogdet(precision).logabsdet
    )
    return mode, linalg.inv(precision), evidence


def negative_bound(params, noise, x, y):
    """The negative evidence lower bound, with one sample for each row of `noise`."""
    lower = pb.tril(params["lower"], -1) + pb.diag(pb.exp(params["log_diagonal"]))
    samples = params["mean"] + noise @ lower.T
    expected = pb.vmap(log_joint, in_axes=(0, None, None))(samples, x, y).mean()
    entropy = params["log_diagonal"].sum() + 0.5 * len(params["mean"]) * math.log(
        2 * math.pi * math.e
    )
    return -expected - entropy


def variational(x, y, steps, samples=16):
    """The mean, the covariance and the bound of the normal distribution that fits best."""
    d = x.shape[1]
    params = {"mean": pb.zeros(d, "float64"), "log_diagonal": pb.zeros(d, "float64")}
    params["lower"] = pb.zeros((d, d), "float64")
    rule = pb.optim.adam(pb.optim.schedules.cosine(0.05, steps))

    def step(carry, key):
        params, state = carry
        noise = pb.random.normal(key, (samples, d), dtype="float64")
        bound, grads = pb.value_and_grad(negative_bound)(params, noise, x, y)
        params, state = rule.update(grads, state, params)
        return (params, state), -bound

    keys = pb.random.split(pb.random.key(0), steps)
    (params, _), bounds = pb.scan(step, (params, rule.init(params)), keys)
    lower = pb.tril(params["lower"], -1) + pb.diag(pb.exp(params["log_diagonal"]))
    return params["mean"], lower @ lower.T, bounds[-steps // 10 :].mean()


def exact(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The conjugate posterior, and the log density of the observations."""
    n, d = x.shape
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.eye(d) / PRIOR**2)
    marginal = NOISE**2 * np.eye(n) + PRIOR**2 * x @ x.T
    misfit = y @ np.linalg.solve(marginal, y)
    evidence = -0.5 * (misfit + np.linalg.slogdet(2 * np.pi * marginal).logabsdet)
    return covariance @ x.T @ y / NOISE**2, covariance, evidence


def main(points: int = 30, steps: int = 2000) -> dict[str, tuple[float, float, float]]:
    """Return the differences from the exact posterior: of mean, covariance and evidence."""
    rng = np.random.default_rng(0)
    x = np.stack([np.ones(points), rng.normal(size=points), rng.normal(size=points)], 1)
    y = x @ np.array([0.5, -1.0, 2.0]) + NOISE * rng.normal(size=points)
    mean, covariance, evidence = exact(x, y)
    inputs, found = (pb.tensor(x), pb.tensor(y)), {}
    answers = {"Laplace": laplace(*inputs), "variational": variational(*inputs, steps)}
    for name, (got_mean, got_covariance, got_evidence) in answers.items():
        found[name] = (
            float(np.abs(got_mean.numpy() - mean).max() / np.sqrt(covariance.max())),
            float(np.abs(got_covariance.numpy() - covariance).max() / covariance.max()),
            abs(got_evidence.item() - evidence),
        )
        print(f"{name}: mean, covariance, evidence off by", *(f"{e:.1e}" for e in found[name]))
    return found


if __name__ == "__main__":
    found = main()
    assert max(found["Laplace"]) < 1e-6 and max(found["variational"]) < 0.05
