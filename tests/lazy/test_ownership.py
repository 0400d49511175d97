"""Which leaves die with pending work: every reference from outside keeps them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.lazy import ownership
from pullback.lazy.collect import CollectedWork, collect_pending_ancestors, collected_base
from pullback.lazy.ownership import ONE, leaves_without_owner, owner_references

N = 2048


@pytest.fixture(autouse=True, params=["as installed", "in Python"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in Python":
        monkeypatch.setattr(ownership, "native", None)


def leaf(value: float = 3.0) -> Any:
    return pb.evaluate(pb.tensor(np.full(N, value, np.float32)) * 1)


def dying(*outputs: Any) -> list[int]:
    """Return the leaves that die when outputs are computed."""
    targets = [collected_base(y._node) for y in outputs]
    nodes = collect_pending_ancestors(targets)
    work = CollectedWork(nodes)
    return leaves_without_owner(
        work, range(len(work.leaves)), [work.index[t] for t in targets], [nodes]
    )


def test_references_are_counted_with_that_of_the_list():
    x = object()
    assert owner_references([object(), x]) == [ONE, ONE + 1]
    more = [x, (x,)]
    assert owner_references([x]) == [ONE + 3]
    assert len(more) == 2


def test_a_leaf_dies_with_the_work_that_used_it():
    y = pb.sin(leaf() * 2) - leaf()
    assert dying(y) == [0, 1]


def test_a_leaf_behind_aliases_dies_too():
    y = (leaf().detach() * 2).detach() - 1
    assert dying(y) == [0]
    z = pb.grad(lambda x: (x * x).sum())(leaf())
    assert dying(z) == [0]


def test_a_leaf_used_many_times_dies():
    w = leaf()
    y = w * w + pb.concat([w[:5], w[5:]])
    a, b = pb.split(w, 2)
    del w
    assert dying(y, a, b) == [0]


def test_a_handle_keeps_a_leaf():
    w, v = leaf(), leaf()
    y = w * v
    del w
    assert dying(y) == [0]
    del v
    assert dying(y) == [0, 1]


def test_any_reference_to_an_intermediate_node_keeps_a_leaf():
    y = pb.sin(leaf() * 2) - 1
    held = y._node.inputs[0].inputs[0]
    assert dying(y) == []
    del held
    assert dying(y) == [0]


def test_any_reference_to_the_operands_of_a_node_keeps_a_leaf():
    y = pb.sin(leaf() * 2) - 1
    held: Any = y._node.inputs[0].inputs[0].inputs
    assert dying(y) == []
    held = y._node.inputs  # also that of the node that is computed
    assert dying(y) == []
    del held
    assert dying(y) == [0]


def test_any_reference_to_an_alias_keeps_a_leaf():
    y = pb.sin(pb.tensor(leaf()).detach()) - 1
    z = pb.grad(lambda x: (x * x).sum())(leaf())
    inner = next(
        x
        for n in collect_pending_ancestors([z._node])
        for x in n.inputs
        if collected_base(x) is not x
    )
    assert dying(z) == []
    del inner
    assert dying(z) == [0]
    assert dying(y) == [0]


def test_an_iterator_over_the_operands_keeps_a_leaf():
    y = pb.sin(leaf() * 2) - 1
    held = iter(y._node.inputs[0].inputs[0].inputs)
    assert dying(y) == []
    list(held)
    assert dying(y) == [0]


def test_a_result_of_several_keeps_what_it_needs():
    w = leaf()
    a, b = pb.split(w, 2)
    del w
    assert dying(a) == []
    assert dying(a, b) == [0]
    del b
    assert dying(a) == [0]


def test_a_derivative_that_still_needs_a_node_keeps_its_leaves():
    y, pull = pb.vjp(lambda x: pb.sin(x) * x, leaf())
    assert dying(y) == []
    del pull
    assert dying(y) == [0]


def test_a_list_that_the_caller_forgot_keeps_everything():
    y = pb.sin(leaf() * 2) - 1
    nodes = collect_pending_ancestors([y._node])
    work, more = CollectedWork(nodes), nodes[:]
    assert leaves_without_owner(work, [0], [len(nodes) - 1], [nodes]) == []
    del more
    assert leaves_without_owner(work, [0], [len(nodes) - 1], [nodes, nodes, work.nodes]) == [0]


def has_buffer_alone(node: Any) -> bool:
    return owner_references([node.value]) == [ONE + 1]


def test_buffers_are_alone_until_something_else_has_them(on_cpu):  # elsewhere, NumPy has copies
    w = leaf()
    assert has_buffer_alone(w._node)
    view = w.numpy()
    assert not has_buffer_alone(w._node)
    del view
    assert has_buffer_alone(w._node)
    half = leaf().astype("bf16")
    part = pb.evaluate(half).numpy()[3:5]
    assert not has_buffer_alone(half._node)
    del part
    assert has_buffer_alone(half._node)


def test_only_memory_of_programs_is_their_own():
    from pullback.engines.engine_registry import registered_engine

    def made(value):
        return registered_engine("xla").made([value]) == [True]

    host = pb.tensor(np.ones(N, np.float32))
    computed = pb.evaluate(host * 2)
    assert made(computed._node.value)
    assert not made(host._node.value)
    assert registered_engine("xla").owns(host._node.value)
    assert not made(None) and not made(np.ones(3))
    parts = pb.evaluate(pb.ones(N).shard(pb.DeviceMesh(1, "d"), pb.P("d")) * 2)
    assert not made(parts._node.value)
    assert not any(map(made, parts._node.value.shards.buffers().values()))


@pytest.mark.parametrize("f", [lambda w: w * 1, lambda w: w.detach(), lambda w: pb.split(w, 2)[0]])
def test_pending_values_of_another_thread_keep_their_leaves(f):
    made: list = []

    def record():
        made.append(f(leaf()))
        made.append(made[0] - 1)

    thread = threading.Thread(target=record)
    thread.start()
    thread.join()
    assert (made.pop().numpy() == 2.0).all()
    assert (made.pop().numpy() == 3.0).all()
