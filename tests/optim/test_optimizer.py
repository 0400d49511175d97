"""Optimizer objects: what they take as parameters, groups, closures, and their state as dicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pullback as pb

o = pb.optim


@pytest.fixture(autouse=True)
def _reference():
    with pb.config(engine="reference"):
        yield


@dataclass
class Layer:
    w: Any
    b: Any
    mean: Any  # no parameter
    steps: Any

    def parameters(self):
        yield self.w
        yield self.b

    def named_parameters(self):
        yield "w", self.w
        yield "b", self.b


def layer() -> Layer:
    return Layer(pb.tensor([1.0, 2.0]), pb.tensor([3.0]), pb.tensor([9.0]), pb.tensor([0]))


TAKEN = {
    "module": lambda m: m, "iterator": lambda m: m.parameters(),
    "pairs": lambda m: m.named_parameters(), "list": lambda m: [m.w, m.b],
    "list of pairs": lambda m: list(m.named_parameters()), "dict": lambda m: {"w": m.w, "b": m.b},
    "nested": lambda m: {"a": [m.w, None, 3, "text"], "b": (m.b, pb.tensor([1, 2]))},
    "shared": lambda m: [m.w, m.b, m.w], "groups": lambda m: [{"params": m.w}, {"params": [m.b]}],
    "groups of pairs": lambda m: [{"params": m.named_parameters()}],
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_may_be_given_as_parameters(name):
    model = layer()
    opt = o.AdamW(TAKEN[name](model), lr=0.5, weight_decay=0.0)
    assert {id(p) for p in opt.params} == {id(model.w), id(model.b)} and len(opt.params) == 2
    assert model.w.requires_grad and model.b.requires_grad and not model.mean.requires_grad
    for _ in range(2):
        loss = (model.w**2).sum() * model.b.sum() + model.mean.sum()
        loss.backward()
        opt.step()
        opt.zero_grad()
        assert model.w.grad is None
    assert model.w.numpy() == pytest.approx([0.0, 1.0], abs=0.05) and model.mean.item() == 9.0


def test_groups_have_options_of_their_own():
    a, b, c = (pb.tensor([1.0]) for _ in range(3))
    groups = [{"params": [a], "lr": 0.5}, {"params": {"b": b}, "momentum": 0.5}, {"params": c}]
    opt = o.SGD(groups, lr=0.25)
    assert [g.learning_rate for g in opt.groups] == [0.5, 0.25, 0.25]
    for _ in range(2):
        (a + b + c).sum().backward()
        opt.step()
        opt.zero_grad()
    assert [a.item(), b.item(), c.item()] == [0.0, 1.0 - 0.25 - 0.375, 0.5]
    opt.groups[1].lr = 0.0
    (a + b + c).sum().backward()
    opt.step()
    assert [a.item(), b.item(), c.item()] == [-0.5, 0.375, 0.25]
    opt.learning_rate = 1.0
    assert [g.lr for g in opt.groups] == [1.0] * 3 and opt.lr == 1.0


def test_a_norm_is_that_of_all_groups():
    a, b = pb.tensor([0.0]), pb.tensor([0.0])
    rule = o.clip_by_global_norm(o.sgd(1.0), 5.0)
    opt = o.Optimizer([{"params": a}, {"params": b, "lr": 2.0}], rule)
    (a * 6.0 + b * 8.0).sum().backward()
    opt.step()
    assert (a.item(), b.item()) == (-3.0, -8.0)


def test_wrong_groups():
    w = pb.ones(2)
    for groups, message in (
        ([{"params": w, "beta": 1.0}], "a group has no option 'beta'; the options are params, lr"),
        ([{"params": w}, {"params": [w]}], r"the tensor at \[0\] is in two groups"),
        ([{"params": w, "lr": 1.0, "learning_rate": 1.0}], "give one of them"),
    ):
        with pytest.raises(pb.PullbackError, match=message):
            o.SGD(groups, lr=0.1)
    with pytest.raises(pb.PullbackError, match="rule must be an update rule"):
        o.Optimizer([w], 0.1)


def test_a_closure_gives_the_loss():
    w = pb.tensor([2.0])
    opt = o.SGD([w], lr=0.25)

    def closure():
        opt.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert [opt.step(closure).item() for _ in range(3)] == [4.0, 1.0, 0.25]


STATES = {
    "sgd": lambda p: o.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: o.Adam(p, lr=o.schedules.cosine(0.1, 10), amsgrad=True),
    "muon": lambda p: o.Muon(p, lr=0.1),
    "groups": lambda p: o.AdamW([{"params": p["w"]}, {"params": p["b"], "lr": 0.2}]),
    "wrapped": lambda p: o.Optimizer(p, o.accumulate(o.ema(o.adam(0.1)), 2)),
    "lbfgs": lambda p: o.LBFGS(p, max_iter=2),
}


@pytest.mark.parametrize("name", STATES)
def test_a_saved_state_continues_bit_for_bit(name):
    """The parameter `b` has no gradient in the first step, so that it is one behind."""

    def made():
        params = {"w": pb.tensor([[1.0, -2.0]]), "b": pb.tensor([0.5])}
        return params, STATES[name](params)

    def train(params, opt, steps):
        for t in steps:

            def closure(t=t):
                opt.zero_grad()
                loss = ((params["w"] - 3) ** 4).sum() * 0.01
                loss = loss + (params["b"] ** 2).sum() if t else loss
                loss.backward()
                return loss

            opt.step(closure)  # fmt: skip

    params, opt = made()
    train(params, opt, range(3))
    saved = opt.state_dict()
    assert all(isinstance(v, (pb.Tensor, int)) for v in saved["state"].values())
    saved = pb.tree.map(lambda v: v.numpy() if isinstance(v, pb.Tensor) else v, saved)
    again, other = made()
    for k, p in again.items():
        p.requires_grad = False
        p.assign(params[k].detach().numpy())
        p.requires_grad = True
    other.load_state_dict(saved)
    train(params, opt, range(3, 6))
    train(again, other, range(3, 6))
    for k in params:
        assert params[k].tolist() == again[k].tolist()
    assert pb.tree.structure(opt.state) == pb.tree.structure(other.state)


def test_names_in_a_state_dict():
    model = layer()
    opt = o.Adam(model, lr=0.25)
    assert sorted(opt.state_dict()["state"]) == [
        "slots.mean.b", "slots.mean.w", "slots.square.b", "slots.square.w", "step",
    ]  # fmt: skip
    assert opt.state_dict()["learning_rates"] == {"0": 0.25}
    w = model.w
    w.sum().backward()
    opt.step()
    assert opt.state_dict()["state"]["missed.1"] == 1


def test_states_that_do_not_fit():
    saved = o.Adam([pb.ones(2)]).state_dict()
    for opt, message in (
        (o.SGD([pb.ones(2)], lr=0.1), "'slots.mean.0' belongs to another optimizer"),
        (o.Adam([pb.ones(2)], amsgrad=True), "'slots.largest.0' is missing"),
        (o.Adam([pb.ones(3)]), r"'slots.mean.0' must be f32\[3\], got f32\[2\]"),
    ):
        with pytest.raises(pb.PullbackError, match=message):
            opt.load_state_dict(saved)
    for wrong in ({}, None, {"state": {}, "learning_rates": {"1": 0.1}}):
        with pytest.raises(pb.PullbackError, match="load_state_dict: "):
            o.Adam([pb.ones(2)]).load_state_dict(wrong)
    with pytest.raises(pb.PullbackError, match="the state must be a dict"):
        o.Adam([pb.ones(2)]).load_state_dict({"state": [], "learning_rates": {}})


def test_a_rule_of_ones_own():
    @dataclass(frozen=True)
    class Signs(o.UpdateRule):
        def change(self, p, g, slots, at):
            return p - pb.sign(g) * at.rate, slots

    w = pb.tensor([4.0, -4.0])
    opt = o.Optimizer([w], Signs(o.schedules.piecewise([1], [1.0, 0.5]), weight_decay=0.25))
    for _ in range(2):
        w.grad = pb.zeros(2)  # only the weights decay
        opt.step()
    assert np.array_equal(w.numpy(), [2.5, -2.5])
