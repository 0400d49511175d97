"""Regression with a Gaussian process: its hyperparameters are found by the marginal likelihood.

The likelihood of all observations together is computed from a Cholesky factor and minimised by
L-BFGS, with the gradient through the factorisation.
"""

from __future__ import annotations

import math

import numpy as np

import pullback as pb
from pullback import linalg


def covariance(params, a, b):
    """The squared exponential kernel between the points of `a` and those of `b`."""
    distance = (a[:, None] - b[None, :]) / pb.exp(params["log_length"])
    return pb.exp(2 * params["log_scale"] - 0.5 * distance**2)


def factor(params, x):
    """The Cholesky factor of the covariance of observations at `x`, with their noise."""
    noise = pb.exp(2 * params["log_noise"])
    return linalg.cholesky(covariance(params, x, x) + noise * pb.eye(len(x), dtype=x.dtype))


def negative_log_likelihood(params, x, y):
    lower = factor(params, x)
    whitened = linalg.solve_triangular(lower, y, lower=True)
    log_determinant = 2 * pb.log(linalg.diagonal(lower)).sum()
    return 0.5 * (whitened @ whitened + log_determinant + len(x) * math.log(2 * math.pi))


def predict(params, x, y, new):
    """The mean and the variance of the function at new points, given the observations."""
    lower = factor(params, x)
    whitened = linalg.solve_triangular(lower, y, lower=True)
    across = linalg.solve_triangular(lower, covariance(params, x, new), lower=True)
    return across.T @ whitened, pb.exp(2 * params["log_scale"]) - (across**2).sum(0)


def true_function(x):
    return np.sin(3 * x) + 0.5 * x


def main(points: int = 60, noise: float = 0.2) -> dict[str, float]:
    """Fit noisy observations of a function; return what was measured."""
    rng = np.random.default_rng(0)
    where = np.sort(rng.uniform(-3, 3, points))
    x, y = pb.tensor(where), pb.tensor(true_function(where) + noise * rng.normal(size=points))
    start = {name: pb.tensor(np.zeros(())) for name in ("log_scale", "log_length", "log_noise")}
    fitted = pb.optim.lbfgs(tolerance_grad=1e-4).minimize(
        lambda p: negative_log_likelihood(p, x, y), start
    )
    params = fitted.params

    new = np.linspace(-2.9, 2.9, 200)
    mean, variance = (v.numpy() for v in predict(params, x, y, pb.tensor(new)))
    error = mean - true_function(new)
    far = predict(params, x, y, pb.tensor(np.array([100.0])))
    found = {
        "converged": fitted.converged,
        "noise": pb.exp(params["log_noise"]).item(),
        "before": negative_log_likelihood(start, x, y).item(),
        "after": negative_log_likelihood(params, x, y).item(),
        "error": float(np.sqrt((error**2).mean())),
        "covered": float((np.abs(error) < 1.96 * np.sqrt(variance)).mean()),
    }
    # Far from all observations, the prediction is the prior.
    assert abs(far[0].item()) < 1e-6
    assert abs(far[1].item() - pb.exp(2 * params["log_scale"]).item()) < 1e-6
    print(f"negative log likelihood {found['before']:.2f} to {found['after']:.2f}")
    print(f"standard deviation of the noise {found['noise']:.3f}, in truth {noise}")
    print(f"error {found['error']:.3f}; {found['covered']:.0%} of the truth in the 95% intervals")
    return found


if __name__ == "__main__":
    found = main()
    assert found["converged"] and abs(found["noise"] - 0.2) < 0.05
    assert found["error"] < 0.15 and found["covered"] > 0.8
