"""Parameters that are frozen, and released again while an optimizer has them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError


@pytest.fixture(autouse=True)
def _reference():
    with pb.config(engine="reference"):
        yield


def test_frozen_parameters_stay():
    a, b = pb.tensor([1.0]), pb.tensor([1.0])
    b.requires_grad = False
    opt = pb.optim.SGD([a, b], lr=0.5)
    (a * b).sum().backward()
    opt.step()
    assert (a.item(), b.item()) == (0.5, 1.0) and not b.requires_grad
    a.requires_grad = False
    with told(ArgumentError, ValueError, "all 2 are frozen", "model.requires_grad_()"):
        pb.optim.SGD([a, b])
    with told(ArgumentError, ValueError, "got none", "Pass model.parameters() as they are"):
        pb.optim.SGD([p for p in (a, b) if p.requires_grad])


RELEASED = {
    "sgd": pb.optim.sgd(0.1, momentum=0.9),
    "adam": pb.optim.adam(0.1),
    "clipped": pb.optim.clip_by_value(pb.optim.adam(0.1), 0.5),
    "ema": pb.optim.ema(pb.optim.adam(0.1), 0.5),
    "accumulate": pb.optim.accumulate(pb.optim.sgd(0.1, momentum=0.9), 2),
    "muon": pb.optim.muon(0.1),
}


@pytest.mark.parametrize("name", RELEASED)
def test_frozen_parameters_are_trained_once_they_are_released(name):
    def steps(opt, *params):
        for _ in range(2):
            opt.zero_grad()
            sum((p**2).sum() for p in params).backward()
            opt.step()

    a, b, alone = (pb.tensor([[1.0, -2.0]]) for _ in range(3))
    b.requires_grad = False
    opt = pb.optim.Optimizer([a, b], RELEASED[name])
    steps(opt, a, b)
    assert b.tolist() == [[1.0, -2.0]] and a.tolist() != b.tolist()
    b.requires_grad = True
    steps(opt, a, b)
    steps(pb.optim.Optimizer([alone], RELEASED[name]), alone)  # the same first steps
    np.testing.assert_allclose(b.numpy(), alone.numpy(), rtol=1e-6)
    opt.load_state_dict(opt.state_dict())
    kept = b.tolist()
    b.requires_grad = False
    steps(opt, a, b)
    assert b.tolist() == kept


def test_lbfgs_begins_anew_with_a_released_parameter():
    a, b = pb.tensor([3.0]), pb.tensor([4.0])
    b.requires_grad = False
    opt = pb.optim.LBFGS([a, b])

    def closure():
        opt.zero_grad()
        loss = ((a - 1) ** 2 + (b - a) ** 2).sum()
        loss.backward()
        return loss

    opt.step(closure)
    np.testing.assert_allclose([a.item(), b.item()], [2.5, 4.0], rtol=1e-4)
    b.requires_grad = True
    opt.step(closure)
    np.testing.assert_allclose([a.item(), b.item()], [1.0, 1.0], rtol=1e-3)


def test_a_mask_and_labels_may_be_modules():
    model = pb.nn.Linear(2, 2)
    grads = pb.tree.map(pb.zeros_like, model)
    is_matrix = pb.tree.map(lambda p: p.ndim > 1, model)
    rule = pb.optim.sgd(0.1, weight_decay=0.5, mask=is_matrix)
    new, _ = rule.update(grads, rule.init(model), model)
    assert new.bias.tolist() == model.bias.tolist()
    assert new.weight.tolist() != model.weight.tolist()
    rules = {True: rule, False: pb.optim.sgd(0.0)}
    new, _ = (r := pb.optim.partition(rules, is_matrix)).update(grads, r.init(model), model)
    assert new.weight.tolist() != model.weight.tolist()


def test_a_state_of_other_frozen_parameters_is_refused():
    model, rule = pb.nn.Linear(2, 2), pb.optim.adam(0.1)
    model.bias.requires_grad = False
    state = rule.init(model)
    model.requires_grad_()
    with told(
        ArgumentError,
        ValueError,
        "tree structure",
        "frozen or released since `init`, call it again",
    ):
        rule.update(model, state, model)
