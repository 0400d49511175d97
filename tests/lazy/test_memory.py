"""Training loops use constant memory, in three styles; `make long` runs 20,000 steps of each."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from counters import live_nodes
from long import training_loops

import pullback as pb
from pullback.graph.ambient import thread


@pytest.mark.parametrize("style", training_loops.STYLES)
def test_a_training_loop_uses_constant_memory(style):
    pb.clear_cache()
    report = training_loops.run(style, 300)
    assert training_loops.problems(report) == []


def test_handles_of_dead_tensors_are_dropped():
    x = pb.tensor(np.ones(1000))
    others = {id(t) for r in thread.handles if (t := r()) is not None}  # of loaded test modules
    before = live_nodes()
    for _ in range(100):
        x * 2.0  # recorded and never read
    assert live_nodes() == before
    y = x + 1
    y.numpy()
    mine = [r for r in thread.handles if id(r()) not in others]
    assert len(mine) <= 1, "an evaluation drops dead ones"


def test_buffers_of_dead_tensors_are_freed():
    x = pb.tensor(np.ones(1000))
    y = x + 1
    y.numpy()
    buffer = weakref.ref(y._node)
    del y
    gc.collect()
    assert buffer() is None


def test_a_result_keeps_no_other_value_of_its_program():
    x = pb.tensor(np.ones(10))
    h = pb.exp(x)
    ref = weakref.ref(h._node)
    y = h.sum()
    y.item()
    del h
    gc.collect()
    assert ref() is None
    assert y._node.inputs == ()


def test_a_failed_derivative_keeps_no_nodes():
    before = live_nodes()

    def f(x: Any) -> Any:
        y = pb.exp(x) * 2
        raise RuntimeError(f"inside, with {y.shape}")

    for _ in range(3):
        with pytest.raises(RuntimeError, match="inside"):
            pb.grad(f)(pb.tensor([1.0, 2.0]))
    assert live_nodes() == before


def test_backward_frees_the_graph_even_if_the_loss_is_kept():
    w = pb.tensor(np.ones(3), requires_grad=True)
    hidden = pb.exp(w * 2)
    ref = weakref.ref(hidden._node)
    loss = hidden.sum()
    loss.backward()
    pb.evaluate(loss, w.grad)
    del hidden
    gc.collect()
    assert ref() is None
    np.testing.assert_allclose(w.grad.numpy(), 2 * np.exp(2 * np.ones(3)))
    assert loss.item() == pytest.approx(3 * np.exp(2))
