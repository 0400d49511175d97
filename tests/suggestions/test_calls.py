"""Calls with arguments that do not fit name those that exist."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, HostReadError

X = pb.tensor([[1.0, 2.0], [3.0, 4.0]])
IMAGE, FILTERS = pb.ones((1, 4, 4, 3)), pb.ones((3, 3, 3, 8))


class Box:
    pass


CALLS = {
    "dim": (lambda: pb.sum(X, dim=0), "sum:", "'dim'", "Write axis=... instead of dim=..."),
    "pair": (lambda: X.max(dim=0), "Write axis=", "argmax gives the indices"),
    "out": (lambda: pb.sum(X, out=X), "Results are new tensors"),
    "unbiased": (lambda: pb.std(X, unbiased=True), "Write correction=1 for unbiased=True"),
    "pad": (lambda: pb.pad(X, 1, value=2.0), "Write constant_values=... instead of value="),
    "of PyTorch": (lambda: X.unsqueeze(axis=0), "Tensor.unsqueeze:", "Write dim=..."),
    "keepdim": (lambda: X.mean(keepdim=True), "mean:", "Write keepdims=..."),
    "typing error": (lambda: pb.softmax(X, axs=0), "softmax:", "Write axis=..."),
    "too many": (lambda: pb.softmax(X, 0, 1, 2), "softmax:", "at most 2", "got 4", "x, axis"),
    "missing": (lambda: pb.take_along_axis(X), "take_along_axis:", "'indices' is missing"),
    "twice": (lambda: pb.softmax(X, x=X), "softmax:", "'x' is given twice"),
    "validated": (lambda: pb.grad(pb.sin, argnum=0), "grad:", "Write argnums=..."),
    "module": (lambda: pb.random.normal(shape=(2,)), "random.normal:", "'key' is missing"),
    "class": (lambda: pb.optim.Adam([X], wd=0.1), "Adam:", "Write weight_decay=..."),
    "functional": (lambda: pb.optim.adam(wd=0.1), "optim.adam:", "Write weight_decay=..."),
    "interned": (lambda: pb.DeviceMesh((1,), names="a"), "DeviceMesh:", "'names'"),
    "method": (lambda: X.numpy(copy=True), "Tensor.numpy:", "'copy'", "arguments are none"),
    "padding": (lambda: pb.conv2d(IMAGE, FILTERS, padding=1), "conv2d:", "((1, 1), ...)"),
    "bias": (lambda: pb.conv2d(IMAGE, FILTERS, pb.ones(8)), "conv2d:", "+ bias"),
    "sizes": (lambda: pb.zeros(3, 4), "zeros:", "Write pb.zeros((3, 4), ...)"),
    "three sizes": (lambda: pb.ones(3, 4, 5), "ones:", "Write pb.ones((3, 4, 5), ...)"),
    "four sizes": (lambda: pb.zeros(1, 2, 3, 4), "zeros:", "Write shape=(1, 2, 3, 4)"),
    "new sizes": (lambda: pb.reshape(X, 1, 4), "reshape:", "Write shape=(1, 4)"),
    "axes": (lambda: pb.transpose(X, 1, 0), "transpose:", "Write axes=(1, 0)"),
    "joined": (lambda: pb.concat(X, X), "concat:", "f32[2,2]", "Write pb.concat([x, y])"),
    "trace": (lambda: pb.trace(X), "trace:", "f32[2,2]", "pb.linalg.trace(x)"),
    "object": (lambda: pb.grad(pb.sin)(Box()), "grad:", "pb.tree.register(Box"),
    "object in vmap": (lambda: pb.vmap(pb.sin)(Box()), "vmap:", "pb.tree.register(Box"),
    "collective": (lambda: pb.psum(X, name="i"), "psum:", "'name'", "Write axis_name=..."),
    "object in scan": (lambda: pb.scan(lambda c, x: (c, x), Box(), X), "pb.tree.register(Box"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_does_not_fit(name):
    act, *words = CALLS[name]
    with told(ArgumentError, TypeError, *words):
        act()


CHOICES = {
    "compile": lambda f: pb.compile(f)(X[0, 0]), "vmap": lambda f: pb.vmap(f)(X[0]),
    "scan": lambda f: pb.scan(lambda c, x: (c, f(x)), 0.0, X[0]),
    "while_loop": lambda f: pb.while_loop(lambda x: x > 0, f, X[0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("transform", CHOICES)
def test_a_choice_by_value_in_a_traced_function(transform):
    def absolute(x):
        return x if x > 0 else -x

    with told(HostReadError, TypeError, "bool:", "pb.where(p, x, y)", "pb.cond(p, f, g, x)"):
        CHOICES[transform](absolute)


def test_a_count_by_value_in_a_traced_function():
    with told(HostReadError, TypeError, "index:", "pb.fori_loop"):
        pb.compile(lambda n: [0, 1][n])(pb.tensor(1))


def test_a_public_function_in_the_rule_of_an_op():
    class Wave(pb.Elementwise, abstract=True):
        kinds = "f"

        def numpy(self, x):
            return np.sin(x)

        def expand(self, x):
            return pb.op("Sin")(x)

        def partials(self, out, x):
            return (pb.cos(x),)

    with pytest.raises(DTypeError, match=r"node of a program(.|\n)*pb\.op\(.Sin.\)\(x\)"):
        pb.grad(lambda x: pb.apply(Wave(), x).sum())(X)


def test_functions_that_take_more_than_they_say():
    def few(x):
        """The signature that `many` shows."""

    @functools.wraps(few)
    def many(*args):
        return args[0] + "text"

    with pytest.raises(TypeError, match="text") as info:
        pb.grad(many)(1.0, 2.0)
    assert "few" not in str(info.value)


def test_errors_of_functions_with_good_arguments_are_theirs():
    def f(x):
        raise TypeError("f() takes 3 apples")

    with pytest.raises(TypeError, match="apples") as info:
        pb.vmap(f)(X)
    assert type(info.value) is TypeError
