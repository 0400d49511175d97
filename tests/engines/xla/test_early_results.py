"""Programs in two segments, the first of which computes what the host waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.sequence import XlaSequence
from pullback.lazy.launch import state
from pullback.transforms import early_results

pytestmark = pytest.mark.skipif(
    registered_engine("xla").platform != "cpu", reason="programs of GPUs stay whole"
)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_results, "LONG", 10_000)
    pb.clear_cache()


def programs() -> list[Any]:
    """The programs in memory, the latest last."""
    return list(state.cache._programs)


def loss(w: pb.Tensor, x: pb.Tensor) -> pb.Tensor:
    return pb.tanh(x @ w).sum() * 1e-3


def stepped(w: pb.Tensor, x: pb.Tensor, read: bool = True) -> tuple[pb.Tensor, Any]:
    """A step of gradient descent, whose loss is read if wanted."""
    value, g = pb.value_and_grad(loss)(w, x)
    w = w - 0.1 * g
    return w, value.item() if read else value


def operands() -> tuple[pb.Tensor, pb.Tensor]:
    rng = np.random.default_rng(0)
    return tuple(pb.tensor(rng.normal(size=(24, 24)).astype(np.float32)) for _ in range(2))


def test_what_is_read_is_computed_first():
    w, x = operands()
    w, _ = stepped(w, x)
    (program,) = programs()
    assert isinstance(program, XlaSequence) and len(program.pieces) == 2
    first, second = ([program._outputs.index(i) for i in gives if i in program._outputs]
                     for _, _, _, gives, *_ in program._steps)  # fmt: skip
    assert first == [0] and second == [1, 2]  # the loss; the gradient and the new w


def test_losses_are_those_of_one_program():
    found = []
    for read in (True, False):
        w, x = operands()
        values = []
        for _ in range(4):
            w, value = stepped(w, x, read)
            values.append(value)
        found.append([*map(float, values), *w.numpy().ravel()])
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_a_loop_compiles_two_segments_once():
    w, x = operands()
    for _ in range(5):
        w, _ = stepped(w, x)
    assert pb.cache_info().misses == 1
    w, value = stepped(w, x, read=False)
    assert w.numpy().shape == (24, 24) and value.item() > -1.0  # the same program
    assert pb.cache_info().misses == 1


@pytest.mark.parametrize(("bound", "value"), [("LONG", 10**9), ("MOST", 64)])
def test_programs_stay_whole(monkeypatch: pytest.MonkeyPatch, bound: str, value: int):
    """Where little is left to compute, or the segments would pass large values."""
    monkeypatch.setattr(early_results, bound, value)
    w, x = operands()
    stepped(w, x)
    (program,) = programs()
    assert not isinstance(program, XlaSequence)


def test_a_program_whose_results_are_all_awaited_stays_whole():
    w, x = operands()
    value, g = pb.value_and_grad(loss)(w, x)
    pb.evaluate(value, g)
    assert not any(isinstance(p, XlaSequence) for p in programs())


def test_results_of_one_op_stay_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(early_results, "LONG", 0)
    opt = pb.optim.adam(0.1)
    w = pb.tensor(np.ones((3, 4), np.float32))
    state = opt.init(w)
    for _ in range(2):
        w, state = opt.update(pb.grad(lambda w: (w * w).sum())(w), state, w)
        before = pb.engine_info().programs_run
        w.numpy()
        assert pb.engine_info().programs_run == before + 1


def test_compiled_functions_stay_whole():
    w, x = operands()
    step = pb.compile(lambda w, x: stepped(w, x, read=False))
    step(w, x)[1].item()
    assert not any(isinstance(p, XlaSequence) for p in programs())


def test_a_check_fails_with_the_results_of_its_segment():
    w, x = operands()
    at = pb.tensor([0, 30])

    def step(checked_early: bool) -> tuple[pb.Tensor, pb.Tensor]:
        value, g = pb.value_and_grad(loss)(w, x)
        if checked_early:
            value = value + pb.take(x, at, axis=0).sum()
        else:
            g = g + pb.take(x, at, axis=0).sum()
        return value, w - 0.1 * g

    value, new = step(checked_early=False)
    assert np.isfinite(value.item())
    with pytest.raises(pb.errors.IndexOutOfRange):
        new.numpy()
    value, new = step(checked_early=True)
    with pytest.raises(pb.errors.IndexOutOfRange):
        value.item()
    assert np.isfinite(new.numpy()).all()
    assert [type(p) for p in programs()] == [XlaSequence, XlaSequence]
