"""Compiled functions fetch the tensors of modules themselves: they see what `tree.flatten` sees."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.compiled.flatten_fast import make_fast_reader


@dataclasses.dataclass
class Pair:
    a: pb.Tensor
    b: float


class Mixed(nn.Module):
    """A module with all kinds of attributes."""

    def __init__(self):
        self.linear = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.layers = [nn.Linear(3, 3), nn.PReLU()]
        self.named = {"b": pb.ones(2), "a": nn.Dropout(0.5)}
        self.pair = Pair(pb.ones(3), 2.0)
        self.sizes, self.rate, self.shape, self.name = [1, 2], 0.1, (2, 3), "mixed"
        self.activation = pb.relu
        self.nothing = None

    def forward(self, x):
        return self.activation(self.layers[0](self.linear(x)))


def changed(module, name, value):
    setattr(module, name, value)


# What changes a module, and whether its tree is still the same
CHANGES = {
    "nothing": (lambda m: None, True),
    "mode": (lambda m: m.eval(), False),
    "mode inside": (lambda m: m.norm.eval(), False),
    "mode there and back": (lambda m: m.eval().train(), True),
    "static number": (lambda m: changed(m, "rate", 0.2), False),
    "static zero": (lambda m: (changed(m, "rate", 0.1), changed(m, "rate", -0.0)), False),
    "equal tuple": (lambda m: changed(m, "shape", (*m.shape[:1], 3)), True),
    "list in place": (lambda m: m.sizes.append(3), False),
    "equal list": (lambda m: changed(m, "sizes", [1, 2]), True),
    "list with a tensor": (lambda m: m.sizes.append(pb.ones(2)), False),
    "function": (lambda m: changed(m, "activation", pb.tanh), False),
    "1 is not True": (lambda m: changed(m, "sizes", [True, 2]), False),
    "new attribute": (lambda m: changed(m, "extra", 1), False),
    "new tensor": (lambda m: changed(m, "extra", pb.ones(2)), False),
    "None to a tensor": (lambda m: changed(m, "nothing", pb.ones(2)), False),
    "None to a module": (lambda m: changed(m, "nothing", nn.Identity()), False),
    "attribute gone": (lambda m: delattr(m, "name"), False),
    "tensor to None": (lambda m: changed(m.linear, "bias", None), False),
    "tensor to a number": (lambda m: changed(m.linear, "bias", 2.0), False),
    "another layer": (lambda m: changed(m, "linear", nn.Identity()), False),
    "another layer in a list": (lambda m: m.layers.append(nn.Identity()), False),
    "another key": (lambda m: changed(m, "named", {"b": pb.ones(2), "c": m.named["a"]}), False),
    "order of children": (lambda m: (vars(m).pop("linear"), changed(m, "linear", nn.Linear(2, 3))),
                          False),
    "another value": (lambda m: changed(m.linear, "weight", pb.zeros((3, 2))), True),
    "new state": (lambda m: changed(m.norm, "running_mean", pb.ones(3)), True),
    "state to a parameter": (lambda m: changed(m.norm, "_state", frozenset()), False),
    "frozen": (lambda m: m.freeze(), False),
    "one frozen": (lambda m: changed(m.linear.bias, "requires_grad", False), False),
    "frozen in a dict": (lambda m: changed(m.named["b"], "requires_grad", False), False),
    "trained": (lambda m: m.requires_grad_(), True),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_seen_as_by_flatten(name):
    change, same = CHANGES[name]
    module = Mixed()
    leaves, structure = pb.tree.flatten(module)
    read = make_fast_reader(structure)
    rebuilt = pb.tree.unflatten(structure, leaves)
    twin = copy.deepcopy(module)
    for x in (module, rebuilt, twin):
        found: list = []
        assert read(x, found)
        assert list(map(id, found)) == list(map(id, pb.tree.leaves(x)))
    for x in (module, twin):
        change(x)
        found = []
        leaves, now = pb.tree.flatten(x)
        assert (now == structure) is same
        assert read(x, found) is same
        if same:
            assert list(map(id, found)) == list(map(id, leaves))


def test_gradients_and_frozen_copies_are_read():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).freeze()
    model[0].weight.requires_grad = True
    grads = pb.grad(lambda m: m.eval()(pb.ones((2, 2))).sum())(model)
    assert grads[0].bias is None
    for tree in (model, grads, pb.tree.map(lambda x: x, model)):
        leaves, structure = pb.tree.flatten(tree)
        found: list = []
        assert make_fast_reader(structure)(tree, found)
        assert list(map(id, found)) == list(map(id, leaves))
    assert not make_fast_reader(pb.tree.flatten(grads)[1])(model, [])


def test_arrays_and_other_classes_take_the_general_way():
    model = nn.Linear(2, 3)
    model.table = np.ones(3, np.float32)
    read = make_fast_reader(pb.tree.flatten(model)[1])
    assert not read(model, [])
    rebuilt = pb.tree.map(lambda x: pb.asarray(x), model)  # the array is a constant, too
    assert read(rebuilt, [])
    assert pb.grad(lambda m: m.table.sum() + m.weight.sum())(rebuilt).table is None
    model.table = pb.ones(3)
    assert not read(model, [])
    assert not make_fast_reader(pb.tree.flatten(nn.Linear(2, 3))[1])(nn.Identity(), [])


def test_a_compiled_function_notices_changes():
    model = Mixed()
    f = pb.compile(lambda m, x: m(x).sum() * m.rate)
    x = pb.ones((2, 2))
    for change in (lambda: None, lambda: changed(model, "rate", 0.5), lambda: model.eval()):
        change()
        for _ in range(2):
            np.testing.assert_allclose(f(model, x).item(), (model(x).sum() * model.rate).item())
