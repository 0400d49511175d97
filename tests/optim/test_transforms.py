"""Steps of optimizers inside transforms: scan, vmap, derivatives, eager mode; empty parameters."""

from __future__ import annotations

import numpy as np
import optimizer_references as references
import pytest
from optimizer_references import CASES

import pullback as pb

START = np.random.default_rng(3).normal(size=(3, 4, 2))  # three models with one matrix


@pytest.fixture(autouse=True)
def _reference():
    with pb.config(engine="reference"):
        yield


def rule_of(case):
    name, _, options = CASES[case]
    return getattr(pb.optim, name)(pb.optim.schedules.linear(0.1, 0.0, 9), **options)


def trained(rule, w, steps=2):
    """Return a parameter after some steps towards 1, in a loop of Python."""
    state = rule.init(w)
    for _ in range(steps):
        w, state = rule.update(w - 1.0, state, w)
    return w


@pytest.mark.parametrize("case", CASES)
def test_vmap_and_scan(case):
    rule, models = rule_of(case), pb.tensor(START)
    wanted = np.stack([trained(rule, pb.tensor(w)).numpy() for w in START])
    found = pb.vmap(lambda w: trained(rule, w))(models)
    np.testing.assert_allclose(found.numpy(), wanted, 1e-9, 1e-12)

    def step(carry, _):
        w, state = carry
        return rule.update(w - 1.0, state, w), None

    w = pb.tensor(START[0])
    (w, _), _ = pb.scan(step, (w, rule.init(w)), length=2)
    np.testing.assert_allclose(w.numpy(), wanted[0], 1e-9, 1e-12)


@pytest.mark.parametrize("case", ["momentum", "adam l2", "amsgrad", "rmsprop more", "adadelta",
                                  "lamb", "muon", "adafactor more"])  # fmt: skip
def test_derivatives_of_a_step(case):
    rule = rule_of(case)
    pb.check_grads(lambda w: trained(rule, w), (pb.tensor(START[0]),), order=1)


@pytest.mark.parametrize("case", CASES)
def test_empty_parameters_and_half_precision(case):
    rule = rule_of(case)
    params = [pb.zeros((0, 3)), pb.zeros(0), pb.ones((3, 2), dtype="bfloat16")]
    state = rule.init(params)
    for _ in range(2):
        params, state = rule.update(params, state, params)
    assert [p.shape for p in params] == [(0, 3), (0,), (3, 2)]
    assert params[2].dtype is pb.bfloat16 and np.isfinite(params[2].numpy().astype(float)).all()
    assert {x.dtype for x in pb.tree.leaves(state.slots)} <= {pb.float32}


def test_eager_mode():
    with pb.config(eager=True):
        for case in ("adamw", "muon", "adafactor"):
            found = trained(rule_of(case), pb.tensor(START[0]), 1)
            slots: dict = {}
            name, _, options = CASES[case]
            step = getattr(references, name)
            wanted = step(START[0], START[0] - 1.0, slots, 1, 0.1, **options)
            np.testing.assert_allclose(found.numpy(), wanted, 1e-9)


def test_complex_parameters():
    """A step in another phase is the step, turned by the phase."""
    z, turn = pb.tensor([3.0 + 4.0j, 1.0j], dtype="complex128"), complex(0.6, 0.8)
    names = (
        "sgd",
        "adam",
        "amsgrad",
        "adagrad",
        "rmsprop more",
        "adadelta",
        "lion",
        "lamb",
        "muon",
    )
    for case in names:
        rule = rule_of(case)
        found, turned = (run_complex(rule, z * phase, phase) for phase in (1.0, turn))
        np.testing.assert_allclose(turned, found * turn, 1e-9, err_msg=case)
        assert not np.allclose(found, z.numpy()), case


def run_complex(rule, z, phase):
    state = rule.init(z)
    for _ in range(2):
        z, state = rule.update(z - phase, state, z)
    return z.numpy()
