"""Gradients of rectifiers are selections by their results."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.graph.graph import Graph
from pullback.ops.elementwise.logic import Greater
from pullback.ops.elementwise.relu import Relu, Step
from pullback.ops.elementwise.relu_steps import relu_steps
from pullback.ops.interpret import interpret
from pullback.transforms.lowered_form import lowered_form
from pullback.transforms.replacement import with_replacements

SPECIAL = np.array([np.nan, -np.inf, -1, -0.0, 0, 1e-45, 2, np.inf], np.float32)


def both(x: Any) -> Any:
    return pb.value_and_grad(lambda x: (pb.relu(x) * x).sum())(x)


def with_selections(f: Any) -> Graph:
    """A program with selections, after a check that it computes the same."""
    graph = pb.compile(f).lower(pb.tensor(SPECIAL)).graph
    made, origins = with_replacements(graph, relu_steps(graph))
    assert set(origins.values()) <= set(graph.nodes)
    assert not any(isinstance(n.op, Step) for n in made.nodes)
    with np.errstate(invalid="ignore"):
        pairs = zip(interpret(graph, [SPECIAL]), interpret(made, [SPECIAL]), strict=True)
    for before, after in pairs:
        np.testing.assert_array_equal(before, after)
    return made


def test_results_tell_where_gradients_are_zero() -> None:
    made = with_selections(both)
    (positive,) = [n for n in made.nodes if isinstance(n.op, Greater)]
    assert isinstance(positive.inputs[0].op, Relu)


def test_operands_do_if_there_are_no_results() -> None:
    made = with_selections(pb.grad(lambda x: (pb.relu(x) * pb.tensor(SPECIAL[::-1])).sum()))
    assert not any(isinstance(n.op, Relu) for n in made.nodes)


def test_other_steps_and_programs_for_cpus_stay() -> None:
    plain = pb.compile(lambda x: pb.relu(x) * x).lower(pb.tensor(SPECIAL)).graph
    assert not relu_steps(plain)
    graph = pb.compile(both).lower(pb.tensor(SPECIAL)).graph
    assert lowered_form(graph, "cpu")[0] is graph
    assert lowered_form(graph, "cuda")[0] is not graph
