"""The gradient cache writes out the same nodes again, and never a stale gradient."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import pytest
from counters import live_nodes
from each import each
from helpers import Opaque, array, count_calls, gradient, line, random_dag, source, told

import pullback as pb
from pullback import debug
from pullback.errors import UnsupportedOp
from pullback.graph.ambient import thread
from pullback.graph.dtypes import dtype, float64
from pullback.graph.graph import graph_ancestors
from pullback.graph.node import Node, constant_node
from pullback.graph.op_kinds import HigherOrderKind
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.lazy.record import apply, record_several
from pullback.ops.elementwise.arithmetic import Mul
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.optimizer_steps import AdamStep
from pullback.ops.sources import Leaf
from pullback.transforms import gradient_cache, reverse
from pullback.transforms.reverse import gradients

A = array(0.5, 1.5, 2.5)
B = array(1.25, 0.75, 3.0)
M = np.arange(9.0).reshape(3, 3) / 7 + 0.1


@pytest.fixture(autouse=True)
def empty_cache():
    """Each test starts with an empty cache."""
    gradient_cache.clear()


@pytest.fixture
def calls(monkeypatch):
    """The arguments of every rule call."""
    return count_calls(monkeypatch, reverse, "pull_back")


def written(found):
    """A description of the nodes of some gradients, in the order of recording."""
    nodes = graph_ancestors([g for g in found if g is not None])
    index = {n: i for i, n in enumerate(nodes)}
    tokens: dict[Any, int] = {}
    return [
        (
            n.op, [index[x] for x in n.inputs], n.type, n.where, n.forward_op,
            [tokens.setdefault(t, len(tokens)) for t in n.tokens],
        )
        for n in nodes
    ]  # fmt: skip


# -- the same, without calling a rule -------------------------------------------------------------


def test_the_second_gradient_calls_no_rule(calls):
    def f(a, b):
        return (pb.log_softmax(a @ b, axis=-1) * b).sum()

    g = pb.grad(f, (0, 1))
    first = [x.numpy() for x in g(M, M)]
    names = debug.rules_applied()
    assert len(calls) == len(names) > 3
    calls.clear()
    second = [x.numpy() for x in g(M + 0.0, M)]
    assert not calls
    assert debug.rules_applied() == names
    assert [a.tobytes() for a in first] == [a.tobytes() for a in second]


def test_every_way_to_a_gradient_shares_the_cache(calls):
    def f(a):
        return (pb.exp(a) * a).sum()

    def backward():
        w = pb.tensor(A, requires_grad=True)
        f(w).backward()
        return w.grad

    want = pb.grad(f)(A).numpy().tobytes()
    calls.clear()
    ways = [lambda: pb.value_and_grad(f)(A)[1], lambda: pb.grad(lambda a: f(a))(A), backward]
    for _ in range(2):
        bits = [way().numpy().tobytes() for way in ways]
    assert set(bits) == {want}
    assert len(calls) <= 3  # a leaf of backward() is no alias: it is derived once more


@pytest.mark.parametrize("seed", range(8))
def test_nodes_are_written_as_they_were_derived(seed, calls):
    inputs, out = random_dag(seed, [TABLE[n]() for n in ("Add", "Mul", "Div", "Maximum")])
    derived = gradient(out, *inputs)
    names = debug.rules_applied()
    assert calls
    calls.clear()
    again = gradient(out, *inputs)
    assert not calls
    assert debug.rules_applied() == names
    assert written(again) == written(derived)


def several(x):
    values = pb.top_k(x, 2).values
    return values.sum() + (values * values).sum() * 0.5


def composite(x):
    """An op with several results that is differentiated through its expansion."""
    numbers = [constant_node(v, float64) for v in (0.1, 1.3, 0.9, 0.1, 0.99, 0.01, 1e-3)]
    operands = [v._node for v in (x, x * x, pb.sin(x), x * 2)]
    new, mean, square = record_several(AdamStep(), (*operands, *numbers))
    return (new * mean + pb.logsumexp(square)).sum()


FUNCTIONS = {
    "several results": several,
    "composite": composite,
    "matrix": lambda x: ((x * M) @ x).sum() / 3,
    "branch": lambda x: pb.where(x > 1, pb.sqrt(x), pb.log(x)).sum(),
    "unused": lambda x: (pb.stop_gradient(x) * x)[0] + 2,
    "constant": lambda x: pb.tensor(2.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_any_order_is_the_same_written_out(name, order, calls):
    def slope(f):
        return pb.grad(lambda x: f(x).sum())

    f = FUNCTIONS[name]
    for _ in range(order):
        f = slope(f)
    first = f(pb.tensor(A)).numpy()
    names = debug.rules_applied()
    calls.clear()
    second = f(pb.tensor(A)).numpy()
    assert not calls
    assert debug.rules_applied() == names
    assert first.tobytes() == second.tobytes()


def test_gradients_of_backward_are_constants_each_time():
    w = pb.tensor(A, requires_grad=True)
    for _ in range(3):
        w.zero_grad()
        (w * w * w).sum().backward()
        assert not w.grad.requires_grad
        np.testing.assert_array_equal(w.grad.numpy(), 3 * A * A)


@pytest.mark.parametrize("leaf_tokens", [True, False])
def test_tokens_are_those_of_the_operands(leaf_tokens):
    def nodes():
        x, w = pb.tensor(A), pb.tensor(B, requires_grad=True)
        y, pull = pb.vjp(lambda x: pb.top_k(x * w, 2).values, x)
        thread.leaf_tokens = leaf_tokens
        try:
            return written([g._node for g in pull(y)])
        finally:
            thread.leaf_tokens = True

    derived, again = nodes(), nodes()
    assert again == derived
    assert len({tuple(tokens) for *_, tokens in derived}) > 1


def test_a_node_carries_the_line_of_its_own_forward_node(calls):
    def lines(f):
        _, pull = pb.vjp(f, pb.tensor(A))
        made = graph_ancestors([g._node for g in pull(pb.tensor(B))])
        return {str(n.where) for n in made if n.backward}

    first = lines(lambda x: pb.sin(x) * x)
    here = line(-1)
    calls.clear()
    second = lines(lambda x: pb.sin(x) * x)
    there = line(-1)
    assert not calls
    assert here in first - second
    assert there in second - first


# -- never stale ----------------------------------------------------------------------------------


PAIRS = {
    "op": (lambda x, y: (pb.sin(x) * y).sum(), lambda x, y: (pb.cos(x) * y).sum()),
    "parameter": (lambda x, y: (x**2).sum(), lambda x, y: (x**3).sum()),
    "axis": (
        lambda x, y: ((x * M).sum(axis=0) * y).sum(),
        lambda x, y: ((x * M).sum(axis=1) * y).sum(),
    ),
    "same operand": (lambda x, y: (x * x).sum(), lambda x, y: (x * y).sum()),
    "swapped operands": (lambda x, y: (x / y).sum(), lambda x, y: (y / x).sum()),
    "edges": (lambda x, y: ((x + y) * x).sum(), lambda x, y: ((x + y) * y).sum()),
    "constant": (
        lambda x, y: (x * pb.eye(3, dtype=x.dtype)[0]).sum(),
        lambda x, y: (x * pb.eye(3, dtype=x.dtype)[1]).sum(),
    ),
    "element type": (
        lambda x, y: (x.astype("float32") * 2).sum().astype("float64"),
        lambda x, y: (x.astype("float16") * 2).sum().astype("float64"),
    ),
    "shape": (lambda x, y: (x * M).sum(), lambda x, y: (x * M[:2]).sum()),
    "detached": (lambda x, y: (x * y).sum(), lambda x, y: (x * pb.stop_gradient(y)).sum()),
    "dependence": (lambda x, y: x.sum(), lambda x, y: y.sum()),
    "number": (lambda x, y: (x * 2.0).sum(), lambda x, y: (x * 3.0).sum()),
}


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1, 0)])
@pytest.mark.parametrize("name", PAIRS)
def test_programs_that_differ_are_told_apart(name, argnums, monkeypatch, on_cpu):
    def bits(f, x, y):
        found = pb.grad(f, argnums)(x, y)
        return [g.numpy().tobytes() for g in (found if isinstance(found, tuple) else (found,))]

    points = [(A, B), (B, A), (A, A)]
    with monkeypatch.context() as patch:
        patch.setattr(gradient_cache, "LARGEST", -1)
        want = [[bits(f, *p) for p in points] for f in PAIRS[name]]
    for _ in range(3):
        assert [[bits(f, *p) for p in points] for f in PAIRS[name]] == want


def test_how_a_constant_was_computed_is_part_of_the_key():
    zero = pb.zeros(3, dtype="float64")
    singular, plain = pb.log(zero), zero - np.inf  # rules guard the infinity of log(0) alone
    pb.evaluate(singular, plain)
    for _ in range(2):
        for c, want in ((singular, 0.0), (plain, np.nan)):
            g = pb.grad(lambda x, c: (x * c * zero).sum())(A, c)
            np.testing.assert_array_equal(g.numpy(), [want] * 3)


def test_the_selected_arguments_are_part_of_the_key(calls):
    def f(x, y):
        return (x * y).sum()

    for _ in range(2):
        for argnums, want in ((0, [B]), (1, [A]), ((1, 0), [A, B])):
            found = pb.grad(f, argnums)(A, B)
            found = found if isinstance(found, tuple) else (found,)
            assert [g.tolist() for g in found] == [w.tolist() for w in want]
    assert len(calls) == 2 * 3


def test_seeds_outputs_and_targets_are_part_of_the_key(monkeypatch):
    x, y, g = source(3), source(3, name="y"), source(3, name="g")
    h = TABLE["Sin"]()(g)
    z = x * y
    w = z + x
    cases = [
        ([z, w], seeds, [x, y])
        for seeds in [(g, None), (None, g), (g, g), (g, h), (x, g), (z, g), (None, None)]
    ]
    cases += [([w, z], (g, h), [x, y]), ([w, w], (g, h), [x])]
    cases += [([w], (g,), targets) for targets in ([x], [y], [z], [x, z], [z, x], [x, x])]
    cases += [([z], (g,), [x]), ([x], (g,), [x]), ([x], (g,), [z])]
    with monkeypatch.context() as patch:
        patch.setattr(gradient_cache, "LARGEST", -1)
        want = [written(gradients(*case)) for case in cases]
    for _ in range(2):
        assert [written(gradients(*case)) for case in cases] == want


def test_an_operand_from_outside_is_not_mistaken_for_a_node_inside():
    u, v = source(3, name="u"), source(3, name="v")
    outside = u + v
    x, g = source(3), source(3, name="g")
    product = x * outside
    x_too = source(3)
    inside = u * v
    total = x_too + inside
    for _ in range(2):
        (gx,) = gradients([product], [g], [x])
        assert (gx.op, gx.inputs) == (Mul(), (g, outside))
        assert gradients([total], [g], [x_too]) == [g]


@pytest.mark.usefixtures("no_templates")
def test_a_seed_is_added_after_the_consumers_whatever_was_recorded_between():
    def order(between):
        x = source(3)
        y = TABLE["Sin"]()(x)
        for _ in range(between):
            source(3)
        z = y * y
        return [n[:2] for n in written(gradients([y, z], [x, x], [y]))]

    assert order(0) == order(1)


def replaced(self, out, x, y):
    return (x, y)


def test_a_rule_that_was_replaced_is_called(monkeypatch):
    g = pb.grad(lambda x, y: (x * y).sum())
    assert g(A, B).tolist() == g(A, B).tolist() == B.tolist()
    with monkeypatch.context() as patch:
        patch.setattr(Mul, "partials", replaced)
        assert g(A, B).tolist() == g(A, B).tolist() == A.tolist()
    assert g(A, B).tolist() == g(A, B).tolist() == B.tolist()


def test_a_rule_that_was_replaced_in_a_base_class_is_called(monkeypatch):
    def nothing(self, g, out, xs, need):
        return [None] * len(xs)

    g = pb.grad(lambda x, y: (x * y).sum())
    assert g(A, B).tolist() == B.tolist()
    with monkeypatch.context() as patch:
        patch.setattr(Elementwise, "vjp", nothing)
        assert g(A, B).tolist() == [0.0] * 3
    monkeypatch.setattr(Mul, "vjp", nothing, raising=False)
    assert g(A, B).tolist() == [0.0] * 3
    monkeypatch.undo()
    assert g(A, B).tolist() == B.tolist()


class Moody(Opaque, abstract=True):
    """An op from outside the package, whose rule depends on more than its operands."""

    name: ClassVar[str] = "Moody"
    differentiable: ClassVar[bool] = True
    factor: ClassVar[list] = [1]

    def vjp(self, g, out, xs, need):
        return [g * self.factor[0]]


class Steady(Moody, abstract=True):
    """An op that promises that its rule looks at nothing else."""

    name: ClassVar[str] = "Steady"
    pure: ClassVar[bool] = True


def test_a_rule_from_outside_the_package_is_called_each_time():
    g = pb.grad(lambda x: (apply(Moody(), x) * 2).sum())
    for factor in (1, 2, 3):
        Moody.factor[0] = factor
        assert g(pb.tensor(A)).tolist() == [2.0 * factor] * 3


def test_a_rule_that_is_pure_is_cached(calls):
    g = pb.grad(lambda x: (apply(Steady(), x) * 2).sum())
    Moody.factor[0] = 1
    want = g(pb.tensor(A)).tolist()
    calls.clear()
    assert g(pb.tensor(A)).tolist() == want
    assert not calls


class Hoarder(Steady, abstract=True):
    """An op that claims to be pure, but whose rule uses a node from elsewhere."""

    name: ClassVar[str] = "Hoarder"
    pure: ClassVar[bool] = True
    hoard: ClassVar[list] = []

    def vjp(self, g, out, xs, need):
        return [g * self.hoard[0]]


def test_a_gradient_with_a_node_from_elsewhere_is_not_cached():
    g = pb.grad(lambda x: apply(Hoarder(), x).sum())
    for value in (1.0, 2.0, 3.0):
        Hoarder.hoard[:] = [pb.tensor(value, dtype="float64")._node]
        assert g(pb.tensor(A)).tolist() == [value] * 3
    Hoarder.hoard.clear()


def test_an_error_is_raised_every_time():
    class Stiff(Opaque, abstract=True):
        name: ClassVar[str] = "Stiff"
        pure: ClassVar[bool] = True

    for op in (Opaque(), Stiff()):
        for _ in range(3):
            with told(UnsupportedOp, TypeError, f"no reverse-mode rule for {op.title}"):
                pb.grad(lambda x, op=op: (apply(op, x) * x).sum())(pb.tensor(A))


# -- bounds ---------------------------------------------------------------------------------------


def test_large_graphs_are_derived_each_time(calls, monkeypatch):
    monkeypatch.setattr(gradient_cache, "LARGEST", 20)

    def f(x):
        for _ in range(30):
            x = pb.sin(x)
        return x.sum()

    pb.grad(f)(A)
    count = len(calls)
    pb.grad(f)(A)
    assert len(calls) == 2 * count > 30


def test_the_cache_is_bounded_and_keeps_the_latest(calls, monkeypatch):
    monkeypatch.setattr(gradient_cache, "CAPACITY", 300)

    def g(n):
        x = np.ones(n)
        return pb.grad(lambda x: (pb.sin(x) * x).sum())(x)

    for n in range(1, 60):
        g(n)
        assert gradient_cache._cache.size <= 300
    held = len(gradient_cache._cache._templates)
    assert 1 < held < 59
    calls.clear()
    for n in range(60 - held, 60):
        g(n)
    assert not calls
    g(1)
    assert calls


def test_a_template_in_use_is_kept(calls, monkeypatch):
    monkeypatch.setattr(gradient_cache, "CAPACITY", 300)
    for n in range(1, 60):
        for size in (100, n):
            pb.grad(lambda x: (pb.sin(x) * x).sum())(np.ones(size))
    assert sum(node.type.shape == (100,) for node, *_ in calls) == 2


def test_a_template_larger_than_the_cache_is_not_kept(monkeypatch):
    monkeypatch.setattr(gradient_cache, "CAPACITY", 10)
    for _ in range(2):
        assert pb.grad(lambda x: (x * x).sum())(A).tolist() == (2 * A).tolist()
    assert gradient_cache._cache.size == 0


def test_no_node_and_no_value_is_kept_alive():
    def f(x):
        return (pb.log_softmax(x @ M, axis=-1) * x).sum()

    pb.grad(f)(M).numpy()
    before = live_nodes()
    x = pb.tensor(M)
    node = weakref.ref(x._node)
    for _ in range(5):
        pb.grad(f)(x).numpy()
    del x
    assert node() is None
    assert live_nodes() <= before
    assert gradient_cache._cache.size > 0


def test_threads_share_the_cache():
    functions = [lambda x, k=k: (pb.sin(x * x) ** k).sum() for k in (2, 3, 4, 5)]
    want = [pb.grad(f)(pb.tensor(A)).numpy().tobytes() for f in functions]
    wrong = []

    def work(turn):
        for i in range(40):
            k = (i + turn) % len(functions)
            if pb.grad(functions[k])(pb.tensor(A)).numpy().tobytes() != want[k]:
                wrong.append((turn, i))
            if i % 9 == turn:
                gradient_cache.clear()

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


# -- what rules look at ---------------------------------------------------------------------------


def hidden(name):
    def look(self, *args):
        raise AssertionError(f"a rule looked at {name}, which is not part of the key")

    return look


class Unseen:
    """The operands of an operand, which rules must not look at."""

    __iter__ = __len__ = __getitem__ = hidden("the operands of an operand")

    def __bool__(self):
        return False


class Shy(Node):
    """A node that shows only its op and its type."""

    __slots__ = ()
    inputs = Unseen()
    value, where, backward = (property(hidden(n)) for n in ("value", "where", "backward"))
    number = -1  # recorded before everything: where the walks of transforms end

    def __init__(self, op, type):
        self.op, self.type, self.tokens = op, type, ()


def differentiable():
    return [name for name, cls in sorted(TABLE.items()) if cls.differentiable and cls.pure]


@each(differentiable())
def test_rules_look_only_at_ops_and_types(name):
    for op, arrays in TABLE[name].samples():
        types = [Type(a.shape, dtype(a.dtype)) for a in map(np.asarray, arrays)]
        made = op.type_of(*types)
        several = isinstance(made, tuple)
        outs = made if several else (made,)
        if not any(t.inexact for t in outs):
            continue
        xs = tuple(Shy(Leaf(), t) for t in types)
        gs, ys = (tuple(Shy(o, t) for t in outs) for o in (Leaf(), op))
        if op.vjp is None:
            op.expand(*xs)
        else:
            g, out = (gs, ys) if several else (gs[0], ys[0])
            handed = (gradients,) if isinstance(op, HigherOrderKind) else ()
            with suppress(UnsupportedOp):  # from a rule that suggests an alternative
                assert len(op.vjp(g, out, xs, [t.inexact for t in types], *handed)) == len(xs)


def test_an_op_from_outside_the_package_must_declare_its_rules_pure():
    assert all(cls.pure for cls in TABLE.values() if cls.__module__.startswith("pullback."))
    assert not Opaque.pure
    assert Steady.pure
