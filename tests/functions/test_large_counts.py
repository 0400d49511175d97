"""Counts and lengths without a meaning raise at once, where a loop would never end."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, OutOfMemory, ShapeError


class Endless:
    """A sequence that claims a length and never ends."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> float:
        return 1.5


@pytest.mark.parametrize("n", [0, 1, 3, 8, 9, 2**31, 2**70])
def test_differences_end_when_nothing_is_left(n):
    x = np.arange(8.0) ** 2
    assert pb.diff(x, n=n).tolist() == np.diff(x, n=min(n, 8)).tolist()


@pytest.mark.parametrize("n", [-1, 1.5, "2"])
def test_a_number_of_differences_must_be_a_count(n):
    with pytest.raises(ArgumentError, match=r"diff: n must"):
        pb.diff([1, 2], n=n)


@pytest.mark.parametrize("order", [-1, 121, 2**31])
def test_orders_of_polygamma_are_bounded(order):
    with pytest.raises(ArgumentError, match="polygamma: order must be between 0 and 120"):
        pb.polygamma(order, 1.0)


def test_the_largest_order_of_polygamma(engine):
    # its first term, order! / x**(order + 1), is all of it for a small x
    assert pb.polygamma(120, np.array([0.5])).item() == pytest.approx(
        -math.factorial(120) * 2.0**121
    )


@pytest.mark.parametrize("join", [pb.stack, pb.concat, pb.tensor, pb.sum])
@pytest.mark.parametrize("length", [2**60, 2**70])
def test_a_sequence_longer_than_memory(join, length):
    with pytest.raises(OutOfMemory, match=r"Endless.*test_large_counts"):
        join(Endless(length))


def test_an_object_is_read_as_far_as_its_length():
    assert pb.stack(Endless(3)).tolist() == [1.5, 1.5, 1.5]


def test_something_else_than_a_sequence():
    with pytest.raises(ArgumentError, match="stack: arrays must be a sequence of tensors, got int"):
        pb.stack(3)
    with pytest.raises(ArgumentError, match="concat: arrays must contain at least one"):
        pb.concat([])


@pytest.mark.parametrize("window", [2**31, 2**40, 2**70])
def test_windows_are_bounded(window):
    x = pb.ones((1, 8, 1))
    for pool in (pb.max_pool, pb.avg_pool):
        must = r"_pool: .*(fewer than 2\*\*31|fit into 64 bits).*test_large_counts"
        with pytest.raises((ShapeError, ArgumentError), match=must):
            pool(x, window, padding="SAME")
    assert (x * 2).sum().item() == 16.0


@pytest.mark.parametrize("count", [64, 65, 128, 1000])
def test_many_tensors_are_joined_in_groups(count):
    # so that XLA, whose compile time is quadratic in the number of operands, joins few at a time
    rows = [np.array([i, -i], np.float32) for i in range(count)]
    tensors = [pb.tensor(row) for row in rows]
    for axis in (0, 1, -1):
        assert (pb.stack(tensors, axis=axis).numpy() == np.stack(rows, axis)).all()
    joined = pb.trace(lambda *xs: pb.concat(xs), *tensors)
    assert max(len(node.inputs) for node in joined.graph.nodes) <= 64
    assert (pb.concat(tensors).numpy() == np.concatenate(rows)).all()


def test_equal_groups_are_compiled_once(on_cpu):  # programs for GPUs are in one piece
    from pullback.engines.engine_registry import registered_engine as find_engine
    from pullback.graph.graph import Graph

    graph = pb.trace(lambda *xs: pb.concat(xs), *[pb.ones(2) for _ in range(1000)]).graph
    with pb.config(engine="xla"):
        program = find_engine("xla").compile(Graph(graph.inputs, graph.outputs))
    assert len(program.pieces) > 4 and len(set(program.pieces)) <= 3


def test_the_gradient_of_a_stack_of_many():
    tensors = [pb.tensor(float(i)) for i in range(70)]
    got = pb.grad(lambda xs: (pb.stack(xs) ** 2).sum())(tensors)
    assert [g.item() for g in got] == [2.0 * i for i in range(70)]
