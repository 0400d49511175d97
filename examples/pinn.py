"""A physics-informed network: Burgers' equation u_t + u u_x = v u_xx without a grid.

The network is a function u(t, x). `jvp` gives its derivatives, and the loss is how far they are
from fulfilling the equation. The result is compared with the exact solution, which Cole and Hopf
found through the heat equation.
"""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback import nn

VISCOSITY = 0.1


class Solution(nn.Module):
    """A function of time and place that begins as -sin(pi x) and is 0 at x = -1 and x = 1."""

    def __init__(self, width: int) -> None:
        self.network = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, t, x):
        free = self.network(pb.stack([t, x]))[0]
        return -pb.sin(np.pi * x) + t * (1 - x * x) * free


def residual(u, t, x):
    """How far `u` is from the equation at one point."""

    def along_x(x):
        return pb.jvp(lambda x: u(t, x), (x,), (pb.ones_like(x),))

    (value, u_x), (_, u_xx) = pb.jvp(along_x, (x,), (pb.ones_like(x),))
    _, u_t = pb.jvp(lambda t: u(t, x), (t,), (pb.ones_like(t),))
    return u_t + value * u_x - VISCOSITY * u_xx


def loss(model, t, x):
    return (pb.vmap(lambda t, x: residual(model, t, x))(t, x) ** 2).mean()


def exact(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The solution of Cole and Hopf, with its integrals by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite.hermgauss(60)
    place = x[..., None] - nodes * np.sqrt(4 * VISCOSITY * t[..., None])
    density = weights * np.exp(-np.cos(np.pi * place) / (2 * np.pi * VISCOSITY))
    return -(density * np.sin(np.pi * place)).sum(-1) / density.sum(-1)


def main(points: int = 400, width: int = 20, steps: int = 3000) -> float:
    """Train; return the relative L2 error for times up to 1."""
    with nn.rng(pb.random.key(0)):
        model = Solution(width).to("float64")
    t = pb.random.uniform(pb.random.key(1), (points,), dtype="float64")
    x = pb.random.uniform(pb.random.key(2), (points,), low=-1.0, high=1.0, dtype="float64")
    rule = pb.optim.adam(pb.optim.schedules.cosine(1e-2, steps))

    @pb.compile
    def train(model):
        def step(carry, _):
            model, state = carry
            value, grads = pb.value_and_grad(loss)(model, t, x)
            return rule.update(grads, state, model), value

        (model, _), losses = pb.scan(step, (model, rule.init(model)), None, length=steps)
        return model, losses

    model, losses = train(model)
    print(f"residual {losses[0].item():.3f} to {losses[-1].item():.1e}")

    times, places = np.meshgrid(np.linspace(0, 1, 21), np.linspace(-1, 1, 81), indexing="ij")
    on_grid = pb.vmap(pb.vmap(model))(pb.tensor(times), pb.tensor(places)).numpy()
    wanted = exact(times, places)
    error = float(np.linalg.norm(on_grid - wanted) / np.linalg.norm(wanted))
    print(f"relative error of the solution {error:.1e}")
    return error


if __name__ == "__main__":
    assert main() < 0.01
