"""Small modules to differentiate and run, and what their gradients must be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback.ops  # noqa: F401  (fills the op table)
from pullback import ir
from pullback.graph.dtypes import float64
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.op_table import TABLE
from pullback.ops.sources import Input

STEP = 1e-6


def op(name: str, *parameters: Any) -> Callable[..., Node]:
    """An instruction, as a function of nodes."""
    return TABLE[name](*parameters)


def build(make: Callable[..., Node], *shapes: tuple[int, ...], profile: str = "core-v1") -> Any:
    """The module that computes `make` of f64 inputs x, y, z of these shapes."""
    xs = [Input(name, shape, float64)() for name, shape in zip("xyz", shapes, strict=False)]
    return ir.Module.from_graph(Graph(xs, [make(*xs)]), profile)


class Derived:
    """A module, and its gradient module with a cotangent as input."""

    def __init__(self, module: Any, wrt: Sequence[Any] | None = None, **options: Any) -> None:
        self.module = module
        self.gradient, self.gradients = ir.autodiff(module, wrt=wrt, seed=True, **options)

    @property
    def lines(self) -> list[str]:
        """What was emitted after the primal instructions, without types."""
        primal = len(self.module.instructions) + 1  # and the cotangent
        return [line.split(" : ")[0] for line in instructions(self.gradient)[primal:]]

    @property
    def results(self) -> list[str]:
        """The values that the gradients are."""
        return [f"%{i}" for i in self.gradients.values()]

    def run(
        self, *arrays: Any, cotangent: Any = None, engine: str = "reference"
    ) -> list[np.ndarray]:
        """The gradients at a point; the cotangent is ones."""
        g = np.ones(self.gradient.graph.inputs[-1].type.shape) if cotangent is None else cotangent
        given = feed(self.module, arrays) | {"cotangent": np.asarray(g, np.float64)}
        made = ir.run(self.gradient, given, engine=engine)
        return made[len(self.module.outputs) :]

    def check(self, *arrays: np.ndarray) -> None:
        """Compare with central differences, along a random cotangent."""
        out = ir.run(self.module, feed(self.module, arrays), engine="reference")[0]
        g = np.random.default_rng(1).normal(size=out.shape)
        found = dict(zip(self.gradients, self.run(*arrays, cotangent=g), strict=True))
        for k, i in enumerate(inputs_of(self.module)):
            if i in found:
                expected = central_differences(self.module, arrays, k, g)
                np.testing.assert_allclose(found[i], expected, rtol=1e-7, atol=1e-8)


def check_rule(make: Callable[..., Node], *shapes: tuple[int, ...], **options: Any) -> Derived:
    """The derivative of `make`, which agrees with central differences at positive numbers."""
    profile = options.pop("profile", "core-v1")
    derived = Derived(build(make, *shapes, profile=profile), **options)
    rng = np.random.default_rng(0)
    derived.check(*[rng.uniform(0.5, 2.0, shape) for shape in shapes])
    return derived


def instructions(module: Any) -> list[str]:
    lines = module.text().strip().splitlines()
    return [line for line in lines if line.startswith("%")]


def inputs_of(module: Any) -> list[int]:
    return [i.results[0] for i in module.instructions if i.op == "Input"]


def feed(module: Any, arrays: Sequence[Any]) -> dict[str, np.ndarray]:
    pairs = zip(module.graph.names, module.graph.inputs, arrays, strict=True)
    return {name: np.asarray(a, x.type.dtype.numpy) for name, x, a in pairs}


def central_differences(module: Any, arrays: Sequence[np.ndarray], k: int, g: Any) -> np.ndarray:
    """The gradient of <g, module(arrays)> by argument k."""

    def value(x: np.ndarray) -> float:
        given = [x if i == k else a for i, a in enumerate(arrays)]
        return float(np.sum(g * ir.run(module, feed(module, given), engine="reference")[0]))

    made = np.zeros(arrays[k].shape)
    for place in np.ndindex(made.shape):
        step = np.zeros(made.shape)
        step[place] = STEP
        made[place] = (value(arrays[k] + step) - value(arrays[k] - step)) / (2 * STEP)
    return made


SCRIPT = """
import sys
from pullback import ir
module = ir.parse(sys.stdin.read())
try:
    print(ir.autodiff(module).gradient_module.text())
except Exception as error:
    print(type(error).__name__, error.code, error)
"""


def in_a_process(text: str, seed: int) -> str:
    """What a fresh process makes of a module: its gradient module's text, or the error."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=text, env=environment, text=True, check=True,
        capture_output=True, timeout=120,
    )  # fmt: skip
    return made.stdout.strip()
