"""Random programs of loops and conditionals, compared with Python control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb

UNARY = [pb.sin, pb.tanh, lambda x: x * 0.5, lambda x: x * x * 0.3, pb.stop_gradient]
BINARY = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: pb.where(x > y, x, y * 0.7),
    lambda x, y: x - pb.sum(y) * 0.2,
]


class Steps:
    """Python control flow with the interface of pb.scan, pb.cond and pb.switch."""

    @staticmethod
    def scan(f: Callable, init: Any, xs: Any, length: int, reverse: bool) -> Any:
        order = range(length)
        ys = []
        for i in reversed(order) if reverse else order:
            init, y = f(init, [x[i] for x in xs])
            ys.append(y)
        ys = ys[::-1] if reverse else ys
        return init, [pb.stack(list(rows)) for rows in zip(*ys)]

    @staticmethod
    def cond(pred: Any, f: Callable, g: Callable, *args: Any) -> Any:
        return f(*args) if bool(pred) else g(*args)

    @staticmethod
    def switch(index: Any, branches: list, *args: Any) -> Any:
        return branches[int(index)](*args)


class Program:
    """A random function of three vectors: a loop whose body contains loops and conditionals."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, flow: Any, *inputs: Any) -> Any:
        """Evaluate the function with control flow by `flow`; random choices are repeatable."""
        self.rng = np.random.default_rng(self.seed)
        self.flow = flow
        made = self.loop(list(inputs), depth=2)
        return sum((pb.sum(y * (k + 1)) for k, y in enumerate(made)), pb.tensor(0.0))

    def pick(self, values: list) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def formulas(self, values: list, count: int) -> list:
        made = list(values)
        for _ in range(count):
            if self.rng.random() < 0.4:
                made.append(self.pick(UNARY)(self.pick(made)))
            else:
                made.append(self.pick(BINARY)(self.pick(made), self.pick(made)))
        return made

    def anything(self, values: list, depth: int) -> list:
        made = self.formulas(values, int(self.rng.integers(1, 4)))
        kind = self.rng.random()
        if depth and kind < 0.35:
            made += self.choice(made, depth)
        elif depth and kind < 0.6:
            made += self.loop(made, depth - 1)
        return made

    def choice(self, values: list, depth: int) -> list:
        state = self.rng.bit_generator.state
        test, args = self.pick(values), [self.pick(values) for _ in range(2)]
        seeds = self.rng.integers(1 << 30, size=3)
        after = self.rng.bit_generator.state

        def branch(k: int) -> Callable:
            def run(*args: Any) -> Any:
                self.rng = np.random.default_rng(seeds[k])
                made = self.anything([*args, *values[:2]], depth - 1)
                return [self.pick(made), self.pick(made)]

            return run

        if state["state"]["state"] % 2:
            made = self.flow.cond(pb.sum(test) > 0.1, branch(0), branch(1), *args)
        else:
            index = pb.astype(pb.sum(test) > 0.1, "int64") + pb.astype(pb.sum(test) > 0.5, "int64")
            made = self.flow.switch(index, [branch(k) for k in range(3)], *args)
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = after
        return made

    def loop(self, values: list, depth: int) -> list:
        length, carries = (int(self.rng.integers(1, hi)) for hi in (5, 4))
        reverse = bool(self.rng.random() < 0.3)
        init = [self.pick(values) for _ in range(carries)]
        rows = [
            pb.stack([self.pick(values) * (k + 1) * 0.3 for k in range(length)])
            for _ in range(int(self.rng.integers(0, 3)))
        ]
        seed = int(self.rng.integers(1 << 30))
        after = self.rng.bit_generator.state

        def body(state: list, xs: list) -> Any:
            self.rng = np.random.default_rng(seed)
            made = self.anything([*state, *xs, *values[:2]], depth)
            new = [self.pick(made) for _ in range(carries)]
            return new, [self.pick(made) for _ in range(int(self.rng.integers(0, 3)))]

        last, ys = self.flow.scan(body, init, rows, length=length, reverse=reverse)
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = after
        return [*last, *[pb.sum(y, axis=0) for y in ys]]


INPUTS = [np.array([0.3, -0.8]), np.array([1.1, 0.4]), np.array([-0.5, 0.9])]


def tensors(scale: float = 1.0) -> list:
    return [pb.tensor(x * scale) for x in INPUTS]


def close(got: Any, want: Any) -> None:
    for a, b in zip(pb.tree.leaves(got), pb.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-10)


def second(f: Callable, ts: list) -> Any:
    """Return second derivatives along `ts`, forward over reverse and reverse over reverse."""
    gradient = pb.grad(f, (0, 1, 2))
    along = lambda *xs: sum(pb.sum(g * t) for g, t in zip(gradient(*xs), ts))  # noqa: E731
    xs = tensors()
    return pb.jvp(gradient, tuple(xs), tuple(ts))[1], pb.grad(along, (0, 1, 2))(*xs)


@pytest.fixture(autouse=True)
def _double() -> Any:
    with pb.default_dtype("float64"):
        yield


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_equal_python_control_flow(seed):
    program = Program(seed)
    f, g = (lambda *xs, flow=flow: program(flow, *xs) for flow in (pb, Steps))
    ts = [pb.tensor(np.cos(x * 7)) for x in INPUTS]
    with pb.config(engine="reference"):
        close(f(*tensors()), g(*tensors()))
        close(pb.grad(f, (0, 1, 2))(*tensors()), pb.grad(g, (0, 1, 2))(*tensors()))
        close(pb.jvp(f, tuple(tensors()), tuple(ts)), pb.jvp(g, tuple(tensors()), tuple(ts)))
        if seed % 3 == 0:
            close(second(f, ts), second(g, ts))


@pytest.mark.parametrize("seed", range(60, 90))
def test_random_programs_under_vmap(seed):
    program = Program(seed)
    f, g = (lambda *xs, flow=flow: program(flow, *xs) for flow in (pb, Steps))
    scales = (1.0, -0.7, 0.2)
    with pb.config(engine="reference"):
        wide = [pb.stack(list(xs)) for xs in zip(*[tensors(s) for s in scales])]
        rows = [tensors(s) for s in scales]
        close(pb.vmap(f)(*wide), pb.stack([g(*xs) for xs in rows]))
        each = [pb.grad(g, (0, 1, 2))(*xs) for xs in rows]
        want = tuple(pb.stack(list(gs)) for gs in zip(*each))
        close(pb.vmap(pb.grad(f, (0, 1, 2)))(*wide), want)
        total = lambda *xs: pb.vmap(f)(*xs).sum()  # noqa: E731
        close(pb.grad(total, (0, 1, 2))(*wide), want)


@pytest.mark.parametrize("seed", range(90, 98))
def test_random_programs_agree_on_xla(seed):
    f = lambda *xs: Program(seed)(pb, *xs)  # noqa: E731
    made = pb.value_and_grad(f, (0, 1, 2))(*tensors())
    pb.evaluate(made)
    with pb.config(engine="reference"):
        close(made, pb.value_and_grad(f, (0, 1, 2))(*tensors()))
