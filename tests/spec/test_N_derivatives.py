"""CHECKLIST N21 to N25, N27 to N32, N38, N40: traces, reverse and forward mode, trees."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
from counters import counting
from each import each
from helpers import Opaque, count_calls

import pullback as pb
from pullback import debug
from pullback.errors import ArgumentError, GradientVerification, TraceError, UnsupportedOp
from pullback.graph.op_kinds import HigherOrderKind
from pullback.graph.op_table import TABLE
from pullback.lazy.record import apply
from pullback.ops.prelude import Op
from pullback.ops.sources import Input
from pullback.transforms import reverse
from pullback.transforms.reverse import gradients

A = np.array([0.3, -1.2, 2.0])
SOURCES = {"Input", "Leaf", "Scalar", "Result"}


def f64(data: Any) -> Any:
    return pb.tensor(np.asarray(data, np.float64))


# -- traces ---------------------------------------------------------------------------------------


def test_N21_a_trace_has_nodes_in_topological_order():
    x, y = f64(A), f64(A + 1)
    made = pb.trace(lambda a, b: (pb.sin(a * b) + a).sum(), x, y)
    assert [n.op.name for n in made.nodes] == ["Mul", "Sin", "Add", "Sum"]
    place = {n: i for i, n in enumerate(made.nodes)}
    for n in made.nodes:
        assert all(place[i] < place[n] for i in n.inputs if i in place)
    assert made.inputs == [x, y] or all(a is b for a, b in zip(made.inputs, [x, y]))
    assert made.outputs[0]._node is made.nodes[-1]
    assert len(made.graph.inputs) == 2 and len(made.graph.outputs) == 1


def test_N21_a_trace_can_be_printed():
    text = str(pb.trace(lambda a: pb.exp(a) * 2.0, f64(A)))
    assert "Exp(%0) : Tensor<f64, [3]>" in text and "outputs: " in text
    assert '{name: "a"}' in text


def test_N21_replay_runs_no_python():
    calls = []
    outside = f64(A * 10)

    def f(tree: dict[str, Any]) -> Any:
        calls.append(1)
        return {"sum": tree["a"] + outside, "scaled": (tree["b"] * 3.0, 1.5 * tree["a"])}

    made = pb.trace(f, {"a": f64(A), "b": f64(A)})
    again = made.replay({"a": f64(A + 1), "b": f64(A - 1)})
    assert len(calls) == 1
    np.testing.assert_allclose(again["sum"].numpy(), A + 1 + A * 10)
    np.testing.assert_allclose(again["scaled"][0].numpy(), (A - 1) * 3)
    np.testing.assert_allclose(again["scaled"][1].numpy(), (A + 1) * 1.5)
    with pytest.raises(pb.PullbackError):
        made.replay({"a": f64(A)})
    with pytest.raises(pb.PullbackError):
        made.replay({"a": f64(A[:2]), "b": f64(A)})


def test_N21_a_trace_that_branched_on_a_value_is_not_replayed():
    def f(a: Any) -> Any:
        return a * 2 if a.sum().item() > 0 else a * 3

    made = pb.trace(f, f64(A))
    with pytest.raises(TraceError, match="test_N_derivatives"):
        made.replay(f64(-A))


# -- reverse mode ---------------------------------------------------------------------------------


def test_N22_the_default_cotangent_is_ones():
    x = f64(A)
    made = pb.trace(lambda a: a * a, x)
    (gradient,) = pb.backward_on_trace(made).values()
    np.testing.assert_array_equal(gradient.numpy(), 2 * A)
    found = pb.backward_on_trace(made, f64([1.0, 0.0, -1.0]))
    np.testing.assert_array_equal(found[x].numpy(), 2 * A * [1, 0, -1])
    assert list(found) == [x]


def test_N22_a_map_from_each_input_to_its_gradient():
    x, y = f64(A), f64(A)
    found = pb.backward_on_trace(pb.trace(lambda a, b: {"p": a * b, "q": a}, x, y))
    np.testing.assert_array_equal(found[x].numpy(), A + 1)
    np.testing.assert_array_equal(found[y].numpy(), A)
    with pytest.raises(ArgumentError):
        pb.backward_on_trace(lambda a: a)


@pytest.mark.usefixtures("no_templates")
def test_N22_everything_ends_in_the_one_reverse_pass(monkeypatch):
    calls = count_calls(monkeypatch, reverse, "pull_back")
    x = f64(A)

    def f(a: Any) -> Any:
        return (pb.exp(a) * a).sum()

    def backward() -> Any:
        w = pb.tensor(x, requires_grad=True)
        f(w).backward()
        return w.grad

    ways = [
        lambda: pb.grad(f)(x),
        lambda: pb.value_and_grad(f)(x)[1],
        lambda: pb.vjp(f, x)[1](f64(1.0))[0],
        lambda: pb.backward_on_trace(pb.trace(f, x))[x],
        backward,
    ]
    bits = []
    for way in ways:
        calls.clear()
        g = way()
        assert debug.rules_applied() == ["Sum", "Mul", "Exp"] and len(calls) == 3
        bits.append(g.numpy().tobytes())
    assert len(set(bits)) == 1


def test_N23_a_node_without_a_cotangent_is_skipped():
    def f(a: Any, b: Any) -> Any:
        unused = pb.sin(a)
        constant = pb.cos(b)
        opaque = apply(Opaque(), a)  # has no rule, and gets no cotangent
        del unused, opaque
        return (a * constant).sum()

    g = pb.grad(f)(f64(A), f64(A))
    assert debug.rules_applied() == ["Sum", "Mul"]
    np.testing.assert_allclose(g.numpy(), np.cos(A))


def test_N23_missing_sibling_cotangents_are_zeros():
    def f(a: Any) -> Any:
        values, _ = pb.top_k(a, 2)
        return (values * f64([1.0, 10.0])).sum()

    np.testing.assert_array_equal(pb.grad(f)(f64(A)).numpy(), [10, 0, 1])


def differentiable_samples():
    for name in sorted(set(TABLE) - SOURCES):
        op = TABLE[name]
        # while_loop has no reverse mode
        if op.differentiable and op.vjp is not None and name != "While":
            yield name


@each(list(differentiable_samples()))
def test_N24_a_rule_returns_one_cotangent_per_input(name):
    from pullback.graph import dtypes
    from pullback.graph.node import result_nodes

    for op, arrays in TABLE[name].samples():
        arrays = [np.asarray(a) for a in arrays]
        xs = tuple(Input("x", a.shape, dtypes.dtype(a.dtype))() for a in arrays)
        node = op(*xs)
        several = isinstance(node.type, tuple)
        types = node.type if several else (node.type,)
        if not any(t.dtype.is_inexact for t in types):
            continue
        gs = tuple(Input("g", t.shape, t.dtype)() for t in types)
        out = result_nodes(node) if several else node
        need = [x.type.dtype.is_inexact for x in xs]
        handed = (
            (gradients,) if isinstance(op, HigherOrderKind) else ()
        )  # the transform, for the graphs it holds
        pulled = op.vjp(gs if several else gs[0], out, xs, need, *handed)
        assert len(pulled) == len(xs)
        for x, c in zip(xs, pulled, strict=True):
            assert c is None or c.type.dtype is x.type.dtype
            if not x.type.dtype.is_inexact:
                assert c is None, "an integer has no cotangent"


class Miscounting(Opaque, abstract=True):
    """An op whose rule returns two cotangents for one operand."""

    name = "Miscounting"
    differentiable = True

    def vjp(self, g: Any, out: Any, xs: Any, need: Any) -> list:
        return [g, g]


class Misshapen(Opaque, abstract=True):
    """An op whose rule returns a cotangent of another dtype."""

    name = "Misshapen"
    differentiable = True

    def vjp(self, g: Any, out: Any, xs: Any, need: Any) -> list:
        return [TABLE["Cast"](pb.float32)(g)]


@pytest.mark.parametrize("op", [Miscounting, Misshapen])
def test_N24_a_wrong_rule_is_told(op):
    with pytest.raises(GradientVerification, match=op.__name__.lower()):
        pb.grad(lambda a: apply(op(), a).sum())(f64(A))


@pytest.mark.parametrize(
    ("shape", "other"),
    [((), (3,)), ((3,), (2, 3)), ((1, 3), (2, 3)), ((2, 1), (2, 3)), ((1, 1), (2, 3)),
     ((3, 1), (2, 3, 4)), ((1,), (2, 3)), ((2, 1, 3), (4, 1))],
)  # fmt: skip
def test_N25_cotangents_are_reduced_to_the_inputs_shape(shape, other):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=shape), rng.normal(size=other)
    ga, gb = pb.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(f64(a), f64(b))
    full = np.broadcast_shapes(shape, other)

    def reduced(values: np.ndarray, to: tuple[int, ...]) -> np.ndarray:
        values = values.sum(axis=tuple(range(values.ndim - len(to))))
        axes = tuple(i for i, n in enumerate(to) if n == 1 and values.shape[i] != 1)
        return values.sum(axis=axes, keepdims=True)

    assert (ga.shape, gb.shape) == (shape, other)
    np.testing.assert_allclose(ga.numpy(), reduced(np.broadcast_to(b, full), shape))
    np.testing.assert_allclose(gb.numpy(), reduced(np.broadcast_to(a, full), other))


def test_N27_a_value_used_several_times_gets_the_sum():
    g = pb.grad(lambda a: (a * a + a * 3 + pb.exp(a) - a).sum())(f64(A))
    np.testing.assert_allclose(g.numpy(), 2 * A + 2 + np.exp(A))
    np.testing.assert_array_equal(pb.grad(lambda a: (a + a + a).sum())(f64(A)).numpy(), [3, 3, 3])


def test_N27_an_unreached_input_gets_zeros_of_its_type():
    x, z = f64(A), pb.tensor(np.ones((2, 2), np.float32))
    gx, tree = pb.grad(lambda a, t: a.sum(), argnums=(0, 1))(x, {"z": z, "i": [x]})
    assert gx.tolist() == [1, 1, 1]
    assert (tree["z"].shape, tree["z"].dtype) == ((2, 2), pb.float32)
    assert not tree["z"].numpy().any() and not tree["i"][0].numpy().any()


# -- both modes, to any order ---------------------------------------------------------------------


def forward(f: Any) -> Any:
    return lambda x: pb.jvp(f, (x,), (f64(1.0),))[1]


@pytest.mark.parametrize("modes", list(itertools.product("fr", repeat=4)), ids="".join)
def test_N28_gradients_can_be_differentiated_again(modes):
    def f(x: Any) -> Any:
        return pb.sin(x) * x

    x = 0.7
    want = [np.sin(x) * x, np.cos(x) * x + np.sin(x), 2 * np.cos(x) - x * np.sin(x),
            -3 * np.sin(x) - x * np.cos(x), -4 * np.cos(x) + x * np.sin(x)]  # fmt: skip
    g = f
    for order, mode in enumerate(modes, 1):
        g = pb.grad(g) if mode == "r" else forward(g)
        np.testing.assert_allclose(g(f64(x)).item(), want[order], rtol=1e-12)


def test_N28_to_a_high_order():
    g, factor = (lambda x: x**7), 1
    for order in range(7):
        g = pb.grad(g)
        factor *= 7 - order
        np.testing.assert_allclose(g(f64(1.5)).item(), factor * 1.5 ** (6 - order), rtol=1e-12)
    assert pb.grad(g)(f64(1.5)).item() == 0


def test_N28_a_gradient_inside_a_function():
    def f(x: Any) -> Any:
        inner = pb.grad(lambda y: (y * y * x).sum())(x)  # 2 y x, at y = x
        return (inner * x).sum()  # 2 x^3

    np.testing.assert_allclose(pb.grad(f)(f64(A)).numpy(), 6 * A * A)


def test_N29_the_partial_derivative_by_one_argument():
    x = f64(A)

    def f(a: Any, b: Any) -> Any:
        return (a * a * b).sum()

    np.testing.assert_allclose(pb.grad(f, 0)(x, x).numpy(), 2 * A * A)
    np.testing.assert_allclose(pb.grad(f, 1)(x, x).numpy(), A * A)
    both = pb.grad(f, (0, 1))(x, x)
    np.testing.assert_allclose(both[0].numpy(), 2 * A * A)
    np.testing.assert_allclose(both[1].numpy(), A * A)
    np.testing.assert_allclose(pb.grad(f, -1)(x, x).numpy(), A * A)
    # and the function's own use of x from outside is a constant
    np.testing.assert_allclose(pb.grad(lambda a: (a * x).sum())(x).numpy(), A)


def test_N30_value_and_grad_share_one_forward_pass():
    calls = []

    def f(a: Any) -> Any:
        calls.append(1)
        return pb.exp(pb.sin(a)).sum()

    value, g = pb.value_and_grad(f)(f64(A))
    with counting() as counts:
        np.testing.assert_allclose(value.item(), np.exp(np.sin(A)).sum())
        np.testing.assert_allclose(g.numpy(), np.exp(np.sin(A)) * np.cos(A))
        assert counts.programs == 1
    assert len(calls) == 1


def test_N30_the_program_computes_the_forward_once():
    from pullback.lazy.collect import CollectedWork, collect_pending_ancestors
    from pullback.lazy.program import build_program

    value, g = pb.value_and_grad(lambda a: pb.exp(pb.sin(a)).sum())(f64(A))
    work = CollectedWork(collect_pending_ancestors([value._node, g._node]))
    graph, _ = build_program(work, (work.index[value._node], work.index[g._node]))
    names = [n.op.name for n in graph.nodes]
    assert names.count("Exp") == 1 and names.count("Sin") == 1


def test_N31_tangents_propagate():
    ts = f64([1, 0, 2]), f64([0, 1, 1])
    y, t = pb.jvp(lambda a, b: (pb.sin(a) * b, a), (f64(A), f64(A)), ts)
    np.testing.assert_allclose(y[0].numpy(), np.sin(A) * A)
    want = np.cos(A) * A * [1, 0, 2] + np.sin(A) * [0, 1, 1]
    np.testing.assert_allclose(t[0].numpy(), want)
    assert t[1].tolist() == [1, 0, 2]
    _, zero = pb.jvp(lambda a: pb.stop_gradient(a), (f64(A),), (f64(A),))
    assert not zero.numpy().any()


def test_N31_the_four_ways_to_a_hessian_agree():
    def f(a: Any) -> Any:
        return (pb.exp(a) * pb.sin(pb.flip(a))).sum() * a[0]

    x = f64(A)
    ways = [j(k(f)) for j in (pb.jacfwd, pb.jacrev) for k in (pb.jacfwd, pb.jacrev)]
    found = [w(x).numpy() for w in ways]
    for h in found:
        assert h.shape == (3, 3)
        np.testing.assert_allclose(h, found[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(h, h.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pb.hessian(f)(x).numpy(), found[0], rtol=1e-12, atol=1e-12)
    v = np.array([1.0, -2.0, 0.5])
    product = pb.hvp(f, (x,), (f64(v),))[0].numpy()
    np.testing.assert_allclose(product, found[0] @ v, rtol=1e-12)
    pb.check_grads(f, (x,), order=2)


def test_N32_an_op_without_a_rule_raises():
    def f(a: Any) -> Any:
        return apply(Opaque(), a * 2).sum()

    x = f64(A)
    leaf = pb.tensor(x, requires_grad=True)
    for way in (
        lambda: pb.grad(f)(x),
        lambda: pb.vjp(f, x)[1](f64(1.0)),
        lambda: pb.jvp(f, (x,), (x,)),
        lambda: pb.linearize(f, x)[1](x),
        lambda: pb.backward_on_trace(pb.trace(f, x)),
        lambda: f(leaf).backward(),
    ):
        with pytest.raises(UnsupportedOp, match="opaque") as info:
            way()
        assert info.value.code == "E5001"
        assert "test_N_derivatives.py" in str(info.value)
    np.testing.assert_array_equal(
        pb.grad(lambda a: (apply(Opaque(), pb.stop_gradient(a)) * a).sum())(x).numpy(), A
    )


@each(sorted(n for n in TABLE if not TABLE[n].differentiable))
def test_N32_no_op_of_the_table_is_silently_zero(name):
    """An op from floats to floats either has rules or raises."""
    for op, arrays in TABLE[name].samples():
        tensors = [pb.asarray(np.asarray(a)) for a in arrays]
        type = op.type_of(*[t._node.type for t in tensors])
        chosen = [i for i, t in enumerate(tensors) if t.dtype.is_float]
        if isinstance(type, tuple) or not type.dtype.is_float or not chosen:
            continue
        assert isinstance(op, Op)
        with pytest.raises(UnsupportedOp):
            pb.grad(lambda *xs, op=op: apply(op, *xs).sum(), chosen)(*tensors)


# -- trees ----------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any


class Box:
    def __init__(self, content: Any, label: str) -> None:
        self.content, self.label = content, label


pb.tree.register(Box, lambda b: ([b.content], b.label), lambda label, c: Box(c[0], label))

TREES = {
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, (b,)),
    "dict": lambda a, b: {"x": a, "y": {"z": b}},
    "namedtuple": lambda a, b: Pair(a, b),
    "dataclass": lambda a, b: Layer(a, b),
    "registered": lambda a, b: Box([a, b], "label"),
    "mixed": lambda a, b: {"layers": [Layer(a, None), Pair(b, ())], "none": None},
}
trees = pytest.mark.parametrize("make", TREES.values(), ids=TREES)


@trees
def test_N38_pytrees_everywhere(make):
    tree = make(f64(A), f64(A + 1))

    def f(t: Any) -> Any:
        a, b = pb.tree.leaves(t)
        return (a * b).sum()

    value, g = pb.value_and_grad(f)(tree)
    assert type(g) is type(tree)
    ga, gb = pb.tree.leaves(g)
    np.testing.assert_allclose(ga.numpy(), A + 1)
    np.testing.assert_allclose(gb.numpy(), A)
    y, pull = pb.vjp(lambda t: pb.tree.map(lambda x: x * 2, t), tree)
    assert type(y) is type(tree)
    (back,) = pull(y)
    np.testing.assert_allclose(pb.tree.leaves(back)[0].numpy(), 4 * A)
    y, t = pb.jvp(lambda t: pb.tree.map(lambda x: x * x, t), (tree,), (tree,))
    np.testing.assert_allclose(pb.tree.leaves(t)[1].numpy(), 2 * (A + 1) ** 2)
    made = pb.trace(f, tree)
    np.testing.assert_allclose(made.replay(tree).item(), value.item())
    pb.evaluate(tree, y)
    blocks = pb.jacrev(f)(tree)
    assert [b.shape for b in pb.tree.leaves(blocks)] == [(3,), (3,)]


@trees
def test_N38_optimizers_take_trees(make):
    params = make(f64(A), f64(A + 1))
    rule = pb.optim.adam(0.1)
    state = rule.init(params)
    grads = pb.tree.map(lambda x: x * 0 + 1, params)
    new, state = rule.update(grads, state, params)
    assert type(new) is type(params)
    np.testing.assert_allclose(pb.tree.leaves(new)[0].numpy(), A - 0.1, atol=1e-6)


def test_N38_has_aux_returns_any_tree():
    (value, aux), g = pb.value_and_grad(
        lambda a: ((a * a).sum(), {"twice": a * 2, "name": "text"}), has_aux=True
    )(f64(A))
    assert aux["name"] == "text"
    np.testing.assert_allclose(aux["twice"].numpy(), 2 * A)
    np.testing.assert_allclose(g.numpy(), 2 * A)
    assert value.shape == ()


# -- styles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_N40_both_styles_give_the_same_numbers(kind):
    rule, optimizer, options = {
        "sgd": (pb.optim.sgd, pb.optim.SGD, {"learning_rate": 0.1}),
        "momentum": (pb.optim.sgd, pb.optim.SGD, {"learning_rate": 0.05, "momentum": 0.9}),
        "adam": (pb.optim.adam, pb.optim.Adam, {"learning_rate": 0.05}),
    }[kind]
    rng = np.random.default_rng(1)
    x, y = f64(rng.normal(size=(8, 3))), f64(rng.normal(size=(8, 2)))
    start = {"w": rng.normal(size=(3, 2)), "b": np.zeros(2)}

    def loss_of(p: Any) -> Any:
        return ((pb.tanh(x @ p["w"] + p["b"]) - y) ** 2).mean()

    params = {k: f64(v) for k, v in start.items()}
    functional = rule(**options)
    state = functional.init(params)
    ours: list[float] = []
    for _ in range(10):
        loss, grads = pb.value_and_grad(loss_of)(params)
        params, state = functional.update(grads, state, params)
        ours.append(loss.item())

    leaves = {k: pb.tensor(v, requires_grad=True) for k, v in start.items()}
    imperative = optimizer(leaves, **options)
    theirs: list[float] = []
    for _ in range(10):
        imperative.zero_grad()
        loss = loss_of(leaves)
        loss.backward()
        imperative.step()
        theirs.append(loss.item())
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    for k in start:
        np.testing.assert_allclose(params[k].numpy(), leaves[k].numpy(), rtol=1e-12)
    assert ours[-1] < ours[0]
