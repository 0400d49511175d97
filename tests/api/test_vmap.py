"""vmap beyond its axes: derivatives, captured tensors, arguments, errors, programs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from counters import counting
from helpers import line, told
from rows import V, W, X, looped, loss, same

import pullback as pb
from pullback.errors import (
    ArgumentError,
    AxisError,
    HostReadError,
    InPlaceError,
    ShapeError,
    UnsupportedOp,
)
from pullback.graph.dtypes import float64
from pullback.graph.graph import Graph
from pullback.graph.node import result_nodes
from pullback.graph.op_table import TABLE
from pullback.lazy.record import apply
from pullback.ops.prelude import Axis, Op
from pullback.ops.sources import Input
from pullback.transforms.batch import batched_graph

pytestmark = pytest.mark.usefixtures("engine")


# -- derivatives ----------------------------------------------------------------------------------


def test_per_example_gradients():
    x, w = pb.tensor(X), pb.tensor(W)
    got = pb.vmap(pb.grad(loss, argnums=(0, 1)), in_axes=(0, None))(x, w)
    for i, one in enumerate(got):
        same(one, looped(lambda x, i=i: pb.grad(loss, argnums=(0, 1))(x, w)[i], x))
    value, g = pb.vmap(pb.value_and_grad(loss), in_axes=(0, None))(x, w)
    same(value, looped(lambda x: loss(x, w), x))
    same(g, got[0])


def test_gradient_of_a_mapped_function():
    x, w = pb.tensor(X), pb.tensor(W)

    def total(x, w):
        return (pb.vmap(loss, in_axes=(0, None))(x, w) * pb.tensor(V)).sum()

    def plain(x, w):
        return (looped(lambda x: loss(x, w), x) * pb.tensor(V)).sum()

    for got, want in zip(pb.grad(total, (0, 1))(x, w), pb.grad(plain, (0, 1))(x, w), strict=True):
        same(got, want)


def test_captured_tensors_get_their_gradient():
    x, w = pb.tensor(X), pb.tensor(W)
    got = pb.grad(lambda w: pb.vmap(lambda x: loss(x, w))(x).sum())(w)
    same(got, pb.grad(lambda w: looped(lambda x: loss(x, w), x).sum())(w))
    leaf = pb.tensor(W, requires_grad=True)
    pb.vmap(lambda x: loss(x, leaf))(x).sum().backward()
    same(leaf.grad, got)
    mapped = pb.tensor(X, requires_grad=True)
    pb.vmap(lambda x: loss(x, w))(mapped).sum().backward()
    same(mapped.grad, pb.vmap(pb.grad(loss), in_axes=(0, None))(x, w))


def test_captured_pending_tensors_and_results_of_a_transform():
    x = pb.tensor(X)
    w = pb.tensor(W) * 2.0  # not computed yet
    y, pull = pb.vjp(lambda w: (w * w).sum(), w)
    same(pb.vmap(lambda x: (x @ w).sum() * y)(x), (X @ (2 * W)).sum(1) * (4 * W * W).sum())
    same(pb.vmap(lambda s: pull(s)[0])(pb.tensor(V)), V[:, None, None] * 4 * W)
    same(pb.vmap(lambda s: pull(s)[0], axis_name="i")(pb.tensor(V)), V[:, None, None] * 4 * W)


@pytest.mark.parametrize("axis_name", [None, "i"])
def test_forward_mode(axis_name):
    x, t, w = pb.tensor(X), pb.tensor(X[::-1].copy()), pb.tensor(W)

    def f(x):
        return pb.tanh(x @ w)

    want = pb.stack([pb.jvp(f, (x[i],), (t[i],))[1] for i in range(4)])
    got = pb.vmap(lambda x, t: pb.jvp(f, (x,), (t,))[1], axis_name=axis_name)(x, t)
    same(got, want)
    same(pb.jvp(pb.vmap(f, axis_name=axis_name), (x,), (t,))[1], want)
    # one direction for all examples
    got = pb.vmap(lambda x: pb.jvp(f, (x,), (t[0],))[1], axis_name=axis_name)(x)
    same(got, pb.stack([pb.jvp(f, (x[i],), (t[0],))[1] for i in range(4)]))
    y, push = pb.linearize(pb.vmap(f), x)
    same(push(t), want)
    same(y, looped(f, x))


def test_second_order():
    x, w, v = pb.tensor(X), pb.tensor(W), pb.tensor(X[::-1].copy())

    def f(x):
        return loss(x, w)

    want = pb.stack([pb.hvp(f, (x[i],), (v[i],))[0] for i in range(4)])
    same(pb.vmap(lambda x, v: pb.hvp(f, (x,), (v,))[0])(x, v), want)

    def total(x):
        return pb.vmap(f)(x).sum()

    same(pb.hvp(total, (x,), (v,))[0], want)
    same(pb.grad(lambda x: (pb.grad(total)(x) * v).sum())(x), want)
    hessians = pb.vmap(pb.hessian(f))(x)
    same(hessians, looped(pb.hessian(f), x))
    same(pb.vmap(pb.jacrev(pb.grad(f)))(x), hessians)
    third = pb.grad(lambda x: pb.vmap(pb.grad(lambda x: pb.grad(lambda x: (x**5).sum())(x).sum()))(
        x).sum())(x)  # fmt: skip
    same(third, 60 * X**2)


def test_jacobian_by_mapping_a_pullback():
    w = pb.tensor(W)

    def f(x):
        return pb.tanh(x @ w) * x.sum()

    x = pb.tensor(X[0])
    _y, pull = pb.vjp(f, x)
    rows = pb.vmap(lambda g: pull(g)[0])(pb.eye(2, dtype=pb.float64))
    same(rows, pb.jacfwd(f)(x))


def test_stopped_gradients_stay_stopped():
    x = pb.tensor(V)

    def f(x):
        return pb.stop_gradient(x) * x

    same(pb.vmap(pb.grad(f))(x), V)
    same(pb.grad(lambda x: pb.vmap(f)(x).sum())(x), V)
    with pb.no_grad():
        y = pb.vmap(lambda x: x * x)(pb.tensor(V, requires_grad=True))
    assert not y.requires_grad


def test_random_programs_against_a_loop(engine):
    """Programs of mixed ops, mapped over any choice of arguments, with their gradients."""
    ops = [
        lambda a, b: a * b, lambda a, b: pb.sin(a) + b, lambda a, b: a - b.mean(),
        lambda a, b: pb.where(a > b, a, b * 0.5), lambda a, b: pb.cumulative_sum(a) * b,
        lambda a, b: pb.sort(a) + b, lambda a, b: a[::-1] * b,
        lambda a, b: pb.softmax(a) * b, lambda a, b: pb.concat([a[:1], b[1:]]),
        lambda a, b: pb.take(a, pb.argsort(b)), lambda a, b: pb.max(a) * b,
    ]  # fmt: skip
    for seed in range(12 if engine == "reference" else 3):
        rng = np.random.default_rng(seed)
        plan = [(int(rng.integers(len(ops))), *map(int, rng.integers(0, 4, 2))) for _ in range(8)]

        def f(*xs, plan=plan):
            xs = list(xs)
            for k, i, j in plan:
                xs.append(ops[k](xs[-1 - i % len(xs)], xs[-1 - j % len(xs)]))
            return (xs[-1] * xs[-2]).sum()

        flags = [(True, False), (False, True), (True, True)][seed % 3]
        data = [rng.standard_normal((4, 5) if has else 5) for has in flags]
        tensors = [pb.tensor(a) for a in data]
        axes = tuple(0 if has else None for has in flags)
        for g in (f, pb.grad(f), pb.grad(f, 1)):
            rows = [[t[i] if has else t for t, has in zip(tensors, flags)] for i in range(4)]
            same(pb.vmap(g, in_axes=axes)(*tensors), pb.stack([g(*row) for row in rows]), 1e-9)


# -- arguments and results ------------------------------------------------------------------------


def test_arguments_that_are_not_arrays_pass_through():
    seen = []

    def f(x, how, n, nothing):
        seen.append((how, n, nothing))
        return x * n if how == "times" else x

    got = pb.vmap(f, in_axes=(0, None, None, None))(pb.tensor(V), "times", 3, None)
    same(got, 3 * V)
    assert seen == [("times", 3, None)]
    with told(ArgumentError, ValueError, "only tensors and arrays", "str at argument[1]", "None"):
        pb.vmap(lambda x, how: x)(pb.tensor(V), "times")


def test_arrays_and_lists_are_arguments_too():
    same(pb.vmap(lambda x, y: x * y, in_axes=(0, None))(V, X[0]), np.outer(V, X[0]))
    # a list is a tree: each entry is an argument
    same(pb.vmap(lambda xs: xs[0] - xs[1])([V, V[::-1]]), V - V[::-1])


def test_python_numbers_take_the_type_of_the_tensor():
    for dtype in (pb.float16, pb.float32, pb.float64, pb.int32):
        x = pb.tensor([1, 2, 3], dtype=dtype)
        assert pb.vmap(lambda x: 2 * x + 1)(x).dtype is dtype
        assert pb.vmap(lambda x, s: x * s, in_axes=(0, None))(x, 2).dtype is dtype


def test_results_that_are_numbers_or_captured():
    w = pb.tensor(W)
    a, b, c = pb.vmap(lambda x: (1.5, w, x), out_axes=(0, None, 0))(pb.tensor(V))
    same(a, [1.5] * 4)
    same(b, W)
    same(c, V)


def test_functions_keep_their_name():
    def distance(x):
        """How far."""
        return abs(x)

    assert pb.vmap(distance).__name__ == "distance"
    assert pb.vmap(distance).__doc__ == "How far."


# -- errors ---------------------------------------------------------------------------------------


def test_errors_name_the_users_line():
    x = pb.tensor(X)

    def f(x):
        return x + pb.ones((2,))

    with told(ShapeError, ValueError, "+:", "f64[3]", at=line(-2)):
        pb.vmap(f)(x)
    with told(AxisError, IndexError, "sum:"):
        pb.vmap(lambda x: x.sum(axis=1))(x)


def test_reading_and_writing_inside_raise():
    x, outside = pb.tensor(V), pb.tensor(V)
    with told(HostReadError, TypeError, "placeholders"):
        pb.vmap(lambda x: x if x > 0 else -x)(x)
    with told(HostReadError, TypeError, "placeholders"):
        pb.vmap(lambda x: (outside + x).numpy())(x)

    def writes(x):
        outside[0] = 1.0
        return x

    with told(InPlaceError, RuntimeError, "outside the function"):
        pb.vmap(writes)(x)
    same(outside, V)

    def local(x):
        y = x * 2
        y += 1
        y[0] = 5.0
        return y

    same(pb.vmap(local)(pb.tensor(X)), np.concatenate([np.full((4, 1), 5.0), 2 * X[:, 1:] + 1], 1))


class Unbatched(Op, abstract=True):
    """The elements of a vector in reverse order; it has no batching rule."""

    title = "unbatched"
    linear = True

    def infer(self, x):
        if x.rank != 1:
            raise ShapeError(f"needs a vector, got {x}")
        return x

    def numpy(self, x):
        return x[::-1]

    def hlo(self, b, out, x):
        return b.op("stablehlo.reverse", x, out=out, dimensions=(0,))

    def vjp(self, g, out, xs, need):
        return [self(g)]


def test_an_op_without_a_rule_loops_over_the_examples():
    op = Unbatched()
    f = pb.vmap(lambda x: apply(op, x) * x)
    same(f(pb.tensor(X)), X[:, ::-1] * X)
    same(pb.grad(lambda x: f(x).sum())(pb.tensor(X)), 2 * X[:, ::-1])
    same(pb.vmap(f)(pb.tensor(np.stack([X, -X]))), np.stack([X[:, ::-1] * X] * 2))
    with told(ShapeError, ValueError, "unbatched: needs a vector, got f64[]", at=line(1)):
        pb.vmap(lambda x: apply(op, x))(pb.tensor(V))


class Refusing(Op, abstract=True):
    """An op whose batching rule raises."""

    title = "refusing"

    def infer(self, x):
        return x

    def numpy(self, x):
        return x

    def batch(self, axis, xs, mapped):
        raise UnsupportedOp("cannot be mapped")


def test_an_error_in_a_rule_names_the_op_and_the_users_line():
    with told(UnsupportedOp, TypeError, "refusing: cannot be mapped", at=line(1)):
        pb.vmap(lambda x: apply(Refusing(), x))(pb.tensor(V))


class Wrong(Refusing, abstract=True):
    """An op whose batching rule loses the examples."""

    title = "wrong"

    def batch(self, axis, xs, mapped):
        return pb.tensor(np.zeros((7,)))._node


def test_a_wrong_rule_is_caught():
    with pytest.raises(pb.PullbackError, match=r"wrong: the batching rule gave f64\[7\] for 4"):
        pb.vmap(lambda x: apply(Wrong(), x))(pb.tensor(X))


# -- programs -------------------------------------------------------------------------------------


def test_changing_numbers_do_not_recompile():
    x, w = pb.tensor(X), pb.tensor(W)

    def step(rate, w):
        g = pb.vmap(pb.grad(loss, 1), in_axes=(0, None))(x, w)
        return w - rate * pb.vmap(lambda g, s: g * s * rate, in_axes=(0, None))(g, rate).sum(axis=0)

    step(0.5, w).numpy()
    with counting() as count:
        for i in range(1, 6):
            step(0.1 * i, w).numpy()
    assert count.compiles == 0
    assert count.programs == 5


def test_nothing_is_computed_before_it_is_read():
    x = pb.tensor(X)
    with counting() as count:
        y = pb.vmap(lambda x: pb.sin(x).sum())(x)
        assert y.shape == (4,)
        assert count.nothing
    y.numpy()
    assert count.programs == 1


CHEAP = {
    "softmax": (TABLE["Softmax"]((0,)), [(3,)], [True], ["Softmax"]),
    "top k": (
        lambda x: result_nodes(TABLE["TopK"](2, 0)(x))[0],
        [(3,)],
        [True],
        ["TopK", "Result"],
    ),
    "pad by one value": (TABLE["Pad"]((1,), (0,), (0,)), [(3,), ()], [True, False], ["Pad"]),
    "concat": (TABLE["Concat"](0), [(3,), (3,)], [True, True], ["Concat"]),
    "concat with one": (TABLE["Concat"](0), [(3,), (3,)], [True, False], ["Broadcast", "Concat"]),
    "product with one": (lambda x, y: x * y, [(3,), (3,)], [True, False], ["Mul"]),
    "product by a number": (lambda x, y: x * y, [(3,), ()], [False, True], ["Reshape", "Mul"]),
    "matmul with one": (TABLE["MatMul"](), [(4, 3), (3, 2)], [True, False], ["MatMul"]),
    "one for all": (lambda x, y: y * y, [(3,), (3,)], [True, False], ["Mul"]),
}


@pytest.mark.parametrize("name", CHEAP)
def test_programs_stay_cheap(name):
    """The same ops with one more dimension; shared values are copied only if necessary."""
    f, shapes, mapped, want = CHEAP[name]
    inputs = [Input(f"x{i}", shape, float64)() for i, shape in enumerate(shapes)]
    wide, _ = batched_graph(Graph(inputs, (f(*inputs),)), Axis(8), mapped)
    assert [n.op.name for n in wide.nodes[len(inputs) :]] == want


def test_long_programs():
    x, w = pb.tensor(V), pb.tensor(0.5)

    def f(x):
        for _ in range(6000):
            x = x + w
        return x

    same(pb.vmap(f)(x), V + 3000)


OUT_OF_RANGE = {
    "gather": lambda x, i: x[i],
    "gather further behind": lambda x, i: x[:, i],
    "take": lambda x, i: pb.take(x, i, axis=1),
    "index arrays": lambda x, i: x[pb.tensor([0]), i],
    "scatter": lambda x, i: x.at[i].set(0.0),
    "scatter of updates": lambda x, i: pb.zeros((3, 2)).at[i].add(x[:1]),
    "along": lambda x, i: pb.take_along_axis(x, i.reshape(1, 1) + pb.zeros((1, 2), pb.int64), 0),
    "block": lambda x, i: pb.dynamic_slice(x, (i[0], 0), (1, 1)),
    "gradient": lambda x, i: pb.grad(lambda v: v[i].sum())(x),
}


@pytest.mark.parametrize("engine", ["xla", "reference"])
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_errors_count_axes_as_one_example_does(name, engine):
    f, i = OUT_OF_RANGE[name], pb.tensor([7])
    one, many = np.ones((3, 2), np.float32), np.ones((4, 5, 3, 2), np.float32)
    mapped = pb.vmap(pb.vmap(lambda x: f(x, i)))
    with pb.config(engine=engine):
        with pytest.raises(IndexError) as alone:
            f(pb.tensor(one), i).numpy()
        with pytest.raises(IndexError) as together:
            mapped(pb.tensor(many)).numpy()
    said = [re.search(r"axis \d of size \d", str(e.value)).group() for e in (alone, together)]
    assert said[0] == said[1]


def test_vmap_of_something_that_is_not_a_function_raises_at_once():
    with told(ArgumentError, ValueError, "vmap: f must be a function, got int 3"):
        pb.vmap(3)
