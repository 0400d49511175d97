"""A neural ODE: the right-hand side of a differential equation, learned from its solution.

The solver is a scan of Runge-Kutta steps. Its gradient is computed in three ways: through all
steps; with each step a checkpoint, so that the backward pass keeps one state per step; and by the
adjoint method, a `custom_vjp` that keeps the last state alone and solves the equation backwards.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import pullback as pb
from pullback import nn

DT = 0.05
TRUE = np.array([[-0.1, 2.0], [-2.0, -0.1]])  # a spiral


def runge_kutta(velocity, y, dt):
    """One step of the classical method for a tree of values `y`."""

    def moved(k, by):
        return pb.tree.map(lambda a, b: a + by * b, y, k)

    k1 = velocity(y)
    k2 = velocity(moved(k1, 0.5 * dt))
    k3 = velocity(moved(k2, 0.5 * dt))
    k4 = velocity(moved(k3, dt))
    return moved(pb.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, k1, k2, k3, k4), dt)


def solve(field, start, steps, safe=True):
    """The states after each step; with `safe`, each step is a checkpoint."""

    def advance(field, y):
        return runge_kutta(field, y, DT)

    step = pb.checkpoint(advance) if safe else advance

    def body(y, _):
        y = step(field, y)
        return y, y

    return pb.scan(body, start, None, length=steps)[1]


@pb.custom_vjp(nondiff_argnums=2)
def solve_by_adjoint(field, start, steps):
    """The same states, with the gradient by the adjoint method."""
    return solve(field, start, steps, safe=False)


def forward(field, start, steps):
    path = solve(field, start, steps, safe=False)
    return path, (field, path[-1])


def backward(steps, kept, g):
    """Solve backwards: the state y, its adjoint a, which jumps by g at each step, and the gradient
    of the parameters, which changes by a^T (df/dparams)."""
    field, last = kept

    def velocity(values):
        y, a, _ = values
        v, pull = pb.vjp(lambda field, y: field(y), field, y)
        by_params, by_y = pull(a)
        return v, -by_y, pb.tree.map(lambda x: -x, by_params)

    def step(values, g):
        y, a, params = values
        return runge_kutta(velocity, (y, a + g, params), -DT), None

    zeros = pb.zeros_like(last), pb.tree.map(pb.zeros_like, field)
    (_, a, params), _ = pb.scan(step, (last, *zeros), g, reverse=True)
    return params, a


solve_by_adjoint.defvjp(forward, backward)


def true_path(start: np.ndarray, steps: int) -> np.ndarray:
    """The exact solution at the same times, through the eigenvectors of the matrix."""
    values, vectors = np.linalg.eig(TRUE)
    weights = np.linalg.solve(vectors, start.T.astype(complex))
    path = [(vectors * np.exp(values * DT * n)) @ weights for n in range(1, steps + 1)]
    return np.stack(path).real.transpose(0, 2, 1)


def main(steps: int = 40, width: int = 32, updates: int = 300) -> tuple[float, float]:
    """Learn the equation; return the error of the path before and after."""
    first = np.random.default_rng(0).standard_normal((32, 2))
    start, path = pb.tensor(first), pb.tensor(true_path(first, steps))
    with nn.rng(pb.random.key(0)):
        field = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2)).to("float64")

    def loss(field, solver):
        return ((solver(field, start, steps) - path) ** 2).mean()

    solvers = partial(solve, safe=False), solve, solve_by_adjoint
    plain, safe, adjoint = (pb.grad(loss)(field, solver) for solver in solvers)
    for want, a, b in zip(*map(pb.tree.leaves, (plain, safe, adjoint)), strict=True):
        np.testing.assert_allclose(a.numpy(), want.numpy(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(b.numpy(), want.numpy(), rtol=1e-5, atol=1e-7)

    rule = pb.optim.adam(1e-2)
    state, errors = rule.init(field), []
    for _ in range(updates):
        error, grads = pb.value_and_grad(loss)(field, solve)
        field, state = rule.update(grads, state, field)
        errors.append(error)
    print(f"error of the path {errors[0].item():.3f} to {errors[-1].item():.5f}")
    return errors[0].item(), errors[-1].item()


if __name__ == "__main__":
    before, after = main()
    assert after < 0.01 * before
