"""Differentiate through a solver by the implicit function theorem.

`fixed_point` iterates z = f(params, z) until it converges. Its derivative does not go back through
the iterations: it is the derivative of the equation at the solution, which is another fixed point.
The backward pass therefore keeps only the solution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb

TOLERANCE = 1e-12


def iterate(f: Callable, z: pb.Tensor) -> pb.Tensor:
    """Apply `f` until the value converges, in plain Python that reads values."""
    while True:
        new = f(z)
        if abs(new - z).max() < TOLERANCE:
            return new
        z = new


@pb.custom_vjp(nondiff_argnums=0)
def fixed_point(f: Callable, params: Any, guess: pb.Tensor) -> pb.Tensor:
    """The z with z = f(params, z)."""
    return iterate(lambda z: f(params, z), guess)


def forward(f: Callable, params: Any, guess: pb.Tensor) -> tuple:
    z = fixed_point(f, params, guess)
    return z, (params, z)


def backward(f: Callable, kept: tuple, g: pb.Tensor) -> tuple:
    """u = g + (df/dz)^T u at the solution, then (df/dparams)^T u; the guess does not matter."""
    params, z = kept
    _, pull_z = pb.vjp(lambda z: f(params, z), z)
    _, pull_params = pb.vjp(lambda params: f(params, z), params)
    u = iterate(lambda u: g + pull_z(u)[0], g)
    return pull_params(u)[0], None


fixed_point.defvjp(forward, backward)


def layer(params: dict, z: pb.Tensor) -> pb.Tensor:
    """A contraction: the weights are small."""
    return pb.tanh(params["w"] @ z + params["b"])


def loss(params: dict) -> pb.Tensor:
    z = fixed_point(layer, params, pb.zeros_like(params["b"]))
    return (z * z).sum()


def slope(f: Callable, params: dict, along: dict, step: float = 1e-5) -> float:
    """The derivative of `f` along a direction, by central differences."""
    ahead, behind = (
        pb.tree.map(lambda p, t, s=sign: p + s * step * t, params, along) for sign in (1, -1)
    )
    return float(f(ahead) - f(behind)) / (2 * step)


def main() -> None:
    rng = np.random.default_rng(0)
    params = {
        "w": pb.tensor(rng.standard_normal((5, 5)) * 0.25),
        "b": pb.tensor(rng.standard_normal(5)),
    }
    along = pb.tree.map(lambda p: pb.tensor(rng.standard_normal(p.shape)), params)

    def directional(params: dict) -> pb.Tensor:
        g = pb.grad(loss)(params)
        return sum((g[k] * along[k]).sum() for k in params)

    first = float(directional(params)), slope(loss, params, along)
    print(f"first derivative   {first[0]:.9f}   by differences {first[1]:.9f}")
    assert abs(first[0] - first[1]) < 1e-7 * abs(first[1])

    g = pb.grad(directional)(params)
    second = float(sum((g[k] * along[k]).sum() for k in params)), slope(directional, params, along)
    print(f"second derivative  {second[0]:.9f}   by differences {second[1]:.9f}")
    assert abs(second[0] - second[1]) < 1e-6 * abs(second[1])


if __name__ == "__main__":
    main()
