"""`pb.wait`, `x.wait()` and `pb.evaluate`: when values are there, and what is returned."""

from __future__ import annotations

import dataclasses

import pytest

import pullback as pb
from pullback.errors import HostReadError, IndexOutOfRange


@dataclasses.dataclass
class Params:
    w: pb.Tensor
    b: pb.Tensor


def is_there(x: pb.Tensor) -> bool:
    value = x._node.value
    return value is not None and (not hasattr(value, "is_ready") or value.is_ready())


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_wait_returns_its_argument_when_the_values_are_there(engine):
    with pb.config(engine=engine):
        x = pb.ones((300, 300))
        tree = {"p": Params(x @ x, x * 3), "n": 5, "none": None}
        assert pb.wait(tree) is tree
        assert is_there(tree["p"].w) and is_there(tree["p"].b)
        y, z = pb.wait(x + 1, [x @ x])
        assert is_there(y) and is_there(z[0])
        last = (x @ x).sum()
        assert last.wait() is last and is_there(last)
        assert last.item() == 300.0**3


def test_evaluate_returns_its_arguments():
    x = pb.tensor([1.0, 2.0])
    tree = {"a": x + 1}
    assert pb.evaluate(tree) is tree and tree["a"]._node.value is not None
    y, z = x + 2, x + 3
    found = pb.evaluate(y, z)
    assert found[0] is y and found[1] is z
    assert pb.evaluate() == () and pb.wait() == ()
    assert pb.wait(7) == 7


def test_wait_on_a_mesh():
    x = pb.shard(pb.arange(6.0), pb.DeviceMesh(1, "dp"), pb.P("dp"))
    assert is_there((x * 2).wait())
    with pb.config(engine="reference"):
        mesh = pb.DeviceMesh(2, "dp")
        assert pb.shard(pb.arange(6.0), mesh, pb.P("dp")).sum().wait().item() == 15


def test_failed_checks_are_raised_by_wait():
    x, i = pb.arange(3), pb.tensor([5])
    y = x[i]
    pb.evaluate(y)
    with pytest.raises(IndexOutOfRange):
        pb.wait(y)


def test_waiting_cuts_no_derivative_and_is_refused_on_placeholders():
    assert pb.grad(lambda x: (x * x).wait() * x)(2.0).item() == 12.0
    with pytest.raises(HostReadError, match="wait: a function is being traced"):
        pb.compile(lambda x: pb.wait(x * 2))(pb.ones(2))
