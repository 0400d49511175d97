"""Verification: violations of each rule of the IR."""

from __future__ import annotations

import numpy as np
import pytest
from ir_ops import F32, F64, Body, TopTwo, source

from pullback.errors import PullbackError, VerificationError
from pullback.graph import source_lines
from pullback.graph.graph import Graph
from pullback.graph.node import Node, constant_node, result_nodes
from pullback.graph.types import Type
from pullback.ops.elementwise.arithmetic import Add, Neg
from pullback.ops.reduce.reductions import Sum
from pullback.ops.shape.movement import Reshape
from pullback.ops.sources import Result, leaf_source
from pullback.static.verify import verify


def fails(graph: Graph, code: str, instruction: int | None = None) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        verify(graph)
    assert caught.value.code == code, caught.value
    if instruction is not None:
        assert caught.value.values["instruction"] == instruction
        assert f"instruction {instruction} " in str(caught.value)
    return caught.value


def test_a_well_formed_graph_verifies():
    x, y = source(2, 3), source(3)
    top = result_nodes(TopTwo(2)(x))
    verify(Graph([x, y], [Sum((1,), False)(x * y), *top]))
    verify(Graph([x], []))
    verify(Graph([], [constant_node(1.0, F32)]))
    verify(Graph([x], [x * leaf_source(Type((3,), F32), np.ones(3, np.float32))]))


def test_m59_use_before_definition():
    x = source(2)
    first, second = -x, -x
    first.inputs = (second,)
    fails(Graph([x], [first]), "E4001", 1)


def test_m59_a_cycle_is_use_before_definition():
    x = source(2)
    y = -x
    y.inputs = (y,)
    fails(Graph([x], [y]), "E4001", 1)


def test_an_input_that_is_not_declared():
    x, y = source(2), source(2)
    fails(Graph([x], [x + y]), "E4001", 1)


def test_m59_an_input_declared_twice():
    x = source(2)
    fails(Graph([x, x], [x]), "E4002", 1)


def test_m59_an_undefined_output():
    x = source(2)
    graph = Graph([x], [-x])
    assert len(graph.nodes) == 2
    graph.outputs = (-x,)  # after its nodes were collected
    assert fails(graph, "E4003").values["output"] == 0


def test_an_output_must_be_one_value():
    x = source(5)
    fails(Graph([x], [TopTwo(2)(x)]), "E4003")


def test_m60_inputs_are_named_input_instructions():
    x = source(2)
    fails(Graph([-x], [x]), "E4004", 0)
    fails(Graph([x], [x], names=[""]), "E4004", 0)
    fails(Graph([x], [x], names=[]), "E4004")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_number_of_operands(count):
    x = source(2)
    y = x + x
    y.inputs = (x,) * count
    fails(Graph([x], [y]), "E2007", 1)


def test_a_declared_type_must_be_the_inferred_one():
    x = source(2)
    for wrong in (Type((3,), F32), Type((2,), F64), (Type((2,), F32),)):
        y = Node(Neg(), (x,), wrong)
        fails(Graph([x], [-y if isinstance(wrong, Type) else result_nodes(y)[0]]), "E2001", 1)


def test_type_rules_ignore_sharding():
    x = source(2)
    verify(Graph([x], [Node(Neg(), (x,), Type((2,), F32, "a sharding", ("i",)))]))


def test_m63_negative_dimensions():
    fails(Graph([x := source(-2)], [x]), "E3006", 0)


def test_error_codes_of_ops_are_kept():
    x, y, z = source(2, 3), source(2, 4), source(2, 3, dtype=F64)
    error = fails(Graph([x, y], [Node(Add(), (x, y), x.type)]), "E3001", 2)
    assert error.values["dimension"] == 1
    assert error.values["extents"] == (3, 4)
    fails(Graph([x, z], [Node(Add(), (x, z), x.type)]), "E2004", 2)
    fails(Graph([x], [Node(Sum((2,), False), (x,), x.type)]), "E3004", 1)
    fails(Graph([x], [Node(Reshape((7,)), (x,), Type((7,), F32))]), "E3007", 1)


def test_a_result_selects_one_that_exists():
    x = source(5)
    top = TopTwo(2)(x)
    for index in (2, -1):
        fails(Graph([x], [Node(Result(index), (top,), top.type[0])]), "E4001", 2)
    fails(Graph([x], [Node(Result(0), (x,), x.type)]), "E4001", 1)
    fails(Graph([x], [Node(Neg(), (top,), top.type[0])]), "E2001", 2)


def test_graphs_inside_ops_are_verified():
    x, y = source(2), source(2)
    bad = Graph([y], [Node(Neg(), (y,), Type((3,), F32))])
    fails(Graph([x], [Body(bad)(x)]), "E2001", 1)


def test_errors_say_where_and_are_the_same_each_time():
    x = source(2)
    y = Node(Neg(), (x,), Type((3,), F32), source_lines.user_line())
    first, second = (str(fails(Graph([x], [y]), "E2001")) for _ in range(2))
    assert first == second
    assert "test_verify.py:" in first
    assert first.startswith("instruction 1 (Neg): declared type is f32[3]")


def test_verification_errors_are_values_a_user_would_catch():
    assert VerificationError.__mro__[1:3] == (PullbackError, ValueError)
