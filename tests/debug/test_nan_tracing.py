"""The first value that is not finite: its op, rule, line, operands and iteration."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from devices import on_devices

import pullback as pb

find = pb.debug.trace_nan


def line(offset: int = 0) -> str:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return f"test_nan_tracing.py:{frame.f_back.f_lineno + offset}"


def logs(x: Any, rows: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        c = c * row
        return pb.log(c), c

    return pb.scan(step, x, rows)[0]


LOG = line(-5)
ROWS = [2.0, 1.5, 0.1, 3.0]


def test_all_is_finite() -> None:
    report = find(lambda x: (x * x).sum())(pb.ones(3))
    assert not report and report.first is None
    assert str(report) == "all results and gradients are finite"


def test_forward() -> None:
    report = find(lambda x: pb.log(x).sum())(pb.tensor([1.0, -2.0, 4.0]))
    first = report.first
    assert report and (first.kind, first.op, first.direction) == ("NaN", "log", "forward")
    assert (str(first.where), first.count, first.index) == (line(-3), 1, (1,))
    (operand,) = first.operands
    assert (operand.low, operand.high, operand.at) == (-2.0, 4.0, -2.0)
    assert report.results == ("the result",)


def test_an_infinity_comes_before_the_nan_that_it_becomes() -> None:
    def f(x: Any) -> Any:
        e = pb.exp(x)
        return (e / e.sum()).sum()

    first = find(f)(pb.tensor([1.0, 200.0])).first
    assert (first.kind, first.op, str(first.where)) == ("infinity", "exp", line(-4))


def test_a_mask_of_infinities_is_not_the_origin() -> None:
    mask = pb.tensor([-np.inf, -np.inf])
    first = find(lambda x: pb.softmax(x + mask, axis=0).sum())(pb.ones(2)).first
    assert (first.kind, first.op) == ("NaN", "softmax")


def test_backward() -> None:
    report = find(lambda x: pb.sqrt((x * x).sum()))(pb.zeros(3))
    assert report.results == () and report.gradients == ("x",)
    assert (report.first.direction, report.first.rule) == ("backward", "sqrt")
    inside = find(pb.grad(lambda x: pb.sqrt((x * x).sum())))(pb.zeros(3))
    assert (inside.first.rule, inside.results) == ("sqrt", ("the result",))


def test_what_reaches_no_result() -> None:
    report = find(lambda x: pb.where(x > 0, pb.log(x), 0.0).sum())(pb.tensor([1.0, -1.0]))
    assert not report and [value.op for value in report.hidden] == ["log"]
    assert "reaches no result" in str(report)


def test_arguments_that_are_not_finite() -> None:
    report = find(lambda x, y: (x * y).sum())(pb.ones(2), pb.tensor([1.0, np.nan]))
    assert report and report.first is None and report.arguments == ("y",)


@pytest.mark.parametrize("wrap", [lambda f: f, pb.compile])
def test_the_iteration_of_a_scan(wrap: Any) -> None:
    first = find(wrap(logs))(pb.tensor(5.0), pb.tensor(ROWS)).first
    assert (first.op, str(first.where)) == ("log", LOG)
    (loop,) = first.loops
    assert (loop.op, loop.iteration) == ("scan", 3)


def test_the_iteration_of_a_while_loop_and_of_a_loop_in_a_loop() -> None:
    squares = find(lambda x: pb.while_loop(lambda c: c < 1e30, lambda c: c * c, x))
    report = squares(pb.tensor(1e10))
    assert report.first.loops[0].iteration == 1 and "no gradient" in str(report)

    def outer(c: Any, row: Any) -> Any:
        return logs(c, row), c

    first = find(lambda x: pb.scan(outer, x, pb.tensor([[1.0], [1.0]]))[0])(pb.tensor(0.5)).first
    assert [loop.iteration for loop in first.loops] == [1, 0]


def test_the_iteration_of_a_backward_loop() -> None:
    def step(c: Any, row: Any) -> Any:
        return c + pb.sqrt(row), None

    f = find(lambda rows: pb.scan(step, pb.tensor(0.0), rows)[0])
    first = f(pb.tensor([1.0, 0.0, 4.0])).first
    assert (first.direction, first.rule, first.loops[0].iteration) == ("backward", "sqrt", 1)


def test_loops_that_differ_only_in_their_line_are_told_apart() -> None:
    def f(x: Any) -> Any:
        a = pb.scan(lambda c, r: (pb.log(c), r), x + 100, pb.ones(1))[0]
        b = pb.scan(lambda c, r: (pb.log(c), r), x, pb.ones(1))[0]
        return a + b

    first = find(f)(pb.tensor(-1.0)).first
    assert str(first.where) == line(-4)


def test_the_mode_raises_at_the_op() -> None:
    x = pb.tensor([1.0, -1.0])
    with pb.config(check_nan=True):
        with pytest.raises(pb.errors.InvalidNumber, match="log: 1 of 2 elements is NaN") as caught:
            pb.log(x).sum().item()
        assert str(caught.value.where) == line(-1) and caught.value.code == "E6006"
        with pytest.raises(pb.errors.NumericOverflow, match="div: the result is infinite"):
            pb.compile(lambda x: 1 / x)(pb.tensor(0.0))
        with pytest.raises(pb.errors.NumericOverflow, match="in the rule of sqrt"):
            pb.grad(lambda x: pb.sqrt((x * x).sum()))(pb.zeros(2)).numpy()
        with pytest.raises(pb.errors.InvalidNumber, match="iteration 3 of scan"):
            pb.compile(logs)(pb.tensor(5.0), pb.tensor(ROWS))
        with pytest.raises(pb.errors.NumericOverflow), pb.config(engine="reference"):
            (1 / (x - x)).numpy()
        # Harmless: a branch that is not selected, and infinities that a user wrote
        assert pb.where(x > 0, pb.log(x), 0.0).tolist() == [0.0, 0.0]
        assert (pb.tensor([np.inf]) * 2).tolist() == [np.inf]
    assert np.isnan(pb.log(x).numpy()[1])


def test_the_mode_with_donated_arguments_and_backward() -> None:
    f = pb.compile(lambda x: pb.log(x), donate_argnums=0)
    w = pb.tensor([0.0], requires_grad=True)
    with pb.config(check_nan=True):
        assert f(pb.tensor([1.0])).item() == 0
        with pytest.raises(pb.errors.InvalidNumber):
            f(pb.tensor([-1.0]))
        pb.sqrt(w).sum().backward()
        with pytest.raises(pb.errors.NumericOverflow):
            w.grad.numpy()


@on_devices
def test_on_a_mesh() -> None:
    mesh = pb.DeviceMesh(4, "dp")
    x = pb.arange(-4.0, 4.0).shard(mesh, pb.P("dp"))
    spec = pb.P("dp")
    f = pb.shard_map(lambda x: pb.log(x * 2), mesh, in_specs=spec, out_specs=spec)
    first = find(lambda x: f(x).sum())(x).first
    assert (first.op, first.loops[0].op) == ("log", "shard_map")
    wanted = pytest.raises(pb.errors.InvalidNumber, match="4 of 8 elements are NaN")
    with pb.config(check_nan=True), wanted:
        pb.log(x).sum().item()
