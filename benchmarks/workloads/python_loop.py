"""The gradient through a Python loop: Runge-Kutta steps of a small neural differential equation.

Nothing is compiled by hand. JAX is left out: it would unroll the loop and compile for minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Case, Workload, normal

STEP = 0.01


def inputs(quick: bool) -> Any:
    rng, width, hidden = np.random.default_rng(0), 8, 16
    weights = {
        "w": normal(rng, width, hidden), "b": normal(rng, hidden, scale=0.1),
        "v": normal(rng, hidden, width),
    }  # fmt: skip
    return weights, normal(rng, 16, width, scale=1.0), 5 if quick else 170


def solved(tanh: Callable[[Any], Any], p: Any, y: Any, steps: int) -> Any:
    """The mean square of the solution, with the `tanh` of a library."""

    def velocity(y: Any) -> Any:
        return tanh(y @ p["w"] + p["b"]) @ p["v"]

    for _ in range(steps):
        k1 = velocity(y)
        k2 = velocity(y + 0.5 * STEP * k1)
        k3 = velocity(y + 0.5 * STEP * k2)
        k4 = velocity(y + STEP * k3)
        y = y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return (y * y).mean()


def with_pullback(arrays: Any) -> Case:
    import pullback as pb

    weights, start, steps = arrays
    weights, start = pb.tree.map(pb.tensor, (weights, start))
    gradient = pb.value_and_grad(lambda p: solved(pb.tanh, p, start, steps))

    def step() -> Any:
        return pb.wait(gradient(weights))

    return Case(step, step)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch

    weights, start, steps = arrays
    tensors = {name: torch.tensor(w, requires_grad=True) for name, w in weights.items()}
    y = torch.tensor(start)

    def step() -> Any:
        value = solved(torch.tanh, tensors, y, steps)
        grads = torch.autograd.grad(value, list(tensors.values()))
        return value, dict(zip(tensors, grads))

    return Case(step, step)


WORKLOADS = [
    Workload(
        "python_loop", "gradient through 170 Python iterations (Runge-Kutta steps)", inputs,
        {"pullback": with_pullback, "torch": with_torch}, torch_compile=False,
        note=(
            "running the program's pieces takes a third of it, recording ops another third. When "
            "the machine is faster, 18.6 ms, PyTorch 30.3."
        ),
    )
]  # fmt: skip
