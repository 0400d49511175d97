"""Why a gradient is zero: every kind of cut, with its line and the path that leads there."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import pullback as pb

explain = pb.debug.explain_grad


def line(offset: int = 0) -> str:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return f"test_gradient_explanation.py:{frame.f_back.f_lineno + offset}"


def only(report: Any, key: Any = 0) -> Any:
    """The single cut of an argument."""
    (cut,) = report[key].cuts
    return cut


def test_a_gradient_that_flows_has_nothing_to_explain() -> None:
    report = explain(lambda x, w: (x @ w).sum())(pb.ones((2, 3)), pb.ones(3))
    assert [a.status for a in report.arguments] == ["flows", "flows"]
    assert report["w"].gradient.low == 2.0 and not report["w"].cuts
    assert "flows: all 2.0" in str(report)


def test_detached() -> None:
    report = explain(lambda x: x.detach().sum())(pb.ones(3))
    cut = only(report)
    assert (report["x"].status, cut.kind, str(cut.where)) == ("cut", "detached", line(-2))
    report = explain(lambda x: (x * x.detach()).sum())(pb.ones(3))
    assert report["x"].status == "flows" and only(report).kind == "detached"


def test_no_grad_is_named_where_the_value_is_used() -> None:
    def f(x: Any) -> Any:
        with pb.no_grad():
            y = x * 2
        return y.sum()

    cut = only(explain(f)(pb.ones(3)))
    assert (cut.op, str(cut.where)) == ("no_grad", line(-4))


@pytest.mark.parametrize(
    ("f", "op"),
    [
        (lambda x: x.astype("int32").astype("float32").sum(), "cast"),
        (lambda x: pb.argmax(x).astype("float32"), "argmax"),
        (lambda x: pb.where(x > 0, 1.0, 0.0).sum(), "greater"),
        (lambda x: pb.arange(5.0)[pb.argsort(x)].sum(), "argsort"),
    ],
)
def test_integers_and_comparisons(f: Any, op: str) -> None:
    report = explain(f)(pb.tensor([1.0, 2.0]))
    cut = only(report)
    assert (report[0].status, cut.kind, cut.op) == ("cut", "discrete", op)


def test_an_op_whose_derivative_is_zero_everywhere() -> None:
    report = explain(lambda x: pb.floor(x * 2).sum())(pb.ones(3))
    cut = only(report)
    assert (report[0].status, cut.kind, cut.op) == ("cut", "constant", "floor")
    assert [op for op, _ in cut.path] == ["mul", "floor"]


def test_a_dead_op_shows_its_operands_and_the_path() -> None:
    def f(x: Any, w: Any) -> Any:
        h = x @ w
        return pb.relu(h - 10).sum()

    report = explain(f)(pb.ones((2, 3)), pb.ones(3))
    cut = only(report, "w")
    assert (report["w"].status, cut.kind, cut.op) == ("zero", "dead", "relu")
    assert "operand all -7.0" in cut.reason
    assert [op for op, _ in cut.path] == ["dot", "sub", "relu"]
    assert str(cut.path[0][1]) == line(-8)
    report = explain(lambda x: pb.tanh(100 * x))(pb.tensor(2.0))
    assert (only(report).op, report[0].zeros) == ("tanh", 1)


def test_cuts_below_a_dead_op_are_told_too() -> None:
    report = explain(lambda x, y: 0 * pb.floor(pb.relu(x)) + y)(pb.tensor(-1.0), pb.tensor(1.0))
    assert [cut.kind for cut in report["x"].cuts] == ["dead", "constant"]


def test_a_read_by_the_host() -> None:
    report = explain(lambda x: x.sum().item() * 2 + pb.tensor(1.0))(pb.ones(3))
    cut = only(report)
    assert (report[0].status, cut.kind, str(cut.where)) == ("cut", "read", line(-2))


def test_reads_that_a_derivative_refuses_are_explained() -> None:
    def f(x: Any) -> Any:
        return pb.tensor(x.numpy()).sum()

    with pytest.raises(pb.errors.GradientCut):
        pb.grad(f)(pb.ones(3))
    cut = only(explain(f)(pb.ones(3)))
    assert (cut.kind, str(cut.where)) == ("read", line(-5))


def test_unused_and_discrete_arguments() -> None:
    report = explain(lambda x, y, n: x * n)(pb.tensor(1.0), pb.tensor(2.0), pb.tensor(3))
    assert [a.status for a in report.arguments] == ["flows", "unused", "discrete"]
    assert report["y"].zeros == 1


def test_derivatives_that_cancel() -> None:
    report = explain(lambda x: (x - x).sum())(pb.ones(3))
    assert (report[0].status, only(report).kind) == ("zero", "cancelled")

    def f(x: Any) -> Any:
        s = pb.sin(x)
        return (s * pb.ones((2, 1)) - s).sum()

    cut = only(explain(f)(pb.ones((1, 3))))
    assert (cut.kind, cut.op, str(cut.where)) == ("cancelled", "sin", line(-4))


def test_trees_are_explained_leaf_by_leaf() -> None:
    params = {"w": pb.ones(2), "b": pb.ones(2)}
    report = explain(lambda p: (p["w"] * pb.stop_gradient(p["b"])).sum())(params)
    assert report["p['w']"].status == "flows" and report["p['b']"].status == "cut"
    with pytest.raises(KeyError):
        report["q"]


def test_inside_loops_branches_and_compiled_functions() -> None:
    def step(c: Any, row: Any) -> Any:
        return pb.stop_gradient(c) * row, c

    cut = only(explain(lambda x: pb.scan(step, x, pb.ones(3))[0])(pb.tensor(2.0)))
    assert (cut.kind, str(cut.where)) == ("detached", line(-3))
    body = explain(lambda x: pb.scan(lambda c, r: (pb.relu(c - r), c), x, pb.ones(3))[0])
    assert only(body(pb.tensor(-1.0))).op == "relu"
    f = pb.compile(lambda x, w: pb.relu(x * w).sum())
    assert only(explain(f)(pb.ones(3), -pb.ones(3)), "w").op == "relu"
    report = explain(lambda x: pb.cond(x > 0, lambda: pb.floor(x), lambda: x))(pb.tensor(1.5))
    assert "floor" in [cut.op for cut in report[0].cuts]


def test_the_rule_of_a_custom_vjp_takes_the_place_of_its_function() -> None:
    @pb.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * g * x,))
    report = explain(lambda x: square(x).sum())(pb.ones(3))
    assert report[0].status == "flows" and not report[0].cuts


def test_a_result_must_be_differentiable() -> None:
    with pytest.raises(pb.errors.NonDifferentiableInput, match="result must be float"):
        explain(lambda x: pb.argmax(x))(pb.ones(3))


def test_complex_and_short_floats() -> None:
    report = explain(lambda z, h: pb.abs(z).sum() + pb.relu(h).astype("float64").sum())(
        pb.tensor(np.array([1 + 2j, 3j])), -pb.ones(2, "bfloat16")
    )
    assert [a.status for a in report.arguments] == ["flows", "zero"]
