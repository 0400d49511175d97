"""The compiled program against NumPy, node by node."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback.debug.ulp import ulp_distance, ulp_unit
from pullback.ops.elementwise.exponential import Exp

audit = pb.debug.audit
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def test_nodes_are_listed_in_the_order_of_the_program() -> None:
    report = audit(lambda x: (pb.exp(x) * x).sum())(pb.tensor(X))
    assert [n.op for n in report.nodes] == ["exp", "mul", "sum"]
    assert report and not report.diverging and all(n.own <= 16 for n in report.nodes)
    assert report.nodes[1].own == 0 and len(report.results) == 1
    assert "xla against NumPy" in str(report)


def test_a_gradient_names_the_rules() -> None:
    report = audit(pb.grad(lambda x: pb.tanh(x).sum()))(pb.tensor(X))
    assert {n.rule for n in report.nodes} >= {"", "tanh"}


def test_an_op_that_diverges_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exp, "numpy", lambda self, x: np.exp(x) * np.float32(1 + 1e-5))
    report = audit(lambda x: pb.sin(pb.exp(x)) + 1)(pb.tensor(X))
    assert [n.op for n in report.diverging] == ["exp"] and not report
    assert report.worst is not None and report.worst.op == "exp"
    # What comes after inherits the difference, but adds little of its own
    assert report.nodes[1].total > report.nodes[1].own


def test_loops_are_compared_inside() -> None:
    def step(c: Any, row: Any) -> Any:
        return pb.sin(c) * row + c, c

    report = audit(lambda x: pb.scan(step, x, pb.ones(4)))(pb.tensor(0.3))
    inside = [n for n in report.nodes if n.loops]
    assert {n.op for n in inside} == {"sin", "mul", "add"}
    assert [n.loops[0].iteration for n in inside if n.op == "sin"] == [0, 1, 2]


def test_the_reference_is_exact() -> None:
    with pb.config(engine="reference"):
        report = audit(lambda x: pb.softmax(x @ x.T, axis=1))(pb.tensor(X))
    assert report.results == (0.0,) and all(n.own == 0 for n in report.nodes)


def test_distances() -> None:
    one = np.array([1.0, -1.0, 0.0], np.float32)
    assert ulp_distance(one, one) == 0
    assert ulp_distance(np.nextafter(one, np.float32(9)), one) == 1
    assert ulp_distance(np.array([0.0, -0.0]), np.array([-0.0, 0.0])) == 0
    assert ulp_distance(np.array([np.nan, 1.0]), np.array([np.nan, 1.0])) == 0
    assert ulp_distance(np.array([np.nan]), np.array([1.0])) == math.inf
    assert ulp_distance(np.array([1, 5]), np.array([1, 3])) == 2
    assert ulp_distance(np.array([True]), np.array([False])) == 1
    assert ulp_distance(np.array([1 + 2j]), np.array([1 + 2j])) == 0
    short = np.array([1.0], ml_dtypes.bfloat16)
    assert ulp_distance(short + short, short) == 128
    assert ulp_distance(np.array([5e-324]), np.array([-5e-324])) == 2
    assert ulp_distance(np.zeros(0), np.zeros(0)) == 0
    assert ulp_distance(np.array([np.inf, 0.0]), np.array([np.inf, 2.0]), 1.0) == 2**53
    assert ulp_distance(np.array([np.inf]), np.array([1.0]), 1.0) == math.inf
    assert [ulp_unit(1.5, np.dtype(d)) for d in ("f2", "f4", "f8")] == [2**-10, 2**-23, 2**-52]
    assert ulp_unit(0.0, np.dtype("f4")) == 2**-149


def test_terms_that_cancel_are_no_divergence() -> None:
    x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    report = audit(lambda x: (x - x.mean(axis=1, keepdims=True)).mean(axis=1) + x @ x[0])(x)
    assert report and max(report.results) < 16
