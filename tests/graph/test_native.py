"""Hot paths in C++: they do what those in Python do, and leak nothing."""

from __future__ import annotations

import gc
import random
import re
import weakref

import numpy as np
import pytest
from processes import run_python

import pullback as pb
from pullback.graph.native import native
from pullback.graph.node import Node
from pullback.lazy import collect
from pullback.lazy.pending import live_pending
from pullback.transforms import gradient_cache, reverse

pytestmark = pytest.mark.skipif(native is None, reason="there is nothing in C++")

SCENARIO = """
import gc, traceback
import numpy as np
import pullback as pb

x, y = pb.tensor([1.0, 2.0, 3.0]), pb.tensor([4.0, 5.0, 6.0])
ints, wide = pb.tensor([1, 2, 3]), pb.tensor(np.array([1.0, 2.0, 3.0]))
a, b = pb.ones((2, 3)), pb.ones((3, 2))
for f in (
    lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p / q,
    lambda p, q: p @ q, lambda p, q: q + p, lambda p, q: q - p, lambda p, q: q / p,
):
    for p, q in (
        (x, y), (x, 2.0), (x, 2), (x, True), (x, 1e300), (x, float("nan")), (x, -0.0), (x, 2**60),
        (x, 10**400), (x, 1j), (wide, 0.1), (wide, 3), (ints, 2), (ints, 2.5), (ints, ints),
        (ints, x), (x, wide), (x, np.float32(2)), (x, np.array([1, 2, 3])), (x, [1, 2, 3]), (a, b),
        (a, x), (x, a), (x, pb.ones(4)), (x, "text"), (x, None), (x, object()), (a, 2.0),
    ):
        try:
            r = f(p, q)
            print(r.dtype, r.shape, r.numpy().tobytes().hex())
        except Exception as error:
            lines = traceback.format_exception(error)
            print(*[line for line in lines if "object at" not in line])
g = pb.grad(lambda x: (pb.tanh(x * y) / (2.0 + x) - 3 * x).sum())
for _ in range(3):
    print(g(x).tolist(), pb.debug.rules_applied())
w = pb.tensor([1.0, 2.0], requires_grad=True)
for _ in range(2):
    loss = (w * w * 3.0).sum()
    loss.backward()
print(w.grad.tolist(), (w * 2).requires_grad)
with pb.no_grad():
    print((w + w).requires_grad)
print(pb.trace(lambda x, y: x * y + 2.0, x, y))
print(pb.hessian(lambda x: (x * x * x).sum())(x).tolist())
h = pb.compile(lambda x, t, scale=1: {"sum": x + t["y"], "rest": [t["z"] * scale, None, x]})
for _ in range(6):
    r = h(x, {"y": y, "z": x}, scale=2)
print(r, pb.cache_info().hits)
try:
    h(x, {"y": pb.ones(4), "z": x})
except Exception as error:
    print(*traceback.format_exception(error))
with pb.config(eager=True):
    print((x + y).tolist())
rule = pb.optim.adam(0.1)
state = rule.init(x)
for _ in range(3):
    x, state = rule.update(g(x), state, x)
    print(pb.trace(lambda x: rule.update(x, state, x), x))
print(x.tolist(), pb.linalg.svd(a @ b, full_matrices=False)[1].shape)
try:
    print(pb.take(y, x.astype("int32") + 7).tolist(), (y * 2).tolist())
except Exception as error:
    print(*traceback.format_exception(error))
"""


def test_both_forms_print_the_same():
    found = [run_python(SCENARIO, PULLBACK_NATIVE=on) for on in ("1", "0")]
    first, second = [re.sub(r'".*/user_code', '"user_code', text) for text in found]
    assert first == second


def test_the_form_in_python_is_chosen():
    code = "import pullback; from pullback.graph.native import native; print(native)"
    assert run_python(code, PULLBACK_NATIVE="0") == "None"
    assert "_native" in run_python(code)


