"""Random programs over several dtypes, with all that a scenario must give: values, derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from discrete_steps import DISCRETE, special, widened
from programs import ALL, run
from rare_steps import RARE
from structured_steps import STRUCTURED

import pullback as pb
from pullback.graph.dtypes import dtype

STEPS: list[Callable] = [
    *map(widened, ALL), *[widened(step, alone=True) for step in STRUCTURED], *DISCRETE,
    *RARE,
]  # fmt: skip
SHAPES = [
    [(3, 4), (3, 4), (4,), ()],
    [(4, 6), (6, 4), (6,), ()],
    [(5, 2), (2, 5), (5, 1), (1,)],
    [(2, 3, 4), (4, 3), (3, 4), ()],
    [(1, 4), (4, 1), (1, 1), (1, 1, 2)],
]
FLOATS = ["float64"] * 6 + ["float32"] * 3 + ["float16"]


class MixedProgram:
    """A random program of floats, integers and masks; one in four has special values as inputs."""

    def __init__(self, seed: int, steps: list | None = None) -> None:
        self.seed = seed
        rng = np.random.default_rng([11, seed])
        shapes = SHAPES[rng.integers(len(SHAPES))]
        self.float = FLOATS[rng.integers(len(FLOATS))]
        self.special = bool(rng.integers(4) == 0)
        self.floats = [rng.uniform(-2, 2, shape).astype(self.float) for shape in shapes]
        self.tangents = [rng.uniform(-1, 1, shape).astype(self.float) for shape in shapes]
        if self.special:
            self.floats = [special(rng, a) for a in self.floats]
        self.others = [
            rng.integers(0, 2, shapes[0]).astype(bool), rng.integers(-4, 5, shapes[0]),
            rng.integers(0, 3, shapes[0][-1:]).astype(np.int32),
        ]  # fmt: skip
        count = int(rng.integers(3, 7))
        drawn = [tuple(map(int, step)) for step in rng.integers(0, 1000, (count, 3))]
        self.steps = drawn if steps is None else steps

    @property
    def arrays(self) -> list[np.ndarray]:
        return [*self.others, *self.floats]

    def tensors(self) -> list[Any]:
        return [pb.tensor(a) for a in self.arrays]

    def function(self, steps: list[Callable] = STEPS) -> Callable:
        """The program as a function of all its inputs: a list of its values."""

        used = [steps[op % len(steps)] for op, _, _ in self.steps]  # guards walk them all
        numbered = [(i, operand, choice) for i, (_, operand, choice) in enumerate(self.steps)]

        def program(*inputs: Any) -> list[Any]:
            return run(numbered, inputs, used)

        return program

    def derivatives(self, f: Callable) -> Callable:
        """The values of `f`, the gradients of its floats, and its tangents along a direction."""

        def everything(*inputs: Any) -> Any:
            others, xs = inputs[: len(self.others)], inputs[len(self.others) :]

            def parts(*xs: Any) -> tuple[list, list]:
                made = f(*others, *xs)
                return [y for y in made if dtype(y.dtype).is_inexact], made

            made, pull, values = pb.vjp(parts, *xs, has_aux=True)
            if not made:
                return values, [], []
            tangents = [pb.tensor(t) for t in self.tangents]
            pushed = pb.jvp(lambda *xs: parts(*xs)[0], xs, tangents)[1]
            return values, list(pull(self.cotangents(made))), pushed

        return everything

    def expect(self) -> None:
        """Set what the program gives: its values, without any transform, and the derivatives."""
        if hasattr(self, "want"):
            return
        f = self.function()
        _, pulled, pushed = self.derivatives(f)(*self.tensors())
        self.parts = [[y.numpy() for y in part] for part in (f(*self.tensors()), pulled, pushed)]
        self.want = [y for part in self.parts for y in part]

    @property
    def finite(self) -> bool:
        """Whether all inputs and values are."""
        return not self.special and all(np.isfinite(y).all() for y in self.parts[0])

    def cotangents(self, made: list) -> list[Any]:
        rng = np.random.default_rng([12, self.seed])
        drawn = [rng.uniform(-1, 1, y.shape) for y in made]
        return [pb.astype(pb.tensor(g), y.dtype) for g, y in zip(drawn, made, strict=True)]

    def __str__(self) -> str:
        """The steps by name, with the numbers that choose their operands, and the IR."""
        inputs = ", ".join([f"{a.dtype}{list(a.shape)}" for a in self.arrays])
        names = [f"{STEPS[op % len(STEPS)].__name__}({a}, {n})" for op, a, n in self.steps]
        return f"MixedProgram({self.seed}, {self.steps})\n  {inputs}\n  {'; '.join(names)}"
