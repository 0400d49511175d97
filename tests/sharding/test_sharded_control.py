"""Loops, conditionals and checkpoints on shards give the results of whole operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import collectives, staged

import pullback as pb
from pullback import testing
from pullback.graph.dtypes import dtype
from pullback.graph.types import Type
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.partitioner import partition
from pullback.sharding.spec import P, Sharding

Arrays = list[np.ndarray]


def numbers(*shapes: tuple[int, ...]) -> Arrays:
    rng = np.random.default_rng(len(shapes))
    return [rng.uniform(-1, 1, shape) for shape in shapes]


def program(f: Callable, arrays: Arrays) -> Any:
    return staged(f, [Type(a.shape, dtype(a.dtype)) for a in arrays])


def recurrent(w: Any, u: Any, xs: Any) -> Any:
    """A loop with a state that starts from zeros, scanned inputs and stacked outputs."""

    def cell(h: Any, x: Any) -> Any:
        h = pb.tanh(x @ w + h @ u)
        return h, h.sum(axis=1)

    return pb.scan(cell, pb.zeros((xs.shape[1], u.shape[0]), dtype="float64"), xs)


def backward_in_time(w: Any, xs: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        i, h = state
        h = h * 0.5 + x @ w
        return (i + 1, h), (h * i, pb.max(h))

    start = pb.zeros((), dtype="int32"), xs[0] @ w
    (_, h), (rows, tops) = pb.scan(step, start, xs, reverse=True, unroll=2)
    return h, rows, tops


def transposed(x: Any) -> Any:
    """A loop that swaps two states, transposes one of them and only adds to a third."""

    def step(state: Any, row: Any) -> Any:
        a, b, total = state
        return (b.T, pb.sin(a) + x * row, total + row * a), None

    start = pb.zeros((5, 5), dtype="float64")
    return pb.scan(step, (start, start, start + 1.0), x)[0]


def counted(x: Any, w: Any) -> Any:
    return pb.fori_loop(0, 5, lambda i, h: pb.sin(h @ w) + x * i, x)


def conditional(x: Any, y: Any) -> Any:
    """Conditionals whose conditions and results are sums over all devices."""

    def first(x: Any, y: Any) -> Any:
        return x @ y, pb.sum(x, axis=0)

    def second(x: Any, y: Any) -> Any:
        return pb.sin(x) @ y, pb.sum(y) * x[0]

    positive = pb.cond(pb.sum(x) > 0, first, second, x, y)
    index = pb.astype(pb.sum(y) > 0, "int64")
    return positive, pb.switch(index, [first, second], y.T, x.T)


def nested(x: Any, w: Any) -> Any:
    """A loop in a branch in a loop."""

    def inner(h: Any, k: Any) -> Any:
        return pb.tanh(h @ w) + k, pb.sum(h)

    def outer(h: Any, k: Any) -> Any:
        loop = lambda h: pb.scan(inner, h, pb.stack([k, k * 0.5]))  # noqa: E731
        h, sums = pb.cond(pb.max(h) > 0.3, loop, lambda h: (h * k, pb.zeros(2, dtype="float64")), h)
        return h, sums

    return pb.scan(outer, x, x[:3, 0])


def checkpointed(x: Any, w: Any) -> Any:
    layer = pb.checkpoint(lambda h: pb.tanh(h @ w) + h)
    return layer(layer(x))


def own_rule(x: Any, w: Any) -> Any:
    @pb.custom_vjp
    def f(h: Any) -> Any:
        return pb.sin(h) * 2.0

    f.defvjp(lambda h: (f(h), pb.cos(h)), lambda c, g: (g * c * 2.0,))
    return f(x @ w) @ w.T


CASES: list[tuple[Callable, Arrays]] = [
    (recurrent, numbers((2, 3), (3, 3), (4, 5, 2))),
    (backward_in_time, numbers((4, 4), (5, 3, 4))),
    (transposed, numbers((5, 5))),
    (counted, numbers((5, 4), (4, 4))),
    (conditional, numbers((3, 5), (5, 3))),
    (nested, numbers((5, 4), (4, 4))),
    (checkpointed, numbers((5, 4), (4, 4))),
    (own_rule, numbers((5, 3), (3, 4))),
]
NAMED = [pytest.param(f, arrays, id=f.__name__) for f, arrays in CASES]


@pytest.mark.parametrize(("f", "arrays"), NAMED)
def test_shards_give_the_whole_result(f, arrays):
    graph = program(f, arrays)
    for seed in range(8):
        testing.check_sharded(graph, arrays, seed)


def loss_of(f: Callable) -> Callable:
    def loss(*xs: Any) -> Any:
        return sum(pb.sum(pb.sin(y)) for y in pb.tree.leaves(f(*xs)))

    return lambda *xs: pb.value_and_grad(loss, tuple(range(len(xs))))(*xs)


@pytest.mark.parametrize(("f", "arrays"), NAMED)
def test_gradients_on_shards(f, arrays):
    graph = program(loss_of(f), arrays)
    for seed in range(6):
        testing.check_sharded(graph, arrays, seed)


def while_all(x: Any, w: Any) -> Any:
    """The condition depends on all shards."""
    return pb.while_loop(lambda h: pb.sum(h * h) > 0.05, lambda h: pb.sin(h @ w) * 0.6, x)


def while_one(x: Any, w: Any) -> Any:
    """The condition depends on a replicated number."""
    steps = pb.zeros((), dtype="int32")
    return pb.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] @ w + x), (steps, x))


@pytest.mark.parametrize("f", [while_all, while_one])
def test_while_loops(f):
    arrays = numbers((5, 4), (4, 4))
    graph = program(f, arrays)
    for seed in range(8):
        testing.check_sharded(graph, arrays, seed)


# -- communication --------------------------------------------------------------------------------


def on_two(f: Callable, arrays: Arrays, *specs: P) -> Any:
    mesh = DeviceMesh(2, "x")
    shardings = [Sharding(mesh, spec) for spec in specs]
    graph = testing.sharded_graph(program(f, arrays), arrays, shardings)
    return graph, partition(graph, mesh).graph


def test_a_loop_over_examples_does_not_communicate():
    """A state that starts replicated gets the layout of the scanned rows."""
    graph, local = on_two(recurrent, numbers((2, 3), (3, 3), (4, 6, 2)), P(), P(), P(None, "x"))
    assert not collectives(local)
    last, sums = [y.type.sharding.spec for y in graph.outputs]
    assert last is P("x") and sums is P(None, "x")


def test_a_scanned_dimension_is_gathered_once():
    _, local = on_two(recurrent, numbers((2, 3), (3, 3), (4, 6, 2)), P(), P(), P("x"))
    assert collectives(local) == {"AllGather": 1}


def test_a_state_keeps_its_initial_layout():
    arrays = numbers((6, 4), (4, 4))
    graph, local = on_two(counted, arrays, P("x"), P())
    assert graph.outputs[0].type.sharding.spec is P("x")
    assert not collectives(local)


def test_branches_on_shards_do_not_communicate():
    def either(x: Any, w: Any) -> Any:
        return pb.cond(w[0, 0] > 0, lambda h: h @ w, lambda h: pb.sin(h), x)

    graph, local = on_two(either, numbers((6, 4), (4, 4)), P("x"), P())
    assert graph.outputs[0].type.sharding.spec is P("x")
    assert not collectives(local)


def test_devices_do_not_communicate_in_a_condition():
    _, local = on_two(while_all, numbers((6, 4), (4, 4)), P("x"), P())
    (loop,) = [n.op for n in local.nodes if n.op.name == "While"]
    assert not collectives(loop.condition)
    assert collectives(local) == {"PSum": 2}  # before the loop, and in its body


def test_N45_a_sum_over_iterations_is_reduced_after_the_loop():
    """Gradients of values that all iterations use are reduced once."""
    arrays = numbers((2, 3), (3, 3), (4, 6, 2))
    _, local = on_two(loss_of(recurrent), arrays, P(), P(), P(None, "x"))
    bodies = [n.op.body for n in local.nodes if n.op.name == "Scan"]
    assert len(bodies) > 1
    assert not any(collectives(body) for body in bodies)
    assert collectives(local) == {"PSum": 4}  # both gradients, and both terms of the loss


def test_the_communication_of_a_loop_is_listed_with_its_iterations():
    def f(x: Any, w: Any) -> Any:
        return pb.fori_loop(0, 5, lambda i, h: pb.tanh(h * pb.sum(h) + w), x)

    sharding = Sharding(DeviceMesh(2, "x"), P("x"))
    types = [Type((6,), dtype("f32"), sharding)] * 2
    found = pb.debug.explain_sharding(f)(*types)
    (reduction,) = found.exchanges
    assert (reduction.kind, reduction.rounds) == ("all_reduce", 5)
    assert found.nbytes == 5 * reduction.nbytes == 20
    assert "5 times" in str(found)
