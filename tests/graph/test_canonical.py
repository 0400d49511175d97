"""The canonical form, and constant folding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ir_ops import F32, F64, I32, I64, Invert, Quotient, TopTwo, names_of, program, source

from pullback.graph import dtypes, source_lines
from pullback.graph.canonical import canonicalise, canonicalise_with_map
from pullback.graph.graph import Graph
from pullback.graph.node import Node, constant_node, result_nodes
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.ops.elementwise.arithmetic import Add, Mul, Neg, Sub
from pullback.ops.elementwise.division import Div
from pullback.ops.prelude import Op
from pullback.ops.reduce.reductions import Sum
from pullback.ops.shape.movement import Broadcast
from pullback.ops.sources import Result, leaf_source
from pullback.ops.wrap.barriers import OptimizationBarrier
from pullback.ops.wrap.identity import Alias, StopGradient
from pullback.static.fingerprints import fingerprint
from pullback.static.text import static_graph_text
from pullback.static.verify import verify
from pullback.testing import run

# -- the canonical form -------------------------------------------------------------------------


def test_m57_canonicalisation_is_idempotent():
    once = canonicalise(program())
    verify(once)
    assert static_graph_text(canonicalise(once)) == static_graph_text(once)


def test_m57_canonicalisation_is_pure():
    graph = program()
    before = [(n, n.op, n.inputs, n.type, n.number) for n in graph.nodes]
    text = static_graph_text(graph)
    made = canonicalise(graph)
    assert [(n, n.op, n.inputs, n.type, n.number) for n in graph.nodes] == before
    assert static_graph_text(graph) == text
    assert not set(made.nodes) & set(graph.nodes)


def test_m57_aliases_and_dead_code_are_removed_inputs_are_kept():
    made = canonicalise(program())
    assert made.names == ("x", "y", "unused")
    assert len(made.inputs) == 3
    inner = ["Mul", "Add", "TopTwo", "Result", "Const", "Sum"]
    assert names_of(made) == ["Input"] * 3 + inner


def test_stop_gradient_is_kept_in_programs_that_will_be_differentiated():
    x = source(2)
    graph = Graph([x], [StopGradient()(Alias()(x))])
    assert names_of(canonicalise(graph)) == ["Input"]
    assert names_of(canonicalise(graph, keep_stop_gradient=True)) == ["Input", "StopGradient"]


def test_an_output_that_is_an_alias_becomes_its_operand():
    x = source(2)
    made = canonicalise(Graph([x], [Alias()(x), x]))
    assert made.outputs == (made.inputs[0],) * 2


def test_repeated_work_is_done_once():
    x, y = source(2), source(2)
    made = canonicalise(Graph([x, y], [-(x * y), -(x * y), x - y, y - x]))
    assert names_of(made) == ["Input", "Input", "Mul", "Neg", "Sub", "Sub"]
    assert made.outputs[0] is made.outputs[1]


def test_m56_operands_of_commutative_ops_are_sorted_others_are_not():
    x, y = source(2), source(2)
    made = canonicalise(Graph([x, y], [y * x, x * y, y + x, y - x]))
    product, same, total, difference = made.outputs
    assert product is same
    assert product.inputs == total.inputs == made.inputs
    assert difference.inputs == made.inputs[::-1]


def test_operands_are_sorted_by_the_numbers_of_the_text():
    x = source(2)
    top = TopTwo(2)(x)
    second = Node(Result(0), (top,), top.type[0])
    doubled = x + x
    made = canonicalise(Graph([x], [doubled * second]))
    assert "BinOp(Mul, %1, %3)" in static_graph_text(made)
    assert static_graph_text(canonicalise(made)) == static_graph_text(made)


def test_equal_leaves_are_never_merged():
    x, y = source(2, name="x"), source(2, name="x")
    assert x.op is y.op
    value = np.ones(2, np.float32)
    v, w = (leaf_source(Type((2,), F32), value) for _ in range(2))
    made = canonicalise(Graph([x, y], [x + y, v * w, Neg()(x), Neg()(y)]))
    total, product, first, second = made.outputs
    assert total.inputs[0] is not total.inputs[1]
    assert product.inputs[0] is not product.inputs[1]
    assert product.inputs[0].value is value
    assert first is not second


def test_ops_are_not_merged_across_a_barrier():
    x = source(2)
    barrier = OptimizationBarrier()
    made = canonicalise(Graph([x], [Neg()(x), Neg()(barrier(x)), Neg()(barrier(x))]))
    assert names_of(made) == ["Input", "Neg"] + ["OptimizationBarrier", "Neg"] * 2
    assert len(set(made.outputs)) == 3


def test_results_of_one_op_are_merged():
    x = source(5)
    first, second = TopTwo(2)(x), TopTwo(2)(x)
    made = canonicalise(
        Graph([x], [*result_nodes(first), *result_nodes(first), *result_nodes(second)])
    )
    assert names_of(made) == ["Input", "TopTwo", "Result", "Result"]
    assert made.outputs[:2] == made.outputs[2:4] == made.outputs[4:]


def test_constants_of_different_bits_are_not_merged():
    zeros = [constant_node(0.0, F32), constant_node(-0.0, F32), constant_node(0.0, F32)]
    a, b, c = canonicalise(Graph([], zeros)).outputs
    assert a is c
    assert a is not b


def test_instruction_order_is_kept():
    x = source(2)
    a = -x
    b = x * x
    c = x - x
    made = canonicalise(Graph([x], [c, a, b]))
    assert names_of(made) == ["Input", "Neg", "Mul", "Sub"]


def test_lines_and_direction_are_kept():
    x = source(2)
    line = source_lines.user_line()
    made = canonicalise(Graph([x], [Node(Neg(), (x,), x.type, line, forward_op="Neg")]))
    assert made.outputs[0].where is line
    assert made.outputs[0].backward and made.outputs[0].forward_op == "Neg"


def test_an_input_node_of_another_op_becomes_an_input():
    x = source(2)
    middle = -x
    made = canonicalise(Graph([middle], [middle * middle]))
    verify(made)
    assert names_of(made) == ["Input", "Mul"]


def test_the_map_gives_the_new_node_of_each_old_one():
    x = source()
    alias = Alias()(x)
    one, two = constant_node(1, I64), constant_node(2, I64)
    total = one + two
    graph = Graph([x], [alias, -x, -alias, total])
    made, new = canonicalise_with_map(graph)
    assert new[x] is new[alias] is made.inputs[0]
    assert [new[y] for y in graph.outputs] == list(made.outputs)
    assert one not in new
    assert set(new.values()) == set(made.nodes)


def test_canonicalising_changes_no_value():
    x, y = source(2, 3, dtype=F64), source(3, dtype=F64)
    z = Alias()(x) * y + y * x
    graph = Graph([x, y], [z - z * z, Sum((0,), True)(z), Broadcast((2, 3))(y)])
    arrays = [np.arange(6.0).reshape(2, 3), np.array([1.5, -2.0, 0.25])]
    for a, b in zip(run(graph, arrays), run(canonicalise(graph), arrays), strict=True):
        assert a.tobytes() == b.tobytes()


# -- folding ------------------------------------------------------------------------------------


def folded(op: Op, *values: Any, dtype: dtypes.DType = I32) -> Any:
    """Return the constant that an application is folded to, or None."""
    y = op(*[constant_node(v, dtype) for v in values])
    (made,) = canonicalise(Graph([], [y])).outputs
    if made.op.name != "Const":
        return None
    assert made.type is y.type
    return made.op.array.item()


LOW, HIGH = -(2**31), 2**31 - 1


@pytest.mark.parametrize(
    ("op", "values", "wanted"),
    [
        (Add(), (2, 3), 5), (Add(), (HIGH, 0), HIGH), (Sub(), (2, 3), -1), (Mul(), (-4, 5), -20),
        (Mul(), (2**15, -(2**16)), LOW), (Neg(), (HIGH,), -HIGH), (Quotient(), (7, 2), 3),
        (Quotient(), (LOW, 1), LOW), (Div(), (7, 2), 3), (Div(), (-7, 2), -3),
    ],
)  # fmt: skip
def test_m58_integer_folding_is_exact(op, values, wanted):
    assert folded(op, *values) == wanted


@pytest.mark.parametrize(
    ("op", "values"),
    [
        (Add(), (HIGH, 1)), (Sub(), (LOW, 1)), (Mul(), (2**16, 2**15)), (Neg(), (LOW,)),
        (Quotient(), (1, 0)), (Quotient(), (0, 0)), (Quotient(), (LOW, -1)),
        (Div(), (1, 0)), (Div(), (0, 0)), (Div(), (LOW, -1)),
    ],
)  # fmt: skip
def test_m58_overflow_and_division_by_zero_are_not_folded(op, values):
    assert folded(op, *values) is None


def test_m58_folding_at_64_bits_and_unsigned():
    assert folded(Mul(), 2**31, 2**31, dtype=I64) == 2**62
    assert folded(Mul(), 2**32, 2**31, dtype=I64) is None
    assert folded(Add(), 2**64 - 2, 1, dtype=dtypes.uint64) == 2**64 - 1
    assert folded(Sub(), 0, 1, dtype=dtypes.uint8) is None


def test_bools_fold_and_tensors_do_not():
    assert folded(Invert(), True, dtype=dtypes.bool_) is False
    assert folded(Add(), [1, 2], [3, 4]) is None


TINY, BIG = 2.0**-126, 2.0**127  # the least normal number of f32, and one whose double overflows


@pytest.mark.parametrize(
    ("op", "values", "wanted"),
    [
        (Add(), (1.0, 2.0), 3.0), (Mul(), (0.5, -3.0), -1.5), (Sub(), (1.0, 1.0), 0.0),
        (Neg(), (2.5,), -2.5), (Div(), (1.0, 4.0), 0.25), (TABLE["Less"](), (1.0, 2.0), True),
        (TABLE["Square"](), (1.5,), 2.25), (TABLE["Floor"](), (2.5,), 2.0),
        (TABLE["Cast"](dtypes.float16), (1.5,), 1.5), (TABLE["Cast"](I32), (-2.5,), -2),
        (TABLE["Pow"](), (2.0, 3.0), 8.0), (TABLE["Square"](), (TINY ** 0.5,), TINY),
    ],
)  # fmt: skip
def test_floats_fold_where_they_are_exact(op, values, wanted):
    assert folded(op, *values, dtype=F32) == wanted


@pytest.mark.parametrize(
    ("op", "values"),
    [
        (Add(), (1.0, 2.0**-24)), (Add(), (0.1, 0.2)), (Mul(), (0.1, 0.1)), (Div(), (1.0, 3.0)),
        (Div(), (1.0, 0.0)), (Add(), (BIG, BIG)), (Mul(), (TINY, 0.5)), (Mul(), (TINY / 2, 2.0)),
        (Add(), (np.inf, 1.0)), (Add(), (np.nan, 1.0)), (Add(), (-0.0, 1.0)),
        (TABLE["Maximum"](), (0.0, -0.0)), (TABLE["Pow"](), (2.0, 0.5)), (TABLE["Sqrt"](), (2.0,)),
        (TABLE["Exp"](), (1.0,)), (TABLE["Cast"](dtypes.float16), (0.1,)),
    ],
)  # fmt: skip
def test_floats_that_are_rounded_or_special_are_not_folded(op, values):
    """Engines may round, flush subnormal numbers, and order zeros differently."""
    assert folded(op, *values, dtype=F32) is None


def test_conversions_of_integers_fold_where_they_are_exact():
    cast = TABLE["Cast"](dtypes.float64)
    assert folded(cast, 2**53, dtype=I64) == 2.0**53
    assert folded(cast, 2**53 + 1, dtype=I64) is None
    assert folded(TABLE["Cast"](I32), 2**31, dtype=I64) is None
    assert folded(cast, True, dtype=dtypes.bool_) == 1.0


def test_folded_operands_are_folded_further():
    one = constant_node(1, I64)
    y = (one + one) * (one + one) - one
    made = canonicalise(Graph([], [y, constant_node(3, I64)]))
    assert static_graph_text(made) == "%0 = ConstI64(3) : Tensor<i64, []>\noutputs: %0, %0"


def test_a_barrier_is_not_folded():
    y = OptimizationBarrier()(constant_node(1, I64))
    assert names_of(canonicalise(Graph([], [y]))) == ["Const", "OptimizationBarrier"]


# -- depth --------------------------------------------------------------------------------------


def test_a_chain_of_100000_nodes_is_canonicalised():
    x = source()
    y = x
    for _ in range(50_000):
        y = Alias()(-y)
    for _ in range(50_000):
        y = y + y
    graph = Graph([x], [y])
    made = canonicalise(graph)
    verify(made)
    assert len(graph.nodes) == 150_001
    assert len(made.nodes) == 100_001
    assert static_graph_text(made).count("\n") == 100_001
    assert fingerprint(made) == fingerprint(graph)
