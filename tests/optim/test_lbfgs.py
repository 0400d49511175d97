"""L-BFGS: minima of known functions, both forms, complex and sharded parameters, line search."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback.optim.line_search import DECREASE, FLATNESS, LineSearchTrial, strong_wolfe_line_search


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def trees(p):
    return (abs(p["z"] - (1 + 2j)) ** 2).sum() + ((p["w"] - 3.0) ** 4).sum() * p["n"]


# The function, the start, the minimum, and the largest number of evaluations
FUNCTIONS = {
    "rosenbrock": (rosenbrock, np.full(8, -1.2), np.ones(8), 200),
    "steep": (lambda x: (x**2 * np.array([1.0, 1e4])).sum(), np.ones(2), np.zeros(2), 60),
    "flat": (lambda x: pb.log(1 + x * x).sum(), np.array([30.0]), np.zeros(1), 60),
    "walls": (lambda x: (x - pb.log(x)).sum(), np.array([0.01, 50.0]), np.ones(2), 60),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _reference():
    with pb.config(engine="reference"):
        yield


@pytest.mark.parametrize("name", FUNCTIONS)
def test_minima(name):
    f, start, minimum, most = FUNCTIONS[name]
    found = pb.optim.lbfgs().minimize(f, pb.tensor(start))
    assert found.converged and found.evaluations <= most
    np.testing.assert_allclose(found.params.numpy(), minimum, atol=1e-6)
    assert found.value.item() == pytest.approx(f(pb.tensor(minimum)).item(), abs=1e-9)
    assert abs(found.gradient.numpy()).max() <= 1e-7


def test_trees_with_complex_and_constant_leaves():
    start = {"z": pb.tensor([0j], dtype="complex128"), "w": pb.tensor([1.0, 5.0]), "n": 2}
    found = pb.optim.lbfgs(tolerance_grad=1e-4).minimize(trees, start)
    assert found.params["z"].item() == pytest.approx(1 + 2j, abs=1e-4)
    assert found.params["w"].numpy() == pytest.approx(3.0, abs=0.05)
    assert found.params["w"].dtype is pb.float32 and found.params["n"] == 2


def test_step_by_step():
    rule, x = pb.optim.lbfgs(), pb.tensor(np.full(4, -1.2))
    state, values = rule.init(x), []
    for _ in range(60):
        x, state = rule.update(rosenbrock, state, x)
        values.append(rosenbrock(x).item())
    assert values == sorted(values, reverse=True) and values[-1] < 1e-12
    assert 40 < state.iterations.item() < 60 and state.steps[0].shape == (10, 4)
    whole = pb.optim.lbfgs().minimize(rosenbrock, pb.tensor(np.full(4, -1.2)), max_iter=10)
    assert whole.value.item() == values[9] and whole.iterations == 10


def test_the_object_form_finds_the_same():
    w = pb.tensor(np.full(4, -1.2))
    opt = pb.optim.LBFGS([w], max_iter=10, max_eval=100)

    def closure():
        opt.zero_grad()
        loss = rosenbrock(w)
        loss.backward()
        return loss

    losses = [opt.step(closure).item() for _ in range(7)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 1e-12
    assert w.is_leaf and w.requires_grad
    whole = pb.optim.lbfgs().minimize(rosenbrock, pb.tensor(np.full(4, -1.2)), max_iter=10)
    assert losses[1] == whole.value.item()


def test_directions_are_compiled_once():
    """Whether the history is filled or not, and also in another minimisation."""
    with pb.config(engine="xla"):
        rule, x = pb.optim.lbfgs(history_size=3), pb.tensor(np.full(3, -1.2))
        state, counts = rule.init(x), []
        for _ in range(6):
            x, state = rule.update(rosenbrock, state, x)
            counts.append(pb.cache_info().compiles)
        assert counts[2:] == counts[2:3] * 4


def test_sharded_parameters_keep_their_sharding():
    mesh = pb.DeviceMesh(1, "dp")
    x = pb.tensor(np.full((2, 3), 5.0)).shard(mesh, pb.P("dp"))
    rule = pb.optim.lbfgs()
    state = rule.init(x)
    assert state.steps[0].sharding.spec is pb.P(None, "dp")
    new, state = rule.update(lambda x: (x**2).sum(), state, x)
    assert new.sharding.spec is pb.P("dp") and state.turns[0].sharding.spec is pb.P(None, "dp")


LINES = {
    "parabola": (lambda t: (t - 1) ** 2, lambda t: 2 * (t - 1)),
    "far": (lambda t: (t / 50 - 1) ** 2, lambda t: (t / 50 - 1) / 25),
    "near": (lambda t: (100 * t - 1) ** 2, lambda t: 200 * (100 * t - 1)),
    "bumps": (lambda t: t**2 / 20 - math.sin(3 * t), lambda t: t / 10 - 3 * math.cos(3 * t)),
    "wall": (lambda t: -math.sqrt(0.7 - t) - 3 * t if t < 0.7 else math.nan,
             lambda t: 0.5 / math.sqrt(0.7 - t) - 3 if t < 0.7 else math.nan),
    "cliff": (lambda t: t * t - t if t < 0.6 else math.inf, lambda t: 2 * t - 1),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("first", [0.1, 1.0, 10.0])
def test_the_strong_wolfe_conditions_hold(name, first):
    value, slope = LINES[name]

    def trial(t: float) -> LineSearchTrial:
        return LineSearchTrial(t, value(t), slope(t), None, None, 0.0, None)

    start = trial(0.0)
    found = strong_wolfe_line_search(trial, start, first, 25, 1e-12)
    assert found.t > 0
    assert found.value <= start.value + DECREASE * found.t * start.slope
    assert abs(found.slope) <= FLATNESS * abs(start.slope)
