"""Gradients of rectifiers are computed from their results."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.ops.elementwise.relu import Relu, Step
from pullback.ops.interpret import interpret
from pullback.transforms.lowered_form import lowered_form
from pullback.transforms.relu_steps import with_relu_steps

SPECIAL = np.array([np.nan, -np.inf, -1, -0.0, 0, 1e-45, 2, np.inf], np.float32)


def both(x: Any) -> Any:
    return pb.value_and_grad(lambda x: (pb.relu(x) * x).sum())(x)


def test_steps_are_of_results_and_the_same() -> None:
    graph = pb.compile(both).lower(pb.tensor(SPECIAL)).graph
    made, origins = with_relu_steps(graph)
    (step,) = [n for n in made.nodes if isinstance(n.op, Step)]
    assert isinstance(step.inputs[0].op, Relu)
    assert set(origins.values()) <= set(graph.nodes)
    with np.errstate(invalid="ignore"):
        pairs = zip(interpret(graph, [SPECIAL]), interpret(made, [SPECIAL]), strict=True)
    for before, after in pairs:
        np.testing.assert_array_equal(before, after)


def test_steps_without_a_result_stay_and_so_do_programs_for_cpus() -> None:
    alone = pb.compile(pb.grad(lambda x: pb.relu(x).sum())).lower(pb.tensor(SPECIAL)).graph
    assert with_relu_steps(alone)[0] is alone
    graph = pb.compile(both).lower(pb.tensor(SPECIAL)).graph
    assert lowered_form(graph, "cpu")[0] is graph
    assert lowered_form(graph, "cuda")[0] is not graph
