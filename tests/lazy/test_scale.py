"""Deep and long graphs: up to 100,000 ops, stacked diamonds, loops that never read."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from counters import counting, live_nodes

import pullback as pb
from pullback import debug
from pullback.graph.ambient import PENDING_LIMIT, thread
from pullback.lazy.launch import Launch
from pullback.lazy.pieces import PIECE

LONG = {"xla": 100_000, "reference": 20_000}  # ops, by engine


@pytest.fixture(autouse=True)
def _low_recursion_limit() -> Any:
    """No walk over a graph may recurse."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    yield
    sys.setrecursionlimit(limit)


def affine_chain(x: Any, ops: int) -> Any:
    """Apply x * a + b repeatedly: two ops an iteration."""
    for _ in range(ops // 2):
        x = x * 0.9999 + 0.0001
    return x


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_a_long_chain_is_recorded_and_evaluated(engine):
    pb.clear_cache()
    start = np.array([2.0, -1.0])
    with pb.config(engine=engine), counting() as counts:
        long = LONG[engine]
        y = affine_chain(pb.tensor(start), long)
        np.testing.assert_allclose(y.numpy(), affine_chain(start, long), rtol=1e-9)
        assert long // PENDING_LIMIT <= counts.programs <= 2 * long // PIECE + 1
        assert counts.compiles <= 4, [str(c) for c in pb.cache_info().causes]


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_a_long_chain_is_differentiated(engine):
    pb.clear_cache()
    start = np.array([2.0, -1.0])
    with pb.config(engine=engine), counting() as counts:
        long = LONG[engine]
        value, g = pb.value_and_grad(lambda x: affine_chain(x, long).sum())(pb.tensor(start))
        np.testing.assert_allclose(value.item(), affine_chain(start, long).sum(), rtol=1e-9)
        np.testing.assert_allclose(g.numpy(), np.full(2, 0.9999 ** (long // 2)), rtol=1e-9)
        assert counts.compiles <= 8, [str(c) for c in pb.cache_info().causes]
    assert len(debug.rules_applied()) == long + 1
    before = live_nodes()
    del value, g
    gc.collect()
    assert live_nodes() <= before


def test_backward_through_a_chain():
    pb.clear_cache()
    w = pb.tensor(np.array([2.0]), requires_grad=True)
    with pb.config(engine="reference"):
        loss = affine_chain(w, LONG["reference"]).sum()
        loss.backward()
        expected = 0.9999 ** (LONG["reference"] // 2)
        np.testing.assert_allclose(w.grad.numpy(), [expected], rtol=1e-9)


def test_forward_mode_through_a_chain():
    with pb.config(engine="reference"):
        x, t = pb.tensor(np.array(2.0)), pb.tensor(np.array(1.0))
        _, t = pb.jvp(lambda x: affine_chain(x, LONG["reference"]), (x,), (t,))
        np.testing.assert_allclose(t.item(), 0.9999 ** (LONG["reference"] // 2), rtol=1e-9)


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_60_stacked_diamonds_take_a_linear_number_of_rule_calls(engine):
    def f(x: Any) -> Any:
        for _ in range(60):
            x = x + x
        return x

    x = pb.tensor(np.float64(1.5))
    with pb.config(engine=engine):
        g = pb.grad(f)(x)
        assert debug.rules_applied() == ["Add"] * 60
        assert g.item() == 2.0**60
        _, t = pb.jvp(f, (x,), (pb.tensor(np.float64(1.0)),))
        assert debug.rules_applied() == ["Add"] * 60
        assert t.item() == 2.0**60


def test_diamonds_of_products_take_a_linear_number_of_rule_calls():
    def f(x: Any) -> Any:
        for _ in range(200):
            a, b = pb.sin(x), pb.cos(x)
            x = a * b + x
        return x

    pb.grad(f)(pb.tensor(np.float64(0.3)))
    assert len(debug.rules_applied()) == 800


def test_a_loop_that_never_reads_stays_bounded():
    x = pb.tensor(np.ones(3))
    most_handles = most_nodes = 0
    with counting() as counts:
        for i in range(4 * PENDING_LIMIT):
            x = pb.sin(x) + 1.0
            if i % 500 == 0:
                most_handles = max(most_handles, len(thread.handles))
                most_nodes = max(most_nodes, pb.engine_info().live_nodes)
        assert counts.programs >= 3
        assert counts.compiles <= 3
    assert most_handles <= 2 * PENDING_LIMIT
    assert most_nodes <= 4 * PENDING_LIMIT + live_nodes()
    assert x.shape == (3,)
    np.testing.assert_allclose(x.numpy(), 1.934563, rtol=1e-6)


def test_a_loop_that_keeps_all_results_is_evaluated_meanwhile(monkeypatch):
    """Never as one program with thousands of results, which takes XLA minutes to compile."""
    sizes = []
    original = Launch.run

    def counted(self: Any) -> None:
        sizes.append((len(self.work.nodes), len(self.outputs)))
        original(self)

    monkeypatch.setattr(Launch, "run", counted)
    with pb.config(engine="reference"):
        x = pb.tensor(np.ones(2))
        kept = [x * float(i) for i in range(PENDING_LIMIT - 500)]
        pb.evaluate(kept)
        for i in range(2 * PENDING_LIMIT):
            kept.append(x * float(i))
        computed = sum(1 for t in kept if t._node.value is not None)
        assert computed >= PENDING_LIMIT
        for i in (0, 17, PENDING_LIMIT - 501):
            assert kept[i].tolist() == [i, i]
    assert max(nodes for nodes, _ in sizes) <= PENDING_LIMIT
    assert max(outputs for _, outputs in sizes) <= PIECE


@pytest.mark.parametrize("how", ["pending", "differentiated"])
def test_deep_graphs_are_garbage_collected_without_recursion(how):
    pb.clear_cache()  # the programs of the reference engine are graphs
    before = live_nodes()
    with pb.config(engine="reference"):
        x = pb.tensor(np.ones(1))
        if how == "pending":
            from pullback.graph.node import Node
            from pullback.ops.prelude import TABLE

            node: Any = x._node
            for _ in range(LONG["xla"]):  # more than can be pending
                node = TABLE["Sin"]()(node)
            last = weakref.ref(node)
            assert isinstance(node, Node)
        else:
            y, node = pb.vjp(lambda a: affine_chain(a, LONG["xla"]), x)
            last = weakref.ref(y._node)
            del y
        assert live_nodes() >= before + LONG["xla"] // 2
        del node
        gc.collect()
        assert last() is None
        del x
    pb.clear_cache()
    assert live_nodes() <= before + 1


def test_wide_graphs():
    """One value is used 20,000 times."""
    x = pb.tensor(np.array([1.0, 2.0]))

    def f(a: Any) -> Any:
        total = a
        for _ in range(20_000):
            total = total + a
        return total.sum()

    with pb.config(engine="reference"):
        assert pb.grad(f)(x).tolist() == [20_001, 20_001]


def test_the_states_of_a_loop_are_stacked_in_pieces():
    """One program that stacks a long elementwise chain takes XLA a minute to compile."""
    n, dt = 60, 0.05

    def oscillator(k: Any) -> Any:
        x, v = pb.tensor(1.0), pb.tensor(0.0)
        states = []
        for _ in range(n):
            v = v - dt * k * x
            x = x + dt * v
            states.append(x)
        return pb.stack(states)

    before = pb.engine_info().programs_run
    y, slope = pb.jvp(oscillator, (pb.tensor(2.0),), (pb.tensor(1.0),))
    pb.evaluate(y, slope)
    assert pb.engine_info().programs_run - before > 2 * (n // PIECE + 1)
    with pb.config(engine="reference"):
        want, want_slope = pb.jvp(oscillator, (pb.tensor(2.0),), (pb.tensor(1.0),))
        np.testing.assert_allclose(y.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(slope.numpy(), want_slope.numpy(), rtol=1e-4, atol=1e-5)


def test_a_step_with_many_parameters_is_one_program():
    rng = np.random.default_rng(0)
    params = [pb.tensor(rng.normal(size=(4, 4)).astype(np.float32)) for _ in range(60)]
    x, rule = pb.tensor(np.ones((2, 4), np.float32)), pb.optim.adam(1e-3)
    state = rule.init(params)

    def loss_of(params: Any, x: Any) -> Any:
        for w in params:
            x = pb.tanh(x @ w)
        return x.sum()

    def step(params: Any, state: Any) -> Any:
        loss, grads = pb.value_and_grad(loss_of)(params, x)
        return *rule.update(grads, state, params), loss

    with pb.config(engine="reference"):
        params, state, loss = step(params, state)
        loss.item()
        before = pb.engine_info().programs_run
        for _ in range(3):
            params, state, loss = step(params, state)
            loss.item()
        assert pb.engine_info().programs_run - before == 3


def test_a_program_in_pieces_takes_the_numbers_of_each_run():
    start = np.linspace(0, 1, 4, dtype=np.float32)
    w = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)

    def solved(tanh, matrix, y, step):
        for _ in range(60):
            y = y + step * tanh(tanh(y @ matrix) @ matrix)
        return y

    x, weight = pb.wait((pb.tensor(start), pb.tensor(w)))
    for step in (0.125, 0.5, 0.5, 0.125):
        got = solved(pb.tanh, weight, x, step).numpy()
        np.testing.assert_allclose(got, solved(np.tanh, w, start, np.float32(step)), rtol=2e-4)
