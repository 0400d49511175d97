"""Programs with conditionals and loops: merging, residuals, caching, text and verification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import VerificationError
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph, graphs_in_parameters
from pullback.graph.node import Node, result_nodes
from pullback.graph.op_kinds import HigherOrderKind
from pullback.lazy.collect import CollectedWork, collect_pending_ancestors
from pullback.lazy.program import build_program
from pullback.ops.control.holder import hold
from pullback.ops.control.residuals import residual_bytes, residuals
from pullback.ops.control.scan import Scan
from pullback.static.fingerprints import fingerprint
from pullback.static.text import static_graph_text
from pullback.static.verify import verify

XS = np.sin(np.arange(12.0, dtype=np.float32)).reshape(4, 3)


def program(*tensors: Any) -> Graph:
    """Return the program that would compute pending tensors."""
    nodes = [t._node for t in pb.tree.leaves(tensors)]
    work = CollectedWork(collect_pending_ancestors(nodes))
    return build_program(work, tuple(work.index[n] for n in nodes))[0]


def ops(graph: Graph, name: str) -> list[Node]:
    return [n for n in graph.nodes if n.op.name == name]


def rnn(w: Any) -> Any:
    xs = pb.tensor(XS)
    h, ys = pb.scan(lambda h, x: (pb.tanh(h @ w + x), h), pb.zeros(3), xs)
    return (ys * ys).sum() + h.sum()


W = pb.tensor(np.cos(np.arange(9.0, dtype=np.float32)).reshape(3, 3))


# -- merging ------------------------------------------------------------------------------------


def test_value_and_gradient_are_one_loop_forward_and_one_back():
    value, g = pb.value_and_grad(rnn)(W)
    loops = ops(program(value, g), "Scan")
    assert [n.op.reverse for n in loops] == [False, True]


def test_value_and_tangent_are_one_loop():
    t = pb.ones((3, 3))
    assert len(ops(program(*pb.jvp(rnn, (W,), (t,))), "Scan")) == 1
    product = program(*pb.jvp(pb.grad(rnn), (W,), (t,)))
    assert [n.op.reverse for n in ops(product, "Scan")] == [False, True]


@pytest.mark.parametrize("depth", [1, 2])
def test_inner_loops_and_conditionals_are_shared(depth):
    def f(w: Any) -> Any:
        def outer(c: Any, x: Any) -> Any:
            inner = lambda d, y: (pb.cond(y > 0, pb.tanh, pb.sin, d * w.sum()) + y, d)  # noqa: E731
            d, ys = pb.scan(inner, c.sum(), x) if depth == 2 else inner(c.sum(), x.sum())
            return c * 0.5 + d, ys

        c, ys = pb.scan(outer, pb.zeros(3), pb.tensor(XS))
        return (ys * ys).sum() + c.sum()

    def count(graph: Graph) -> list:
        held = [n.op for n in graph.nodes if isinstance(n.op, HigherOrderKind)]
        return [[count(g) for g in graphs_in_parameters(op.parameters())] for op in held]

    once = count(program(f(W)))
    assert count(program(*pb.value_and_grad(f)(W))) == once * 2


def test_while_loops_are_shared():
    f = lambda a: pb.while_loop(lambda x: x * x < a, lambda x: x * 1.5, 1.0)  # noqa: E731
    made = program(*pb.jvp(f, (pb.tensor(7.0),), (pb.tensor(1.0),)))
    assert len(ops(made, "While")) == 1


def test_loops_that_differ_are_not_merged():
    xs, zero = pb.tensor(XS), pb.zeros(3)
    step = lambda h, x: (pb.sin(h) + x, h)  # noqa: E731
    more = lambda h, x: (pb.sin(h) + x, (h, h * h))  # noqa: E731
    other = lambda h, x: (pb.cos(h) + x, (h, h * h))  # noqa: E731
    alone = pb.scan(step, zero, xs)
    assert len(ops(program(alone, pb.scan(more, zero, xs)), "Scan")) == 1
    apart = [
        pb.scan(other, zero, xs),
        pb.scan(more, zero + 1, xs),
        pb.scan(more, zero, xs * 2),
        pb.scan(more, zero, xs, reverse=True),
        pb.scan(more, alone[0], xs),  # depends on the other's result
    ]
    for made in apart:
        assert len(ops(program(alone, made), "Scan")) == 2


def test_states_with_equal_initial_values_are_not_confused():
    xs, zero = pb.tensor(XS), pb.zeros(3)
    step = lambda s, x: ((s[0] + x, s[1] - x), s[1])  # noqa: E731
    more = lambda s, x: ((s[0] - x, s[1] + x), (s[1], s[0] * s[0]))  # noqa: E731
    one, two = pb.scan(step, (zero, zero), xs), pb.scan(more, (zero, zero), xs)
    total = XS.sum(0)
    for got, want in zip((*one[0], *two[0]), (total, -total, -total, total), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_canonical_form_is_idempotent():
    made = program(*pb.value_and_grad(rnn)(W))
    again = canonicalise(made)
    assert static_graph_text(again) == static_graph_text(made)
    assert fingerprint(again) == fingerprint(made)


# -- residuals ----------------------------------------------------------------------------------


def test_results_of_the_loop_are_not_kept_again():
    xs = pb.tensor(XS)

    def f(w: Any) -> Any:
        return pb.scan(lambda h, x: (h * w.sum(), pb.exp(h * x)), pb.ones(3), xs)[1].sum()

    forward = ops(program(*pb.value_and_grad(f)(W)), "Scan")[0]
    # only the state, the emitted exponential, and the state before each iteration
    assert [t.shape for t in forward.type] == [(3,), (4, 3), (4, 3)]


def test_constants_and_rows_are_not_kept():
    xs = pb.tensor(XS)
    f = lambda w: pb.map(lambda x: (x * 2) * (w @ w)[0], xs).sum()  # noqa: E731
    forward, backward = ops(program(*pb.value_and_grad(f)(W)), "Scan")
    assert [t.shape for t in forward.type] == [(4, 3)]
    assert not any(n.op.name == "MatMul" and not n.backward for n in backward.op.body.nodes)
    f = lambda w: pb.map(lambda x: pb.sin(x * 2) * w[0], xs).sum()  # noqa: E731
    forward, _ = ops(program(*pb.value_and_grad(f)(W)), "Scan")
    assert [t.shape for t in forward.type] == [(4, 3), (4, 3)]  # a sine is not cheap


def test_a_smallest_set_of_values_is_kept():
    x, g = (Node(W._node.op, (), W._node.type) for _ in range(2))
    total = pb.sum(pb.ones((3, 3)))._node.op(x)
    small = total * 2
    outputs = [g * (small * k) for k in (3, 5, 7)]  # three numbers are needed, from one
    assert residuals(outputs, [g], [], residual_bytes) == [small]
    assert residuals([*outputs, g * total], [g], [], residual_bytes) == [total]
    assert residuals([*outputs, g * x], [g], [x], residual_bytes) == [small]
    wide = [g * (x + small), g * (x * small)]  # two matrices are needed; one and a number suffice
    assert residuals(wide, [g], [], residual_bytes) == [x, small]
    assert residuals([g * 2, g * (x * 0)], [g], [x], residual_bytes) == []


# -- caching ------------------------------------------------------------------------------------


def test_a_loop_in_a_training_loop_is_compiled_once():
    w = pb.tensor(np.eye(3, dtype=np.float32) * 0.5)
    before = pb.cache_info().compiles
    for k in range(6):
        rate = 0.1 / (k + 1)

        def loss(w: Any, rate: float = rate) -> Any:
            step = lambda h, x: (pb.tanh(h @ w * (1 + rate) + x), h)  # noqa: E731
            return (pb.scan(step, pb.zeros(3), pb.tensor(XS))[1] ** 2).mean()

        value, g = pb.value_and_grad(loss)(w)
        w = w - rate * g
        assert value.item() > 0
        if k == 2:
            warm = pb.cache_info().compiles
    assert pb.cache_info().compiles == warm > before


def test_equal_bodies_are_one_op_whatever_their_numbers():
    def op(k: float) -> Any:
        made = pb.scan(lambda c, x: (c * k + x, c), pb.zeros(3), pb.tensor(XS))[0]
        return ops(program(made), "Scan")[0].op

    assert op(2.0) is op(3.0)
    assert op(2.0).body.structure == op(2.0).body.structure


def test_the_program_does_not_grow_with_the_length():
    def size(n: int) -> int:
        f = lambda w: pb.scan(lambda c, _: (pb.sin(c * w), c), w, length=n)[1].sum()  # noqa: E731
        made = program(*pb.value_and_grad(f)(pb.tensor(0.3)))
        return sum(
            len(g.nodes) for n in made.nodes for g in graphs_in_parameters(n.op.parameters())
        )

    assert size(10) == size(10_000)
    f = lambda w: pb.scan(lambda c, _: (pb.sin(c * w), None), w, length=10_000)[0]  # noqa: E731
    assert np.isfinite(pb.grad(f)(pb.tensor(0.3)).item())


# -- text and verification ----------------------------------------------------------------------


def test_text_shows_the_graphs_of_a_loop():
    text = str(pb.trace(lambda x: pb.scan(lambda c, y: (c + y, None), 0.0, x)[0], pb.ones(3)))
    assert "= Scan(%1, %0) {body: graph(\n  %0 = Input() {name:" in text
    assert "BinOp(Add, %0, %1)" in text and "scanned: 1, length: 3}" in text
    text = str(pb.trace(lambda x: pb.cond(x > 0, pb.sin, pb.cos, x), pb.tensor(1.0)))
    assert "Cond(" in text and "Cos(" in text and "Sin(" in text


def test_traces_with_loops_can_be_replayed_and_differentiated():
    x = pb.tensor([1.0, 2.0, 3.0])
    t = pb.trace(lambda x: pb.scan(lambda c, y: (c * y, None), 1.0, x)[0], x)
    assert t.replay(pb.tensor([2.0, 2.0, 2.0])).item() == 8.0
    assert pb.backward_on_trace(t)[x].tolist() == [6.0, 3.0, 2.0]


def test_verification_checks_held_graphs():
    made = program(*pb.value_and_grad(rnn)(W))
    verify(made)
    scan = ops(made, "Scan")[0]
    body = scan.op.body
    inner = next(n for n in body.nodes if n.op.name == "Tanh")
    wrong = Node(inner.op, inner.inputs, inner.type.with_shape((7,)))
    op = Scan(Graph(body.inputs, [wrong, *body.outputs[1:]]), 1, 1, 4)
    bad = Node(op, scan.inputs, scan.type)
    with pytest.raises(VerificationError, match="Tanh"):
        verify(Graph(made.inputs, [Node(n.op, (bad,), n.type) for n in result_nodes(scan)]))


def test_operands_must_have_the_types_of_the_body():
    x = hold(*[[n] for n in (pb.ones(3)._node,) * 2]).inputs[0]
    op = Scan(hold([x], [x * x]), 1, 0, 2)
    assert op.type_of(x.type) == (x.type,)
    with pytest.raises(pb.PullbackError, match="types of the graph's inputs"):
        op.type_of(x.type.with_shape((4,)))
    with pytest.raises(pb.PullbackError, match="must keep its types"):
        Scan(hold([x], [pb.sum(pb.ones(3))._node]), 1, 0, 2).type_of(x.type)
    with pytest.raises(pb.PullbackError, match="must have 2 rows"):
        Scan(hold([x], [x]), 0, 1, 2).type_of(x.type.with_shape((4, 3)))
