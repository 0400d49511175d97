"""A neural ODE: the right-hand side of a differential equation, learned from its solution.

The solver is a scan of Runge-Kutta steps. Each step is a checkpoint, so the backward pass keeps
one state per step and recomputes the rest; the gradient is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb

STEPS, DT, WIDTH = 40, 0.05, 32
Params = list[tuple[pb.Tensor, pb.Tensor]]
TRUE = np.array([[-0.1, 2.0], [-2.0, -0.1]])  # a spiral


def initial_params(rng: np.random.Generator) -> Params:
    sizes = (2, WIDTH, 2)
    return [
        (pb.tensor(rng.standard_normal((m, n)) * 0.5 / np.sqrt(m)), pb.tensor(np.zeros(n)))
        for m, n in itertools.pairwise(sizes)
    ]


def field(params: Params, y: pb.Tensor) -> pb.Tensor:
    """The learned velocity at `y`."""
    (w1, b1), (w2, b2) = params
    return pb.tanh(y @ w1 + b1) @ w2 + b2


def step(velocity: Callable, y: pb.Tensor) -> pb.Tensor:
    """One step of the classical Runge-Kutta method."""
    k1 = velocity(y)
    k2 = velocity(y + 0.5 * DT * k1)
    k3 = velocity(y + 0.5 * DT * k2)
    k4 = velocity(y + DT * k3)
    return y + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def solve(params: Params, start: pb.Tensor, safe: bool = True) -> pb.Tensor:
    """The states after each step."""

    def advance(params: Params, y: pb.Tensor) -> pb.Tensor:
        return step(lambda z: field(params, z), y)

    f = pb.checkpoint(advance) if safe else advance

    def body(y: pb.Tensor, _: Any) -> tuple[pb.Tensor, pb.Tensor]:
        y = f(params, y)
        return y, y

    return pb.scan(body, start, None, length=STEPS)[1]


def loss(params: Params, start: pb.Tensor, path: pb.Tensor, safe: bool = True) -> pb.Tensor:
    return ((solve(params, start, safe) - path) ** 2).mean()


def true_path(start: np.ndarray) -> np.ndarray:
    """The exact solution at the same times, through the eigenvectors of the matrix."""
    values, vectors = np.linalg.eig(TRUE)
    weights = np.linalg.solve(vectors, start.T.astype(complex))
    times = DT * np.arange(1, STEPS + 1)
    path = [(vectors * np.exp(values * t)) @ weights for t in times]
    return np.stack(path).real.transpose(0, 2, 1)


def main() -> None:
    rng = np.random.default_rng(0)
    params = initial_params(rng)
    first = rng.standard_normal((32, 2))
    start, path = pb.tensor(first), pb.tensor(true_path(first))

    plain, safe = (pb.grad(loss)(params, start, path, s) for s in (False, True))
    for got, want in zip(pb.tree.leaves(safe), pb.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-12)

    optimizer = pb.optim.adam(1e-2)
    state = optimizer.init(params)
    before = loss(params, start, path).item()
    for _ in range(300):
        grads = pb.grad(loss)(params, start, path)
        params, state = optimizer.update(grads, state, params)
    after = loss(params, start, path).item()
    assert after < 0.01 * before, (before, after)
    print(f"error of the path {before:.3f} to {after:.5f}")


if __name__ == "__main__":
    main()