def recorded(seed: int, count: int = 60) -> list[pb.Tensor]:
    """Tensors of a random computation, some of them computed."""
    rng = random.Random(seed)
    known = [pb.tensor(np.full(3, i, np.float32)) for i in range(4)]
    for i in range(count):
        x, y = rng.choice(known), rng.choice(known[-6:])
        step = rng.randrange(5)
        if step == 0:
            known.append(x * 0.5)
        elif step == 1:
            known.append(pb.stop_gradient(x) + y)
        elif step == 2:
            known.append(pb.split(pb.concat([x, y]), 2)[1])
        else:
            known.append(x * y if step == 3 else x - y)
        if i == count // 3:
            known[-1].numpy()
    return known


@pytest.mark.parametrize("seed", range(20))
def test_related_work_and_its_key_are_those_of_python(seed, monkeypatch):
    known = recorded(seed)
    rng = random.Random(seed)
    kept = rng.sample(known, 12)
    pending = live_pending()
    targets, candidates = pending[:1], pending[1:]
    found, nodes = collect.collect_related(targets, candidates)
    work = collect.CollectedWork(nodes)
    monkeypatch.setattr(collect, "native", None)
    expected, expected_nodes = collect.collect_related(targets, candidates)
    assert found == expected and nodes == expected_nodes
    other = collect.CollectedWork(nodes)
    assert work.key == other.key and [*map(type, work.key)] == [*map(type, other.key)]
    assert (work.leaves, work.scalars, work.index) == (other.leaves, other.scalars, other.index)
    assert len(kept) == 12  # alive until here


@pytest.mark.parametrize("seed", range(20))
def test_gradients_are_those_of_python(seed, monkeypatch):
    def f(*xs):
        rng = random.Random(seed)
        known = list(xs)
        for _ in range(30):
            x, y, step = rng.choice(known), rng.choice(known), rng.randrange(3)
            known.append(x * y if step == 0 else pb.tanh(x) - 2.0 if step == 1 else x + y)
        return (known[-1] + known[-2]).sum()

    xs = [pb.tensor(np.linspace(0, i, 3, dtype=np.float32)) for i in range(3)]
    found = []
    for module in (native, None):
        monkeypatch.setattr(reverse, "native", module)
        monkeypatch.setattr(gradient_cache, "native", module)
        gradient_cache.clear()
        for _ in range(3):  # derived, then written out from a template
            grads = pb.grad(f, argnums=(0, 1, 2))(*xs)
            found.append([g.numpy().tobytes() for g in grads])
    assert all(x == found[0] for x in found)


def test_keys_of_different_graphs_differ():
    """The key numbers operands: the same ops in another arrangement are another key."""
    x, y = pb.tensor([1.0, 2.0]), pb.tensor([3.0, 4.0])
    graphs = [
        lambda x, y: (x * y - x).sum(), lambda x, y: (x * y - y).sum(),
        lambda x, y: (y * x - x).sum(), lambda x, y: (x * x - y).sum(),
        lambda x, y: (x * y - x * y).sum(), lambda x, y: (x * y - y * x).sum(),
    ]  # fmt: skip
    for _ in range(2):
        found = [[g.tolist() for g in pb.grad(f, argnums=(0, 1))(x, y)] for f in graphs]
        assert found == [
            [[2.0, 3.0], [1.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]], [[2.0, 3.0], [1.0, 2.0]],
            [[2.0, 4.0], [-1.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]],
        ]  # fmt: skip


def test_plain_nodes_are_not_tracked_by_the_garbage_collector():
    x = pb.tensor([1.0, 2.0])
    y = pb.tanh(x * 2.0 + x) @ x
    assert not gc.is_tracked(y._node) and not gc.is_tracked(y._node.inputs)
    y.numpy()
    assert not gc.is_tracked(y._node)


def test_cycles_through_a_failure_are_collected():
    class Mark:
        pass

    def failing() -> weakref.ref:
        mark = Mark()
        x = pb.tensor([1.0, 2.0])
        y = x[pb.tensor(5) + pb.tensor([0])]
        z = y * 2  # pending, and part of the cycle too
        try:
            y.numpy()
        except pb.errors.PullbackError:
            assert z.shape == (1,)
        else:
            pytest.fail("the index is out of range")
        return weakref.ref(mark)

    ref = failing()
    gc.collect()
    assert ref() is None


