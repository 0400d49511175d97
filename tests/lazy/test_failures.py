"""A tensor that cannot be computed raises when it is read, and harms no other."""

from __future__ import annotations

import pytest

import pullback as pb
from pullback.errors import EngineError, PullbackError
from pullback.ops.elementwise.arithmetic import Abs


@pytest.fixture
def broken(monkeypatch):
    """An op whose rules fail with errors that are not pullback's."""

    def fail(*_: object) -> None:
        raise OverflowError("out of bounds for int32")

    monkeypatch.setattr(Abs, "hlo", fail)
    monkeypatch.setattr(Abs, "numpy", fail)
    pb.clear_cache()
    yield
    monkeypatch.undo()
    pb.clear_cache()


def test_an_op_that_cannot_be_lowered_raises_at_its_line(broken, engine):
    x = pb.tensor([1.0, 2.0])
    bad = abs(x + 3)
    with pytest.raises(EngineError, match=r"^abs: .*int32.*test_failures") as caught:
        bad.numpy()
    assert isinstance(caught.value, PullbackError)
    assert isinstance(caught.value.__cause__, OverflowError)


def test_it_harms_no_other_tensor_while_it_lives(broken, engine):
    x = pb.tensor([1.0, 2.0])
    bad = abs(x * 5)  # shares an input, so it is computed with the others
    assert (x * 2).tolist() == [2.0, 4.0]
    assert pb.grad(lambda v: (v * v).sum())(x).tolist() == [2.0, 4.0]
    assert pb.compile(lambda v: v + 1)(x).tolist() == [2.0, 3.0]
    for _ in range(2):
        with pytest.raises(EngineError, match="abs"):
            bad.tolist()
    assert (x * 3).tolist() == [3.0, 6.0]


def test_a_compiled_function_that_cannot_be_lowered(broken, engine):
    x = pb.tensor([1.0, 2.0])
    with pytest.raises(EngineError, match=r"abs.*test_failures"):
        pb.compile(lambda v: abs(v) + 1)(x).numpy()
    assert pb.compile(lambda v: v + 1)(x).tolist() == [2.0, 3.0]
