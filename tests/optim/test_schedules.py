"""Schedules: their values, on numbers and on tensors, and in optimizers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb

s = pb.optim.schedules

# The schedule, and its values in some steps
VALUES = {
    "constant": (s.constant(0.5), {0: 0.5, 1000: 0.5}),
    "linear": (s.linear(1.0, 3.0, 4), {0: 1.0, 1: 1.5, 4: 3.0, 9: 3.0}),
    "polynomial": (s.polynomial(1.0, 0.5, 4, 3.0), {0: 1.0, 2: 0.5625, 4: 0.5, 9: 0.5}),
    "cosine": (s.cosine(1.0, 4, 0.5), {0: 1.0, 1: 0.5 + math.cos(math.pi / 8) ** 2 / 2, 2: 0.75,
                                       4: 0.5, 9: 0.5}),
    "exponential": (s.exponential(1.0, 0.25, 2), {0: 1.0, 1: 0.5, 2: 0.25, 4: 0.0625}),
    "stairs": (s.exponential(1.0, 0.25, 2, True, 0.1), {0: 1.0, 1: 1.0, 2: 0.25, 9: 0.1}),
    "piecewise": (s.piecewise([2, 5], [1.0, 0.5, 0.1]), {0: 1.0, 1: 1.0, 2: 0.5, 5: 0.1, 9: 0.1}),
    "warm-up": (s.warmup(2.0, 4, start=1.0), {0: 1.0, 2: 1.5, 4: 2.0, 9: 2.0}),
    "joined": (s.warmup(2.0, 4, s.linear(2.0, 0.0, 2)), {0: 0.0, 2: 1.0, 4: 2.0, 5: 1.0, 9: 0.0}),
    "three": (s.join([s.constant(1.0), lambda n: n * 10.0, s.constant(3.0)], [2, 4]),
              {0: 1.0, 1: 1.0, 2: 0.0, 3: 10.0, 4: 3.0}),
    "one cycle": (s.one_cycle(1.0, 11, 6 / 11, 10.0, 100.0),
                  {0: 0.1, 5: 1.0, 10: 0.001, 20: 0.001}),
}  # fmt: skip


def test_values_of_numbers_and_tensors():
    steps = pb.tensor(np.arange(21), dtype="float64")
    with pb.config(engine="reference"):
        found = {name: schedule(steps).numpy() for name, (schedule, _) in VALUES.items()}
    for name, (schedule, values) in VALUES.items():
        for step, value in values.items():
            assert schedule(step) == pytest.approx(value, 1e-12), (name, step)
            assert type(schedule(step)) is float
        each = [schedule(step) for step in range(21)]
        np.testing.assert_allclose(found[name], each, 1e-12, 1e-12, err_msg=name)


def test_they_are_shown_as_they_are_written():
    assert repr(s.cosine(0.1, 100)) == "cosine(0.1, 100, 0.0)"
    assert s.cosine(0.1, 100) == s.cosine(0.1, 100) != s.cosine(0.2, 100)
    assert dir(s) == sorted(s.__all__)


def test_a_schedule_in_a_compiled_step_is_guarded():
    rule = pb.optim.sgd(s.linear(1.0, 0.0, 4))

    @pb.compile
    def step(p, state):
        return rule.update(pb.ones_like(p), state, p)

    p = pb.tensor([0.0])
    p, state = step(p, rule.init(p))
    with pb.no_recompile():
        for _ in range(5):
            p, state = step(p, state)
    assert p.item() == -2.5 and state.step.item() == 6
    rule = pb.optim.sgd(s.constant(1.0))
    assert step(p, state)[0].item() == -3.5


def test_own_functions_and_changing_rates():
    w = pb.tensor([0.0])
    opt = pb.optim.SGD([w], lr=lambda step: 0.5**step)
    counts = []
    for i in range(6):
        w.grad = pb.ones(1)
        opt.step()
        if i == 3:
            assert w.item() == -1.875
            opt.lr = s.linear(1.0, 0.0, 5)  # it is asked for its value after 4 steps
        pb.evaluate(w, opt.state)
        counts.append(pb.cache_info().compiles)
    assert w.item() == pytest.approx(-1.875 - 0.2) and counts[:4] == counts[:1] * 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: s.cosine(0.1, 0), "cosine: steps must be at least 1"),
        (lambda: s.linear(0.1, "b", 3), "linear: end must be a real number"),
        (lambda: s.exponential(0.1, 0.5, every=0), "every must be at least 1"),
        (lambda: s.piecewise([1, 2], [0.1, 0.2]), "one fewer than the 2 pieces"),
        (lambda: s.piecewise([2, 1], [0.1, 0.2, 0.3]), "boundaries must increase"),
        (lambda: s.join([s.constant(1.0), 0.5], [1]), "each of schedules must be a function"),
        (lambda: s.one_cycle(0.1, 10, 1.5), "the peak must lie between"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(pb.PullbackError, match=message):
        make()