def test_cycles_through_a_trace_are_collected():
    class Mark(pb.nn.Module):
        pass

    def traced() -> weakref.ref:
        mark = Mark()

        def f(x):
            y = x * 2.0
            np.asarray(y.detach())
            mark.seen = y
            return y + x

        mark.trace = pb.trace(f, pb.tensor([1.0]))
        return weakref.ref(mark)

    ref = traced()
    gc.collect()
    assert ref() is None


def test_long_chains_are_freed_without_recursion():
    x = pb.tensor([1.0])
    node = (x + x)._node
    first = weakref.ref(node)
    op, type = node.op, node.type
    for _ in range(300_000):
        node = Node(op, (node, node), type)
    assert first() is not None
    del node
    assert first() is None


def test_constructor_takes_names_and_defaults():
    x = pb.tensor([1.0])._node
    made = Node(op=x.op, inputs=(x,), type=x.type, value=3)
    assert (made.where, made.tokens, made.forward_op, made.value) == (None, (), "", 3)
    assert made.number > x.number
    with pytest.raises(TypeError):
        Node(x.op, [x], x.type)
    with pytest.raises(TypeError):
        Node(x.op)


def test_an_incomplete_object_raises():
    with pytest.raises(AttributeError):
        _ = object.__new__(Node).op
    with pytest.raises((AttributeError, TypeError)):
        object.__new__(pb.Tensor) + pb.tensor([1.0])


def test_arguments_that_are_not_nodes_are_refused():
    x = pb.tensor([1.0])._node
    for call in (
        lambda: native.reach([1], [x]), lambda: native.reach([x], [None]),
        lambda: native.gradient_key([x], [x], [2], [x], 0), lambda: native.work_key(1, [], [], {}),
        lambda: native.record(x.op, [x]), lambda: native.distinct_tokens([1]),
        lambda: native.collect_related([x], (x,)), lambda: native.FastCall(),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_fast_calls_are_counted():
    add = pb.compile(lambda x, y: x + y)
    x = pb.tensor([1.0])
    for _ in range(5):
        add(x, x)
    assert type(add._fast) is native.FastCall
    hits, run = pb.cache_info().hits, pb.engine_info().programs_run
    for _ in range(7):
        add(x, x)
    assert (pb.cache_info().hits - hits, pb.engine_info().programs_run - run) == (7, 7)
    pb.clear_cache()
    assert pb.cache_info().hits == 0
    assert add(x, x).tolist() == [2.0]


def test_programs_in_pieces_have_fast_calls():
    increments = pb.compile(lambda xs: [x + 1 for x in xs])
    xs = [pb.evaluate(pb.ones(2) + i) for i in range(400)]
    for _ in range(5):
        increments(xs)
    before = native.fast_calls()
    found = increments(xs)
    assert type(increments._fast) is native.FastCall and native.fast_calls() == before + 1
    assert [y.tolist() for y in found] == [[i + 2.0] * 2 for i in range(400)]


def test_fast_calls_notice_what_changed():
    def f(tree, scale=1.0):
        return [tree["x"] * scale, (tree["y"], None)]

    compiled = pb.compile(f)
    x, y = pb.tensor([1.0, 2.0]), pb.tensor([3.0, 4.0])
    for _ in range(6):
        first, (second, nothing) = compiled({"x": x, "y": y})
    assert type(compiled._fast) is native.FastCall
    assert (first.tolist(), second.tolist(), nothing) == ([1.0, 2.0], [3.0, 4.0], None)
    assert second is not y
    for other in ({"x": pb.ones(3), "y": y}, {"x": x.astype("float64"), "y": y}):
        assert compiled(other)[0].tolist() == other["x"].tolist()
    with pytest.raises(KeyError):
        compiled({"x": x, "z": y})
    with pytest.raises(TypeError, match="missing 1 required"):
        compiled()
    assert compiled({"x": x + 1, "y": y}, scale=2.0)[0].tolist() == [4.0, 6.0]
    gradient = pb.grad(lambda x: compiled({"x": x, "y": y})[0].sum())(x)
    assert gradient.tolist() == [1.0, 1.0]
    with pb.config(check_nan=True), pytest.raises(pb.errors.PullbackError):
        compiled({"x": pb.tensor([0.0, 1.0]) / 0, "y": y})[0].numpy()
    f.__defaults__ = (5.0,)
    assert compiled({"x": x, "y": y})[0].tolist() == [5.0, 10.0]
