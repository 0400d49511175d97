"""An implicit layer: its output is the solution of an equation, not the end of a computation.

`fixed_point` iterates z = f(params, z) until it converges. Its derivative does not go back through
the iterations: by the implicit function theorem it follows from the equation at the solution, and
is another fixed point. The backward pass keeps only the solution. A deep equilibrium model (Bai,
Kolter and Koltun, 2019) has such a layer instead of many.
"""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn import functional as F


@pb.custom_vjp(nondiff_argnums=0)
def fixed_point(f, params, guess):
    """The z with z = f(params, z)."""
    tolerance = 100 * pb.finfo(guess.dtype).eps

    def is_moving(state):
        old, new, count = state
        return (abs(new - old).max() > tolerance) & (count < 1000)

    def step(state):
        _, z, count = state
        return z, f(params, z), count + 1

    return pb.while_loop(is_moving, step, (guess, f(params, guess), 1))[1]


def forward(f, params, guess):
    z = fixed_point(f, params, guess)
    return z, (params, z)


def backward(f, kept, g):
    """u = g + (df/dz)^T u at the solution, then (df/dparams)^T u; the guess does not matter."""

    def adjoint(given, u):
        params, z, g = given
        return g + pb.vjp(lambda z: f(params, z), z)[1](u)[0]

    params, z = kept
    u = fixed_point(adjoint, (params, z, g), g)
    return pb.vjp(lambda params: f(params, z), params)[1](u)[0], None


fixed_point.defvjp(forward, backward)


def cell(params, z):
    """A contraction: the norm of the weights is kept below 1."""
    weight, rest = params
    return pb.tanh(z @ (weight / (1 + pb.linalg.norm(weight))) + rest)


class Equilibrium(nn.Module):
    """z = tanh(W z + U x + b), solved for z; then the logits of classes."""

    def __init__(self, inputs: int, width: int, classes: int) -> None:
        self.inward, self.head = nn.Linear(inputs, width), nn.Linear(width, classes)
        self.weight = nn.init.normal(pb.random.key(3), (width, width), std=0.3)

    def forward(self, x):
        rest = self.inward(x)
        return self.head(fixed_point(cell, (self.weight, rest), pb.zeros_like(rest)))


def slope(f, params, along, step=1e-5) -> float:
    """The derivative of `f` along a direction, by central differences."""
    ahead, behind = (
        pb.tree.map(lambda p, t, s=sign: p + s * step * t, params, along) for sign in (1, -1)
    )
    return float(f(ahead) - f(behind)) / (2 * step)


def check_derivatives() -> None:
    """First and second derivatives of a fixed point, beside differences."""
    rng = np.random.default_rng(0)
    params, along = ([pb.tensor(rng.normal(size=s)) for s in ((5, 5), (5,))] for _ in range(2))

    def loss(params):
        return (fixed_point(cell, tuple(params), pb.zeros_like(params[1])) ** 2).sum()

    def directional(params):
        return sum((g * t).sum() for g, t in zip(pb.grad(loss)(params), along))

    for name, f in (("first", loss), ("second", directional)):
        got = float(sum((g * t).sum() for g, t in zip(pb.grad(f)(params), along)))
        want = slope(f, params, along)
        print(f"{name} derivative {got:.9f}, by differences {want:.9f}")
        assert abs(got - want) < 1e-6 * abs(want)


def main(steps: int = 200, width: int = 16) -> float:
    """Check derivatives, then train a model of wines; return its accuracy."""
    check_derivatives()
    x, y = pb.data.wine()
    x, y = pb.tensor((x - x.mean(0)) / x.std(0)), pb.tensor(y)
    with nn.rng(pb.random.key(0)):
        model = Equilibrium(x.shape[1], width, 3)
    rule = pb.optim.adam(1e-2)
    state = rule.init(model)

    @pb.compile
    def step(model, state):
        grads = pb.grad(lambda model: F.cross_entropy(model(x), y))(model)
        return rule.update(grads, state, model)

    for _ in range(steps):
        model, state = step(model, state)
    accuracy = (model(x).argmax(-1) == y).astype("float32").mean().item()
    print(f"{accuracy:.1%} of the wines recognised")
    return accuracy


if __name__ == "__main__":
    assert main() > 0.98
