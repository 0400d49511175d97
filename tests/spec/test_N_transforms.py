"""CHECKLIST N33 to N40: function transforms."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, AxisError

RNG = np.random.default_rng(33)
X = RNG.standard_normal((3, 4, 5))
Y = RNG.standard_normal((4, 3))


@pytest.fixture(params=["reference", "xla"], autouse=True)
def engine(request):
    with pb.config(engine=request.param):
        yield request.param


def same(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


# -- N33: vmap's axes, trees, nesting, sizes ------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_N33_in_axes_choose_the_mapped_axis(axis):
    got = pb.vmap(lambda x: x * x.sum(), in_axes=axis)(pb.tensor(X))
    rows = np.moveaxis(X, axis, 0)
    same(got, np.stack([row * row.sum() for row in rows]))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_N33_out_axes_place_the_mapped_axis(axis):
    got = pb.vmap(lambda x: 2 * x, out_axes=axis)(pb.tensor(X))
    same(got, np.stack([2 * row for row in X], axis))


def test_N33_several_arguments_with_axes_of_their_own():
    got = pb.vmap(lambda x, y: x @ y, in_axes=(0, 1), out_axes=-1)(
        pb.tensor(X.transpose(0, 2, 1)), pb.tensor(Y)
    )
    same(got, np.stack([X[i].T @ Y[:, i] for i in range(3)], -1))


def test_N33_none_is_the_same_for_every_example():
    got = pb.vmap(lambda x, y: x @ y, in_axes=(0, None))(
        pb.tensor(X.transpose(0, 2, 1)), pb.tensor(Y)
    )
    same(got, np.stack([x.T @ Y for x in X]))
    both = pb.vmap(lambda x, y: (x, y.sum()), in_axes=(0, None), out_axes=(0, None))
    first, second = both(pb.tensor(X), pb.tensor(Y))
    same(first, X)
    same(second, Y.sum())
    assert second.shape == ()
    # a result that all examples share is repeated if it gets an axis
    same(pb.vmap(lambda x, y: y, in_axes=(0, None))(pb.tensor(X), pb.tensor(Y)), np.stack([Y] * 3))


Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Box:
    low: Any
    high: Any


pb.tree.register(Box)


def test_N33_trees_and_their_prefixes():
    x, y = pb.tensor(X), pb.tensor(Y)
    tree = {"p": Point(x, y), "rest": [x, (y,)]}
    axes = {"p": Point(0, 1), "rest": [0, None]}
    out = pb.vmap(
        lambda t: {"a": t["p"].x[:, 0] * t["p"].y, "b": t["rest"][1][0], "c": t["rest"][0].sum()},
        in_axes=(axes,), out_axes={"a": 1, "b": None, "c": 0},
    )(tree)  # fmt: skip
    same(out["a"], np.stack([X[i][:, 0] * Y[:, i] for i in range(3)], 1))
    same(out["b"], Y)
    same(out["c"], X.sum((1, 2)))
    # one entry stands for a whole subtree, on both sides
    box = pb.vmap(lambda b, s: Box(b.low * s, b.high + s), in_axes=(1, None))(Box(y, 2 * y), 3.0)
    assert isinstance(box, Box)
    same(box.low, 3 * Y.T)
    same(box.high, 2 * Y.T + 3)
    swapped = pb.vmap(lambda b: [b.low, (b.high,)], in_axes=1, out_axes=[1, 0])(Box(y, 2 * y))
    same(swapped[0], Y)
    same(swapped[1][0], 2 * Y.T)


def test_N33_nesting():
    outer = pb.vmap(pb.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))
    a, b = X[0, 0], Y[:, 0]
    same(outer(pb.tensor(a), pb.tensor(b)), np.outer(a, b))
    three = pb.vmap(pb.vmap(pb.vmap(lambda x: x * x), in_axes=1), out_axes=2)(pb.tensor(X))
    # the innermost axis is the first of what is left, the middle one counted along axis 1
    same(three, (X.transpose(0, 2, 1) ** 2).transpose(1, 2, 0))


def test_N33_keyword_arguments_are_mapped_over_their_first_axis():
    x, y = pb.tensor(X), pb.tensor(X[:, 0, 0])
    got = pb.vmap(lambda x, *, scale, shift: x * scale + shift["by"])(x, scale=y, shift={"by": y})
    c = X[:, 0, 0][:, None, None]
    same(got, X * c + c)


def test_N33_axis_size():
    got = pb.vmap(lambda y: y + 1, in_axes=None, axis_size=3)(pb.tensor(Y))
    same(got, np.stack([Y + 1] * 3))
    same(pb.vmap(lambda x: -x, axis_size=3)(pb.tensor(X)), -X)
    same(pb.vmap(lambda: pb.tensor(2.0), axis_size=2)(), [2.0, 2.0])


def test_N33_no_examples():
    none = pb.tensor(np.zeros((0, 4)))
    assert pb.vmap(lambda x: x.sum() * x)(none).shape == (0, 4)
    assert pb.vmap(pb.grad(lambda x: (x * x).sum()))(none).numpy().shape == (0, 4)
    assert pb.vmap(lambda: pb.tensor(2.0), axis_size=0)().numpy().shape == (0,)


def test_N33_inconsistent_sizes_raise():
    x, y = pb.tensor(X), pb.tensor(Y)
    add = pb.vmap(lambda a, b: a.sum() + b.sum())
    with told(ArgumentError, ValueError, "vmap", "same size", "3 (argument[0])", "4 (argument[1])"):
        add(x, y)
    with told(ArgumentError, ValueError, "3 (argument[0]['a'][0])", "4 (argument['b'])"):
        pb.vmap(lambda t, b: b)({"a": [x]}, b=y)
    with told(ArgumentError, ValueError, "4 (argument[0])", "7 (axis_size)"):
        pb.vmap(lambda y: y, axis_size=7)(y)
    with told(ArgumentError, ValueError, "no argument is mapped", "axis_size"):
        pb.vmap(lambda y: y, in_axes=None)(y)


def test_N33_axes_that_do_not_fit_raise():
    x = pb.tensor(X)
    with told(AxisError, IndexError, "in_axes 3", "f64[3,4,5]", "argument[0]"):
        pb.vmap(lambda x: x, in_axes=3)(x)
    with told(AxisError, IndexError, "in_axes -4"):
        pb.vmap(lambda x: x, in_axes=-4)(x)
    with told(AxisError, IndexError, "in_axes 0", "argument[1]", "None"):
        pb.vmap(lambda x, s: x * s)(x, 2.0)
    with told(AxisError, IndexError, "out_axes 1", "f64[3]"):
        pb.vmap(lambda x: x.sum(), out_axes=1)(x)
    with told(ArgumentError, ValueError, "in_axes has 2 entries for 1"):
        pb.vmap(lambda x: x, in_axes=(0, 0))(x)
    with told(ArgumentError, ValueError, "in_axes", "tree"):
        pb.vmap(lambda t: t["a"], in_axes=({"b": 0},))({"a": x})
    with told(ArgumentError, ValueError, "out_axes", "results"):
        pb.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(x)
    with told(ArgumentError, ValueError, "out_axes is None", "differs between examples"):
        pb.vmap(lambda x: x.sum(), out_axes=None)(x)
    with told(ArgumentError, ValueError, "in_axes must contain ints or None", "1.0"):
        pb.vmap(lambda x: x, in_axes=1.0)(x)
    for size in (-1, True, 2.0):
        with told(ArgumentError, ValueError, "axis_size", repr(size)):
            pb.vmap(lambda x: x, axis_size=size)


# -- N34: the user's logical axes -----------------------------------------------------------------

LOGICAL = {
    "sum of axis 0": lambda x: x.sum(axis=0),
    "sum of axis -1": lambda x: x.sum(axis=-1),
    "mean of all": lambda x: x.mean(),
    "max, kept": lambda x: x.max(axis=1, keepdims=True),
    "argmax of all": lambda x: pb.argmax(x),
    "argmin": lambda x: pb.argmin(x, axis=-2),
    "transpose": lambda x: x.T,
    "permuted": lambda x: pb.transpose(x, (1, 0)),
    "reshape to -1": lambda x: x.reshape(-1),
    "reshape": lambda x: pb.reshape(x, (2, 10)),
    "expand_dims": lambda x: pb.expand_dims(x, 1),
    "squeeze": lambda x: pb.squeeze(x[:1], 0),
    "flip": lambda x: pb.flip(x, 0),
    "row": lambda x: x[1],
    "negative row": lambda x: x[-1],
    "slices": lambda x: x[1:3, ::-2],
    "ellipsis": lambda x: x[..., 0],
    "new axis": lambda x: x[:, None],
    "rows by a list": lambda x: x[[2, 0, 0]],
    "cumulative sum": lambda x: pb.cumulative_sum(x, axis=0),
    "sort": lambda x: pb.sort(x, axis=0),
    "softmax": lambda x: pb.softmax(x, axis=0),
    "concat": lambda x: pb.concat([x, x * 2], axis=1),
    "stack": lambda x: pb.stack([x, x], axis=-1),
    "matmul": lambda x: x @ x.T,
    "shape": lambda x: x * x.shape[0] + len(x.shape),
    "broadcast_to": lambda x: pb.broadcast_to(x, (2, 4, 5)),
    "first axis of zeros": lambda x: x + pb.zeros((4, 1), dtype=pb.float64),
}


@pytest.mark.parametrize("name", LOGICAL)
def test_N34_axes_are_the_users_logical_axes(name):
    f = LOGICAL[name]
    want = np.stack([f(pb.tensor(x)).numpy() for x in X])
    for axis in (0, 1, -1):
        moved = pb.tensor(np.moveaxis(X, 0, axis))
        same(pb.vmap(f, in_axes=axis)(moved), want)


def test_N34_inside_shape_and_rank_are_those_of_one_example():
    seen = []

    def f(x):
        seen.append((x.shape, x.ndim, len(x), x.size))
        return x

    pb.vmap(f, in_axes=1)(pb.tensor(X))
    assert seen == [((3, 5), 2, 3, 15)]


@pytest.mark.parametrize("swap", [False, True])
def test_N34_operands_of_different_rank_align(swap):
    b, n = 4, 3
    small, large = RNG.standard_normal((b, n)), RNG.standard_normal((b, 4, n))
    f = (lambda x, y: y - x) if swap else (lambda x, y: x - y)
    want = np.stack([f(x, y) for x, y in zip(small, large)])
    same(pb.vmap(f)(pb.tensor(small), pb.tensor(large)), want)
    scalar = RNG.standard_normal(b)
    want = np.stack([f(x, y) for x, y in zip(scalar, large)])
    same(pb.vmap(f)(pb.tensor(scalar), pb.tensor(large)), want)
    # one of them shared: aligned at the end, as without vmap
    want = np.stack([f(x, Y[:, 0]) for x in scalar])
    same(pb.vmap(f, in_axes=(0, None))(pb.tensor(scalar), pb.tensor(Y[:, 0])), want)
    want = np.stack([f(x, large) for x in small])
    same(pb.vmap(f, in_axes=(0, None))(pb.tensor(small), pb.tensor(large)), want)


def test_N34_alignment_in_where_and_in_gradients():
    cond, a = RNG.standard_normal(3) > 0, X
    b = RNG.standard_normal((3, 5))
    got = pb.vmap(pb.where)(pb.tensor(cond), pb.tensor(a), pb.tensor(b))
    same(got, np.stack([np.where(c, p, q) for c, p, q in zip(cond, a, b)]))
    g = pb.vmap(pb.grad(lambda b, a: (a * b).sum()))(pb.tensor(b), pb.tensor(a))
    same(g, a.sum(1))
