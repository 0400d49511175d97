"""Trees of parameters: leaves without derivative, gradients that are None, masks, new leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import pullback as pb

RULES = {
    "sgd": pb.optim.sgd(0.5, momentum=0.5),
    "adam": pb.optim.adam(0.5, weight_decay=0.1),
    "muon": pb.optim.muon(0.5),
    "adafactor": pb.optim.adafactor(0.5),
    "clipped": pb.optim.clip_by_global_norm(pb.optim.adamw(0.5), 1.0),
    "averaged": pb.optim.ema(pb.optim.adamw(0.5), 0.5),
    "finite": pb.optim.apply_if_finite(pb.optim.adamw(0.5)),
    "every step": pb.optim.accumulate(pb.optim.adamw(0.5), 1),
}


@pytest.fixture(autouse=True)
def _reference():
    with pb.config(engine="reference"):
        yield


@pytest.mark.parametrize("name", RULES)
def test_leaves_without_derivative_come_back(name):
    rule = RULES[name]
    params = {
        "w": pb.tensor([[1.0, 2.0]]), "rows": pb.tensor([1, 0]), "power": 3, "none": None,
        "kind": "tanh", "frozen": pb.tensor([5.0]), "f": np.tanh, "mask": np.array([True]),
    }  # fmt: skip
    state = rule.init(params)
    grads = pb.grad(lambda p: (p["w"] ** p["power"]).sum())(params) | {"frozen": None}
    assert grads["rows"] is None
    for _ in range(2):
        new, state = rule.update(grads, state, params)
    assert new["w"].tolist() != params["w"].tolist() and new["none"] is None
    for key in ("rows", "power", "kind", "frozen", "f", "mask"):
        assert new[key] is params[key], key


def test_slots_of_leaves_without_derivative_are_none():
    params = [pb.tensor([1.0]), pb.tensor([1]), 2, (pb.tensor([2.0]), None)]
    state = pb.optim.adam(0.1).init(params)
    mean = state.slots["mean"]
    assert mean[1] is mean[2] is mean[3][1] is None
    assert mean[0].shape == mean[3][0].shape == (1,)
    half = pb.optim.muon().init({"m": pb.ones((2, 3), dtype="bfloat16"), "v": pb.ones(3)}).slots
    assert half["square"]["m"] is None and half["square"]["v"].shape == (3,)
    assert half["mean"]["m"].dtype is pb.float32


def test_gradients_must_fit():
    params, rule = {"a": pb.ones(2), "b": [pb.ones(3)]}, pb.optim.sgd(0.1)
    state = rule.init(params)
    for grads in ({"a": pb.ones(2)}, {"a": pb.ones(2), "b": pb.ones(3)}, [pb.ones(2), pb.ones(3)],
                  {"a": {"x": pb.ones(2)}, "b": [None]}):  # fmt: skip
        with pytest.raises(pb.PullbackError, match="grads must have the tree structure of params"):
            rule.update(grads, state, params)
    with pytest.raises(pb.PullbackError, match=r"its shape, \[3\], got \[1\] at \['b'\]\[0\]"):
        rule.update({"a": pb.ones(2), "b": [pb.ones(1)]}, state, params)
    new, _ = rule.update({"a": np.ones(2), "b": [None]}, state, params)
    assert new["a"].numpy() == pytest.approx([0.9, 0.9]) and new["b"][0] is params["b"][0]


@dataclass
class Switched:
    w: Any
    b: Any
    training: bool = field(default=True, metadata={"static": True})


def test_static_data_may_change_between_steps():
    """The state of a model that was initialised for evaluation serves in training."""
    rule = pb.optim.accumulate(pb.optim.muon(0.5, weight_decay=0.0), 1)
    rule = pb.optim.ema(pb.optim.apply_if_finite(rule), 0.5)
    model = Switched(pb.tensor([[4.0]]), pb.tensor([4.0]), training=False)
    state = rule.init(model)
    for training in (True, False):
        model = replace(model, training=training)
        model, state = rule.update(replace(model, b=None), state, model)
        assert model.training is state.average.training is training
    assert model.b.item() == 4.0 and model.w.item() < 4.0


MASKS = {
    "path": lambda path: path.endswith("['w']"),
    "tree": {"layer": {"w": True, "b": False}, "head": False},
    "prefix": {"layer": {"w": True, "b": False}, "head": [False]},
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("form", ["functional", "object"])
def test_weight_decay_masks(mask, form):
    params = {"layer": {"w": pb.tensor([4.0]), "b": pb.tensor([4.0])}, "head": [pb.tensor([4.0])]}
    given = MASKS[mask]
    if form == "functional":
        rule = pb.optim.sgd(1.0, weight_decay=0.5, mask=given)
        params, _ = rule.update(pb.tree.map(pb.zeros_like, params), rule.init(params), params)
    else:
        opt = pb.optim.SGD(params, 1.0, weight_decay=0.5, mask=given)
        for p in opt.params:
            p.grad = pb.zeros_like(p)
        opt.step()
    assert [p.item() for p in pb.tree.leaves(params)] == [4.0, 4.0, 2.0]


def test_wrong_masks():
    params = {"w": pb.ones(2)}
    for mask, message in (
        ({"other": True}, "mask must be a function of the path, or a tree like params"),
        (lambda path: 3, "a value of mask must be True or False, got int 3"),
    ):
        rule = pb.optim.sgd(1.0, weight_decay=0.5, mask=mask)
        state = rule.init(params)
        with pytest.raises(pb.PullbackError, match=message):
            rule.update(params, state, params)


@pytest.mark.parametrize("name", RULES)
def test_leaves_that_require_a_gradient_are_renewed(name):
    rule = RULES[name]
    params = {"w": pb.tensor([3.0, 4.0], requires_grad=True), "c": pb.tensor([1.0])}
    state = rule.init(params)
    for _ in range(3):
        old = params["w"]
        (old * old).sum().backward()
        params, state = rule.update({"w": old.grad, "c": None}, state, params)
        new = params["w"]
        assert new is not old and new.is_leaf and new.requires_grad and new.grad is None
        assert not params["c"].requires_grad
        assert not any(x.requires_grad for x in pb.tree.leaves(state))


def test_no_history_grows():
    rule = pb.optim.adam(0.1)
    w = pb.tensor([3.0, 4.0], requires_grad=True)
    state = rule.init(w)
    for _ in range(3):
        (w * w).sum().backward()
        w, state = rule.update(w.grad, state, w)
    (w * w).sum().backward()  # nothing but the last square is differentiated
    assert w.grad.numpy() == pytest.approx(2 * w.detach().numpy())


def test_steps_with_renewed_leaves_are_one_program():
    with pb.config(engine="xla"):
        rule = pb.optim.adam(0.1)
        params = [pb.tensor([3.0, 4.0], requires_grad=True), pb.tensor(2.0, requires_grad=True)]
        state, counts = rule.init(params), []
        for _ in range(4):
            before = pb.cache_info().compiles, pb.engine_info().programs_run
            ((params[0] ** 2).sum() * params[1]).backward()
            params, state = rule.update([p.grad for p in params], state, params)
            pb.evaluate(params)
            after = pb.cache_info().compiles, pb.engine_info().programs_run
            counts.append((after[0] - before[0], after[1] - before[1]))
        assert counts[1:] == [(0, 1)] * 3
