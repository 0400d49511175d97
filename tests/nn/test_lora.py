"""Low-rank adapters, and weights in 4 bits."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError, DTypeError
from pullback.nn.nf4 import nf4_values

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("quantize", [False, True])
def test_training_changes_the_adapters_alone(quantize):
    model = nn.Sequential(
        nn.Linear(16, 32, key=pb.random.key(0)), pb.tanh, nn.Linear(32, 4, key=pb.random.key(1))
    )
    before = model(pb.ones(16)).numpy()
    nn.add_lora(model, rank=2, alpha=4.0, quantize=quantize, key=pb.random.key(2))
    assert list(nn.trainable(model)) == ["0.lora_a", "0.lora_b", "2.lora_a", "2.lora_b"]
    np.testing.assert_allclose(model(pb.ones(16)).numpy(), before, atol=0.3 if quantize else 1e-6)
    x = pb.tensor(RNG.normal(size=(8, 16)).astype(np.float32))
    rule = pb.optim.adam(0.05)
    state = rule.init(model)
    weight = model[0].base.weight.numpy()

    @pb.compile
    def step(model, state):
        loss, grads = pb.value_and_grad(lambda m: ((m(x) - 1.0) ** 2).mean())(model)
        return (*rule.update(grads, state, model), loss)

    losses = []
    for _ in range(30):
        model, state, loss = step(model, state)
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    np.testing.assert_array_equal(model[0].base.weight.numpy(), weight)
    merged = nn.merge_lora(pb.tree.map(lambda p: p, model))
    assert type(merged[0]) is nn.Linear and type(model[0]) is nn.LoRALinear
    np.testing.assert_allclose(merged(x).numpy(), model(x).numpy(), atol=1e-4)


def test_imperative_training_of_adapters():
    model = nn.add_lora(nn.Sequential(nn.Linear(4, 4)), rank=1)
    frozen = model[0].base.weight.numpy()
    opt = pb.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        (model(pb.ones(4)) ** 2).sum().backward()
        opt.step()
    np.testing.assert_array_equal(model[0].base.weight.numpy(), frozen)
    assert np.any(model[0].lora_b.numpy() != 0)


def test_targets_select_layers_by_name():
    layers = {"query": nn.Linear(4, 4), "value": nn.Linear(4, 4)}
    model = nn.add_lora(nn.ModuleDict(layers), targets="q*")
    assert isinstance(model["query"], nn.LoRALinear) and type(model["value"]) is nn.Linear
    assert model["value"].is_frozen()
    with pytest.raises(ArgumentError, match="no linear layer has a name like 'k"):
        nn.add_lora(nn.ModuleDict({"a": nn.Linear(2, 2)}), targets="key*")


def test_the_values_of_the_format():
    values = nf4_values()
    assert len(values) == 16 and values[0] == -1 and values[7] == 0 and values[15] == 1
    # figures of the paper's appendix
    np.testing.assert_allclose(values[[1, 6, 8, 14]], [-0.6962, -0.0911, 0.0796, 0.7230], atol=5e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_each_element_becomes_the_nearest_value(dtype):
    x = pb.tensor(RNG.normal(size=(5, 7))).astype(dtype)
    packed = nn.NF4Tensor.quantize(x, block=8)
    assert packed.codes.shape == (20,) and packed.scales.shape == (5,)
    exact = np.append(np.asarray(x, np.float64).ravel(), np.zeros(5)).reshape(5, 8)
    scales = np.abs(exact).max(1, keepdims=True)
    places = np.abs((exact / scales)[..., None] - nf4_values()).argmin(-1)
    wanted = (nf4_values()[places] * scales).ravel()[:35].reshape(5, 7)
    tolerance = 2e-2 if "16" in dtype else 1e-6
    np.testing.assert_allclose(np.asarray(packed.dequantize(), np.float64), wanted, atol=tolerance)
    np.testing.assert_array_equal(nn.NF4Tensor.quantize(pb.zeros(3)).dequantize().numpy(), 0)
    with pytest.raises(DTypeError, match="needs floats"):
        nn.NF4Tensor.quantize([1, 2])
