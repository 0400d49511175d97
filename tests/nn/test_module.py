"""Modules: trees and objects at once, with parameters, state and frozen parts."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError, InPlaceError


@pytest.fixture(autouse=True)
def _seed():
    """Each test draws its parameters from the same keys, whatever ran before."""
    nn.seed(0)


class Tracked(nn.Module):
    """A linear layer that keeps a running mean of its results."""

    def __init__(self, n=2):
        self.linear = nn.Linear(3, n)
        self.mean = nn.State(pb.zeros(n))
        self.sizes, self.activation = [3, n], pb.tanh

    def forward(self, x):
        y = self.activation(self.linear(x))
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * y.mean(0)
        return y - self.mean


X = pb.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 1.0]])


def loss(model, x):
    return (model(x) ** 2).mean(), model


def expected_mean(model, x, steps=1):
    mean = np.zeros(2, np.float32)
    y = np.tanh(x.numpy() @ model.linear.weight.numpy().T + model.linear.bias.numpy())
    for _ in range(steps):
        mean = 0.5 * mean + 0.5 * y.mean(0)
    return mean


def test_children_are_tensors_and_modules_and_the_rest_is_static():
    model = Tracked()
    assert pb.tree.paths(model) == [".linear.weight", ".linear.bias", ".mean"]
    again = pb.tree.map(lambda x: x, model)
    assert again.sizes == [3, 2] and again.activation is pb.tanh and again.training
    assert pb.tree.structure(again) == pb.tree.structure(model)
    model.sizes.append(1)
    assert pb.tree.structure(again) != pb.tree.structure(model)


def test_state_is_returned_in_functional_code():
    model = Tracked()
    (_, new), grads = pb.value_and_grad(loss, has_aux=True)(model, X)
    assert model.mean.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(new.mean.numpy(), expected_mean(model, X), rtol=1e-5, atol=1e-6)
    assert grads.mean is None and grads.linear.weight.shape == (2, 3)
    step = pb.compile(lambda m, x: pb.value_and_grad(loss, has_aux=True)(m, x))
    (_, compiled), _ = step(model, X)
    np.testing.assert_allclose(compiled.mean.numpy(), new.mean.numpy(), rtol=1e-5, atol=1e-6)
    moved = pb.tree.map(lambda p, g: p if g is None else p - g, new, grads)
    assert moved.mean.tolist() == new.mean.tolist()


@pytest.mark.parametrize("transform", [pb.grad, pb.compile, pb.checkpoint])
def test_state_that_is_not_returned_is_not_lost_silently(transform):
    with pytest.raises(InPlaceError, match="changed 'mean' of Tracked"):
        transform(lambda m, x: (m(x) ** 2).mean())(Tracked(), X)
    assert pb.grad(lambda m, x: (m.eval()(x) ** 2).mean())(Tracked(), X).mean is None


def test_state_is_written_in_imperative_code():
    model = Tracked()
    model(X)
    pb.grad(lambda x: model(x).sum())(X)
    np.testing.assert_allclose(model.mean.numpy(), expected_mean(model, X, 2), rtol=1e-5, atol=1e-6)


def test_a_compiled_function_writes_state_at_each_call():
    model, other = Tracked(), Tracked()
    f = pb.compile(lambda x: model(x) + 0)
    for steps in (1, 2, 3):
        f(X)
        np.testing.assert_allclose(
            model.mean.numpy(), expected_mean(model, X, steps), rtol=1e-5, atol=1e-6
        )
    outer = pb.compile(lambda x: f(x) * 2)
    outer(X)
    np.testing.assert_allclose(model.mean.numpy(), expected_mean(model, X, 4), rtol=1e-5, atol=1e-6)
    model.eval()
    f(X)
    np.testing.assert_allclose(model.mean.numpy(), expected_mean(model, X, 4), rtol=1e-5, atol=1e-6)
    model = other  # another model behind the same name: its own state changes
    f(X)
    np.testing.assert_allclose(other.mean.numpy(), expected_mean(other, X, 1), rtol=1e-5, atol=1e-6)
    with pytest.raises(ArgumentError, match="writes to state"):
        f.save("unused", X)


def test_backward_goes_through_a_compiled_module():
    model = Tracked().requires_grad_()
    pb.compile(lambda x: (model(x) ** 2).mean())(X).backward()
    wanted = pb.grad(loss, has_aux=True)(Tracked().load_state_dict(model.state_dict()).eval(), X)[0]
    assert model.linear.weight.grad.shape == wanted.linear.weight.shape
    assert np.any(model.mean.numpy() != 0)


def test_the_body_of_vmap_cannot_change_state():
    with pytest.raises(InPlaceError, match="vmap"):
        pb.vmap(Tracked())(pb.ones((2, 4, 3)))
    assert pb.vmap(Tracked().eval())(pb.ones((2, 4, 3))).shape == (2, 4, 2)


def test_modes_are_noticed_by_compiled_functions():
    model = Tracked()
    f = pb.compile(lambda m, x: m(x))
    with pytest.raises(InPlaceError):
        f(model, X)
    assert f(model.eval(), X).shape == (2, 2)
    assert not model.linear.training and model.train().linear.training


def test_frozen_parameters_have_no_gradient():
    model = Tracked().eval()
    model.linear.bias.requires_grad = False
    grads = pb.grad(lambda m, x: (m(x) ** 2).mean())(model, X)
    assert grads.linear.bias is None and grads.linear.weight is not None
    copied = pb.tree.map(lambda x: x + 0, model)  # a copy is frozen too
    assert pb.grad(lambda m, x: (m(x) ** 2).mean())(copied, X).linear.bias is None
    assert not copied.is_frozen() and copied.freeze().is_frozen()
    assert pb.grad(lambda m, x: (m(x) ** 2).mean())(copied, X).linear.weight is None
    copied.requires_grad_()
    copied.requires_grad_(True)
    assert not copied.is_frozen()
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again.linear.bias is not model.linear.bias
        assert pb.grad(lambda m, x: (m(x) ** 2).mean())(again, X).linear.bias is None
        opt = pb.optim.SGD(again.parameters())
        assert [p.requires_grad for p in opt.params] == [True, False]


@dataclasses.dataclass
class Held:
    scale: pb.Tensor
    layer: nn.Module


class Mixed(nn.Module):
    def __init__(self):
        self.mixed = [pb.ones(3), nn.Linear(3, 2)]
        self.pair = {"a": pb.ones(2), "b": pb.ones(2)}
        self.held = Held(pb.ones(2), nn.Dropout(0.5))
        self.apply_last = self.scaled  # a bound method: that of a copy is its own

    def scaled(self, x):
        return x * self.held.scale

    def forward(self, x):
        y = self.mixed[1](x * self.mixed[0]) * self.pair["a"] * self.pair["b"]
        return self.apply_last(self.held.layer(y))


def test_parameters_in_containers_are_frozen_one_by_one():
    model = Mixed().eval()
    assert not model.held.layer.training  # modules in dataclasses have modes too
    grad = pb.compile(lambda m: pb.grad(lambda m: m(X).sum())(m))
    assert all(g is not None for g in (grad(model).mixed[0], grad(model).held.scale))
    for p in (model.mixed[0], model.pair["a"], model.held.scale):
        p.requires_grad = False
    for m in (model, pb.tree.map(lambda x: x + 0, model)):
        grads = grad(m)
        assert grads.mixed[0] is None and grads.mixed[1].weight.shape == (2, 3)
        assert grads.pair["a"] is None and grads.pair["b"].shape == (2,)
        assert grads.held.scale is None
        assert list(nn.trainable(m)) == ["pair.b", "mixed.1.weight", "mixed.1.bias"]
        opt = pb.optim.SGD(m.parameters())
        assert sum(p.requires_grad for p in opt.params) == 3
    layer, weight = model.mixed[1], model.mixed[1].weight.numpy()
    model.map_tensors(lambda x: 2 * x)
    assert model.mixed[1] is layer and model.held.scale.tolist() == [2.0, 2.0]
    np.testing.assert_array_equal(layer.weight.numpy(), 2 * weight)
    model.requires_grad_()
    assert grad(model).held.scale is not None


def test_what_a_copy_would_lose_is_refused():
    class Closure(nn.Module):
        def __init__(self):
            self.linear = nn.Linear(3, 1)
            self.run = lambda x: self.linear(x)

        def forward(self, x):
            return self.run(x)

    assert Closure()(X).shape == (2, 1)
    with pytest.raises(ArgumentError, match=r"refers to the module(.|\n)*Make it a method"):
        pb.grad(lambda m: m(X).sum())(Closure())
    with pytest.raises(ArgumentError, match=r"(.|\n)*Write a list, a tuple or a dict"):
        nn.Module().layers = {nn.Linear(3, 1)}
    with pytest.raises(ArgumentError, match=r"no name agrees, such as 'weight' here, 'm\.weight'"):
        nn.Linear(3, 1).load_state_dict({"m.weight": X}, strict=False)


def test_names_and_state_dicts():
    model = nn.Sequential(Tracked(), pb.relu, nn.ModuleDict({"head": nn.Linear(2, 1)}))
    names = [
        "0.mean", "0.linear.weight", "0.linear.bias", "2.head.weight", "2.head.bias",
    ]  # fmt: skip
    assert list(model.state_dict()) == names
    assert [n for n, _ in model.named_buffers()] == ["0.mean"]
    assert model.num_parameters() == 8 + 3
    other = copy.deepcopy(model)
    saved = {n: np.asarray(v) + 1 for n, v in model.state_dict().items()}
    other.load_state_dict(saved)
    assert other[0].mean.tolist() == [1.0, 1.0] and model[0].mean.tolist() == [0.0, 0.0]
    with pytest.raises(ArgumentError, match=r"missing 0\.mean; unknown extra"):
        other.load_state_dict({"extra": 1.0, **{n: saved[n] for n in names[1:]}})
    with pytest.raises(ArgumentError, match=r"2.head.bias must be f32\[1\], got f32\[3\]"):
        other.load_state_dict({**saved, "2.head.bias": np.zeros(3, np.float32)})
    other.load_state_dict({"0.mean": np.zeros(2, np.float32)}, strict=False)
    assert other[0].mean.tolist() == [0.0, 0.0]


def test_tensors_with_two_names_are_loaded():
    model = nn.ModuleDict({"table": nn.Embedding(3, 2), "out": nn.Linear(2, 3, bias=False)})
    model["out"].weight = model["table"].weight
    ones = np.ones((3, 2), np.float32)
    assert list(model.state_dict()) == ["table.weight"]
    model.load_state_dict({"table.weight": ones, "out.weight": ones + 0})  # as PyTorch saves it
    assert model["out"].weight.tolist() == ones.tolist()
    model.load_state_dict({"out.weight": 2 * ones})
    assert model["table"].weight.tolist() == (2 * ones).tolist()
    with pytest.raises(ArgumentError, match=r"table\.weight and out\.weight are the same tensor"):
        model.load_state_dict({"table.weight": ones, "out.weight": 2 * ones})
    layer = nn.Linear(2, 2)
    twice = nn.Sequential(layer, layer)
    saved = {f"{i}.{n}": v for i in (0, 1) for n, v in layer.state_dict().items()}
    twice.load_state_dict(saved)
    assert [n for n, _ in twice.named_children()] == ["0"] and list(twice.children()) == [layer]


def test_buffers_that_are_not_saved():
    model = nn.Module()
    model.register_buffer("kept", [1.0])
    model.register_buffer("angles", [2.0], persistent=False)
    model.register_buffer("none", None)
    assert model.none is None
    for m in (model, pb.tree.map(lambda x: x + 0, model), copy.deepcopy(model)):
        assert list(m.state_dict()) == ["kept"]
        assert [n for n, _ in m.named_buffers()] == ["kept", "angles"]
        m.load_state_dict(model.state_dict())
    model.register_buffer("angles", [2.0])
    assert list(model.state_dict()) == ["kept", "angles"]


class Writer(nn.Module):
    def __init__(self, write):
        self.linear, self.write = nn.Linear(3, 2), write
        self.count, self.last, self.seen, self.named = 0, None, [], {}

    def forward(self, x):
        y = self.linear(x)
        self.write(self, y)
        return y


WRITES = {
    "count": lambda m, y: setattr(m, "count", m.count + 1),
    "last": lambda m, y: setattr(m, "last", y),  # which is returned too
    "seen": lambda m, y: m.seen.append(y),
    "named": lambda m, y: m.named.update(last=y),
}
COPYING = {
    "compile": lambda m: pb.compile(lambda m, x: m(x))(m, X),
    "grad": lambda m: pb.grad(lambda m, x: m(x).sum())(m, X),
    "vmap": lambda m: pb.vmap(lambda m, x: m(x), in_axes=(None, 0))(m, X),
    "checkpoint": lambda m: pb.checkpoint(lambda m, x: m(x))(m, X),
}


@pytest.mark.parametrize("transform", COPYING)
@pytest.mark.parametrize("name", WRITES)
def test_writes_to_a_copy_are_not_lost_silently(name, transform):
    with pytest.raises(InPlaceError, match=rf"changed '{name}' of Writer"):
        COPYING[transform](Writer(WRITES[name]))


def test_backward_says_how_parameters_get_gradients():
    model = nn.Linear(3, 1)
    with pytest.raises(ArgumentError) as info:
        model(X).sum().backward()
    assert "model.requires_grad_()" in str(info.value)
    assert "pb.optim.Adam(model.parameters())" in str(info.value)
    model.requires_grad_()
    with pytest.raises(InPlaceError, match=r"pb\.value_and_grad"):
        pb.compile(lambda x: model(x).sum().backward())(X)


def test_dataclasses_can_be_modules():
    @dataclasses.dataclass(frozen=True)
    class Scaled(nn.Module):
        inner: nn.Linear
        scale: float = 2.0

        def forward(self, x):
            return self.inner(x) * self.scale

    model = Scaled(nn.Linear(3, 2))
    assert pb.grad(lambda m: m(X).sum())(model).inner.bias.tolist() == [4.0, 4.0]
    assert repr(model).splitlines()[0] == "Scaled(scale=2.0)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.scale = 3.0


def test_a_tensor_held_twice_is_refused_where_it_would_become_two():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert len(list(model.parameters())) == 3
    for transform in (pb.grad, pb.compile):
        with pytest.raises(ArgumentError, match="holds one tensor twice"):
            transform(lambda m, x: m(x).sum())(model, X)
    copied = copy.deepcopy(model)
    assert copied[0].weight is copied[1].weight
    assert copied.to("float64")[0].weight is copied[1].weight
    assert copied[1].bias.dtype == pb.float64


def test_modules_show_their_tree():
    text = repr(nn.Sequential(nn.Linear(2, 3), pb.relu))
    assert text.splitlines() == [
        "Sequential()",
        "  0: Linear(in_features=2, out_features=3): weight f32[3,2], bias f32[3]",
        "  1: Lambda(function=relu)  # 9 parameters",
    ]


def test_keys_of_parameters():
    key = pb.random.key(3)
    a, b = nn.Linear(2, 2, key=key), nn.Linear(2, 2, key=key)
    assert a.weight.tolist() == b.weight.tolist() != nn.Linear(2, 2).weight.tolist()
    nn.seed(5)
    first = nn.Linear(2, 2)
    nn.seed(5)
    assert nn.Linear(2, 2).weight.tolist() == first.weight.tolist()
    shapes = pb.eval_shape(lambda: nn.Linear(10, 20))
    assert shapes.weight.shape == (20, 10)


def test_lists_and_dicts_of_modules_change():
    layers = nn.ModuleList([nn.Linear(2, 2)])
    layers.extend([pb.relu, nn.Linear(2, 1)])
    layers.insert(0, nn.Identity())
    del layers[1]
    assert [type(x).__name__ for x in layers] == ["Identity", "Lambda", "Linear"]
    named = nn.ModuleDict({"a": nn.Identity()})
    del named["a"]
    assert len(named) == 0


def test_what_cannot_be_a_layer_is_refused():
    with pytest.raises(ArgumentError, match=r"got type.*\n.*Linear\(\)"):
        nn.Sequential(nn.Linear)
    with pytest.raises(ArgumentError, match="must define `forward`"):
        nn.Module()(1)
