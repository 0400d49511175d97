"""Mixed precision: policies and loss scales."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError
from pullback.train import DynamicLossScale, Policy, StaticLossScale
from pullback.train.loss_scale import all_finite


class Counted(nn.Module):
    def __init__(self):
        self.linear = nn.Linear(3, 2, key=pb.random.key(1))
        self.calls = nn.State(pb.tensor(0.0))

    def forward(self, x):
        self.calls = self.calls + 2.0**-12  # lost in bf16 from 1/16 on
        return self.linear(x)


def test_gradients_and_state_keep_the_dtype_of_parameters():
    seen = []

    @Policy(compute="bfloat16")
    def loss(model, x, label):
        seen.append((model.linear.weight.dtype, x.dtype, label.dtype))
        return (model(x) ** 2).sum(), model

    model, x = Counted(), pb.tensor([1.0, 2.0, 3.0])
    (value, new), grads = pb.value_and_grad(loss, has_aux=True)(model, x, pb.tensor(1))
    assert seen == [(pb.bfloat16, pb.bfloat16, pb.int64)]
    assert value.dtype == new.calls.dtype == grads.linear.weight.dtype == pb.float32
    assert new.calls.item() == 2.0**-12
    exact = pb.grad(lambda m, x: ((m(x) ** 2).sum(), m), has_aux=True)(model, x)[0]
    np.testing.assert_allclose(grads.linear.weight.numpy(), exact.linear.weight.numpy(), rtol=0.05)


def test_a_policy_names_its_mistake():
    with pytest.raises(ArgumentError, match="compute must be a float dtype, got i32"):
        Policy(compute="int32")
    with pytest.raises(ArgumentError, match="must be positive"):
        StaticLossScale(0.0)


def test_a_scale_saves_small_gradients_of_f16():
    w, x = pb.tensor([1.0], dtype="float16"), pb.tensor([1e-3], dtype="float16")

    def loss(w, scale):
        return scale.scale((w * x * x * x).sum())

    scale = StaticLossScale(2.0**15)
    lost = pb.grad(loss)(w, StaticLossScale(1.0))
    kept = scale.unscale(pb.grad(loss)(w, scale))
    assert lost.item() == 0.0 and kept.dtype == pb.float32
    assert kept.item() == pytest.approx(1e-9, rel=0.05)


def test_a_dynamic_scale_leaves_out_steps_and_finds_its_size():
    rule = pb.optim.sgd(0.1)

    @pb.compile
    def step(w, state, scale, x):
        def loss(w):
            return scale.scale((w.astype("float16") * x).sum())

        grads = pb.grad(loss)(w)
        finite = all_finite(grads)
        new, state = rule.update(scale.unscale(grads), state, w)
        return pb.where(finite, new, w), state, scale.adjust(finite), finite

    w, scale, history = pb.tensor([1.0]), DynamicLossScale(2.0**17, period=3), []
    state = rule.init(w)
    for _ in range(6):
        w, state, scale, finite = step(w, state, scale, pb.tensor([1.0], dtype="float16"))
        history.append((scale.value.item(), bool(finite)))
    assert history == [
        (2.0**16, False), (2.0**15, False), (2.0**15, True), (2.0**15, True), (2.0**16, True),
        (2.0**15, False),
    ]  # fmt: skip
    np.testing.assert_allclose(w.item(), 1.0 - 3 * 0.1, rtol=1e-5)
