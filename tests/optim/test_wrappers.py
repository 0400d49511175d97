"""Rules around rules: accumulation, averages, skipped steps, partitions, clipping, chains."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

o = pb.optim


@pytest.fixture(autouse=True)
def _reference():
    with pb.config(engine="reference"):
        yield


def run(rule, grads, start=None):
    """Return the parameters after each step, and the last state."""
    p = pb.tensor([1.0, 2.0], dtype="float64") if start is None else start
    state, found = rule.init(p), []
    for g in grads:
        p, state = rule.update(pb.asarray(g), state, p)
        found.append(p.numpy())
    return found, state


GRADS = np.random.default_rng(1).normal(size=(6, 2))


@pytest.mark.parametrize("every", [1, 2, 3])
def test_accumulation_takes_steps_with_means(every):
    rule = o.adam(o.schedules.linear(0.5, 0.1, 4))
    found, state = run(o.accumulate(rule, every=every), GRADS)
    means = GRADS.reshape(6 // every, every, 2).mean(axis=1)
    wanted, _ = run(rule, means)
    np.testing.assert_allclose(found[every - 1 :: every], wanted, 1e-12)
    for i in range(6):
        if i % every != every - 1:
            assert (found[i] == ([1.0, 2.0] if i < every else found[i - 1])).all()
    assert state.inner.step.item() == 6 // every and state.gathered.item() == 0


def test_averages():
    found, state = run(o.ema(o.sgd(0.5), decay=0.75), GRADS)
    average = np.array([1.0, 2.0])
    for p in found:
        average = 0.75 * average + 0.25 * p
    np.testing.assert_allclose(state.average.numpy(), average, 1e-12)
    model = {"w": pb.ones(2, dtype="float16"), "n": 3}
    average = o.ema(o.sgd(0.1)).init(model).average
    assert average["w"].dtype is pb.float32 and average["n"] == 3


def test_steps_that_are_not_finite_are_skipped():
    grads = [GRADS[0], [np.nan, 1.0], [np.inf, 1.0], GRADS[1]]
    found, state = run(o.apply_if_finite(o.adam(0.1)), grads)
    wanted, _ = run(o.adam(0.1), [GRADS[0], GRADS[1]])
    np.testing.assert_allclose(found, [wanted[0], wanted[0], wanted[0], wanted[1]], 1e-12)
    assert (state.skipped.item(), state.in_a_row.item(), state.inner.step.item()) == (2, 0, 2)
    found, state = run(o.apply_if_finite(o.sgd(0.1), max_in_a_row=1), grads[1:3])
    assert np.isinf(found[1]).any() and state.skipped.item() == 1


def test_partition():
    rules = {"a": o.adam(0.1), "b": o.sgd(0.5, momentum=0.9)}
    params = {"x": [pb.tensor([1.0]), pb.tensor([2.0])], "y": pb.tensor([3.0]), "n": 3}
    for labels in ({"x": "a", "y": "b", "n": "b"}, lambda path: "a" if "x" in path else "b"):
        rule = o.partition(rules, labels)
        new, state = params, rule.init(params)
        for _ in range(3):
            new, state = rule.update(new | {"n": None}, state, new)
        for key, name in (("x", "a"), ("y", "b")):
            alone, inner = params[key], rules[name].init(params[key])
            for _ in range(3):
                alone, inner = rules[name].update(alone, inner, alone)
            for a, b in zip(pb.tree.leaves(new[key]), pb.tree.leaves(alone), strict=True):
                assert a.item() == b.item()
        assert new["n"] == 3
    with pytest.raises(pb.PullbackError, match="a label must be one of 'a', 'b', got str 'c'"):
        o.partition(rules, lambda path: "c").init(params)
    with pytest.raises(pb.PullbackError, match="labels must be a function of the path, or a tree"):
        o.partition(rules, {"x": "a"}).init(params)
    with pytest.raises(pb.PullbackError, match="rules must be a dict of update rules"):
        o.partition({}, "a")


def test_clipping_by_norm():
    grads = {"w": pb.tensor([3.0, 0.0]), "b": pb.tensor([4.0j]), "n": None, "i": pb.tensor([7])}
    assert o.global_norm(grads).item() == 5.0
    clipped = o.clip_by_global_norm(grads, 2.5)
    assert clipped["w"].tolist() == [1.5, 0.0] and clipped["b"].tolist() == [2.0j]
    assert clipped["n"] is None and clipped["i"] is grads["i"]
    assert o.clip_by_global_norm(grads, 10.0)["w"].tolist() == [3.0, 0.0]
    half = pb.tensor([300.0, 400.0], dtype="float16")  # its squares overflow
    assert o.clip_by_global_norm(half, 5.0).tolist() == [3.0, 4.0]
    zero = pb.zeros(2)
    assert o.clip_by_global_norm(zero, 1.0).tolist() == [0.0, 0.0]
    assert o.global_norm([]).item() == 0.0


def test_clipping_by_value():
    grads = [pb.tensor([-3.0, 0.5], dtype="float16"), None, pb.tensor([9])]
    clipped = o.clip_by_value(grads, 1.0)
    assert clipped[0].tolist() == [-1.0, 0.5] and clipped[0].dtype is pb.float16
    assert clipped[2] is grads[2]
    with pytest.raises(pb.PullbackError, match="gradients must be real"):
        o.clip_by_value(pb.tensor([1j]), 1.0)
    for f in (o.clip_by_value, o.clip_by_global_norm):
        with pytest.raises(pb.PullbackError, match="must be above 0"):
            f(grads, 0.0)


def test_chains():
    def sign(grads):
        return pb.tree.map(pb.sign, grads)

    rule = o.chain(sign, lambda g: g * 2, o.sgd(0.5))
    assert run(rule, [[-3.0, 7.0]])[0][0].tolist() == [2.0, 1.0]
    limited = o.clip_by_value(o.clip_by_global_norm(o.sgd(1.0), 5.0), 3.5)
    assert run(limited, [[3.0, 4.0]])[0][0].tolist() == [-2.0, -1.5]
    for wrong in ((), (sign,), (3, o.sgd())):
        with pytest.raises(pb.PullbackError, match="chain: "):
            o.chain(*wrong)
    for make in (o.ema, o.apply_if_finite, lambda rule: o.accumulate(rule, 2)):
        with pytest.raises(pb.PullbackError, match="rule must be an update rule"):
            make(lambda g: g)
    with pytest.raises(pb.PullbackError, match="every must be at least 1"):
        o.accumulate(o.sgd(), 0)
    with pytest.raises(pb.PullbackError, match="decay must be at least 0 and below 1"):
        o.ema(o.sgd(), 1.0)


def test_wrapped_steps_are_one_program():
    """Also with donation, where no buffer may be given away twice."""
    rates = o.schedules.warmup(0.1, 3, o.schedules.cosine(0.1, 10))
    rule = o.adamw(rates, mask=lambda path: "w" in path)
    rule = o.apply_if_finite(o.accumulate(o.ema(o.clip_by_global_norm(rule, 1.0)), 2))
    rule = o.partition({"a": rule, "b": o.sgd(rates)}, {"w": "a", "b": "b"})
    params = {"w": pb.tensor([1.0, 2.0]), "b": pb.tensor([3.0])}

    def step(params, state):
        grads = pb.grad(lambda p: (p["w"] ** 2).sum() + p["b"].sum())(params)
        return rule.update(grads, state, params)

    with pb.config(engine="xla"):
        eager, state, counts = params, rule.init(params), []
        for _ in range(5):
            eager, state = step(eager, state)
            pb.evaluate(eager, state)
            counts.append(pb.cache_info().compiles)
        assert counts == counts[:1] * 5
        compiled = pb.compile(step, donate_argnums=(0, 1))
        given = pb.tree.map(lambda p: p * 1.0, params)
        given, state = compiled(given, rule.init(given))
        with pb.no_recompile():
            for _ in range(4):
                given, state = compiled(given, state)
        for key in params:
            np.testing.assert_allclose(given[key].numpy(), eager[key].numpy(), 1e-6)
