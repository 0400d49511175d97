"""The text form, and fingerprints."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from ir_ops import F32, F64, I32, I64, Body, Marked, Scaled, TopTwo, source
from paths import PYTHONPATH

import pullback as pb
from pullback.graph import dtypes, source_lines
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph
from pullback.graph.node import Node, constant_node
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.ops.elementwise.arithmetic import Mul, Neg
from pullback.ops.reduce.reductions import Sum
from pullback.ops.shape.movement import Reshape
from pullback.ops.sources import SCALAR, Const, Result, leaf_source
from pullback.ops.wrap.identity import Alias
from pullback.static.fingerprints import fingerprint
from pullback.static.text import static_graph_text

# -- text ---------------------------------------------------------------------------------------


def line_of(node: Node, *inputs: Node) -> str:
    """The last instruction's line, without its type."""
    return static_graph_text(Graph(inputs, [node])).splitlines()[-2].split(" : ")[0]


def test_the_example_prints_as_specified():
    x, w = source(2, 3, name="x"), source(3, name="w")
    y = x * w
    graph = Graph([x, w], [Sum((1,), False)(y * constant_node(0.5, F32))])
    assert (
        static_graph_text(graph)
        == str(graph)
        == (
            '%0 = Input() {name: "x"} : Tensor<f32, [2, 3]>\n'
            '%1 = Input() {name: "w"} : Tensor<f32, [3]>\n'
            "%2 = BinOp(Mul, %0, %1) : Tensor<f32, [2, 3]>\n"
            "%3 = ConstF32(0.5) : Tensor<f32, []>\n"
            "%4 = BinOp(Mul, %2, %3) : Tensor<f32, [2, 3]>\n"
            "%5 = Sum(%4, [1], false) : Tensor<f32, [2]>\n"
            "outputs: %5"
        )
    )


def test_operands_then_positional_parameters_then_keys():
    x = source(2, 3)
    assert line_of(Reshape((3, 2))(x), x) == "%1 = Reshape(%0, [3, 2])"
    assert line_of(Reshape(())(x := source(1)), x) == "%1 = Reshape(%0, [])"
    assert line_of(Neg()(x), x) == "%1 = Neg(%0)"
    assert line_of(Scaled(-0.0)(x), x) == "%1 = Scaled(%0) {factor: -0.0}"
    for name in ("Add", "Sub", "Mul"):
        assert line_of(TABLE[name]()(x, x), x) == f"%1 = BinOp({name}, %0, %0)"


def test_a_slice_is_a_list_of_ranges():
    slicing = pytest.importorskip("pullback.ops.shape.slicing")
    x = source(4, 8)
    y = slicing.Slice((0, 2), (4, 8), (1, 3))(x)
    assert line_of(y, x) == "%1 = Slice(%0, [0:4:1, 2:8:3])"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"), (True, "true"), (False, "false"), (None, "none"), (0.1, "0.1"),
        (-0.0, "-0.0"), (math.nan, "nan"), (-math.inf, "-inf"), (1e300, "1e+300"),
        (1 - 2.5j, "(1.0, -2.5)"), (np.int64(7), "7"), (np.float32(0.1), "0.1"),
        ('a "b"\n\t\\', '"a \\"b\\"\\n\\t\\\\"'), ((1, (2.0, True), ()), "[1, [2.0, true], []]"),
        (F32, "f32"), (Type((2,), I32), "Tensor<i32, [2]>"), (b"\x00\xff", '"00ff"'),
        (frozenset({"b", "a"}), '["a", "b"]'), (math.sin, '"math.sin"'), (np.bool_(True), "true"),
    ],
)  # fmt: skip
def test_parameters_have_literals(value, text):
    x = source(2)
    assert line_of(Marked(value)(x), x) == f"%1 = Marked(%0) {{mark: {text}}}"


def test_no_literal_holds_an_address():
    class Thing:
        pass

    x = source(2)
    assert "0x" not in line_of(Marked(Thing())(x), x)
    assert "0x" not in line_of(Marked(lambda: 0)(x), x)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, F32, "ConstF32(0.1)"), (0.1, F64, "ConstF64(0.1)"), (-7, I64, "ConstI64(-7)"),
        (1 / 3, F32, "ConstF32(0.33333334)"), (1 / 3, F64, "ConstF64(0.3333333333333333)"),
        (-0.0, F32, "ConstF32(-0.0)"), (math.inf, F32, "ConstF32(inf)"),
        (math.nan, F64, "ConstF64(nan)"),
        (1e30, F32, "ConstF32(1e+30)"), (16777216.0, F32, "ConstF32(16777216.0)"),
        (5, I32, "ConstTensor(5)"), (True, dtypes.bool_, "ConstTensor(true)"),
        (0.1, dtypes.float16, "ConstTensor(0.1)"), (0.1, dtypes.bfloat16, "ConstTensor(0.1)"),
        (1 + 2j, dtypes.complex64, "ConstTensor((1.0, 2.0))"),
        ([[1, 2], [3, 4]], I32, "ConstTensor([[1, 2], [3, 4]])"),
        ([0.1, -0.0, math.nan], F32, "ConstTensor([0.1, -0.0, nan])"),
        (np.zeros((0, 2)), F32, "ConstTensor([])"),
        (np.zeros((2, 0)), F32, "ConstTensor([[], []])"),
    ],
)  # fmt: skip
def test_constants_print_in_their_own_type(value, dtype, text):
    assert line_of(constant_node(value, dtype)) == f"%0 = {text}"


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_floats_read_back_to_the_same_bits(name):
    dtype = dtypes.dtype(name)
    bits = np.random.default_rng(0).integers(0, 2**dtype.bits, 2000, np.uint64)
    values = bits.astype(f"u{dtype.bits // 8}").view(dtype.numpy)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = values[np.isfinite(values)]
    text = line_of(Const(dtype, values.shape, values.tobytes())())
    read = [float(v) for v in text[text.index("[") + 1 : text.index("]")].split(", ")]
    assert np.array(read, dtype.numpy).tobytes() == values.tobytes()


def test_unusual_nans_show_their_bits():
    data = np.array([0x7FC00000, 0xFFC00000, 0x7FC00001], np.uint32)
    made = Const(F32, (3,), data.tobytes())()
    assert line_of(made).endswith("([nan, nan(0xffc00000), nan(0x7fc00001)])")


def test_several_results_are_named_on_one_line():
    x = source(5)
    top = TopTwo(2)(x)
    second, again = (Node(Result(1), (top,), top.type[1]) for _ in range(2))
    assert static_graph_text(Graph([x], [second + again, x])) == (
        '%0 = Input() {name: "x"} : Tensor<f32, [5]>\n'
        "%1, %2 = TopTwo(%0) {k: 2} : Tensor<f32, [2]>, Tensor<i64, [2]>\n"
        "%3 = BinOp(Add, %2, %2) : Tensor<i64, [2]>\n"
        "outputs: %3, %0"
    )


def test_leaves_print_as_inputs_and_scalars_as_constants():
    x = source(2)
    y = -x
    w = leaf_source(Type((2,), F32), np.ones(2, np.float32))
    scalar = Node(SCALAR, (), Type((), F32), value=0.1)
    assert static_graph_text(Graph([x], [y * w * scalar])).splitlines()[1:] == [
        '%1 = Input() {name: "leaf1"} : Tensor<f32, [2]>',
        "%2 = Neg(%0) : Tensor<f32, [2]>",
        "%3 = ConstF32(0.1) : Tensor<f32, []>",
        "%4 = BinOp(Mul, %2, %1) : Tensor<f32, [2]>",
        "%5 = BinOp(Mul, %4, %3) : Tensor<f32, [2]>",
        "outputs: %5",
    ]


def test_inner_graphs_are_written_in_place():
    x, y = source(2), source(2, name="y")
    y.where = source_lines.user_line()
    made = static_graph_text(Graph([x], [Body(Graph([y], [-y]))(x)]), provenance=True)
    assert made.splitlines()[1:] == [
        "%1 = Body(%0) {body: graph(",
        f'  %0 = Input() {{name: "y"}} : Tensor<f32, [2]>  # test_text.py:{y.where.line}',
        "  %1 = Neg(%0) : Tensor<f32, [2]>",
        "  outputs: %1",
        ")} : Tensor<f32, [2]>",
        "outputs: %1",
    ]


def test_provenance_follows_the_instruction():
    x = source(2)
    line = source_lines.user_line()
    forward = Node(Neg(), (x,), x.type, line)
    backward = Node(Neg(), (forward,), x.type, line, forward_op="Neg")
    text = static_graph_text(Graph([x], [backward]), provenance=True).splitlines()
    assert text[0].endswith("Tensor<f32, [2]>")
    assert text[1] == f"%1 = Neg(%0) : Tensor<f32, [2]>  # test_text.py:{line.line} neg"
    assert text[2] == f"%2 = Neg(%1) : Tensor<f32, [2]>  # test_text.py:{line.line} backward of neg"
    assert "#" not in static_graph_text(Graph([x], [backward]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.tanh(x) * 2,
        lambda x: pb.relu(x),
        lambda x: x.astype("float16") + pb.nan,
        lambda x: pb.scan(lambda c, row: (c * row, c), x, pb.ones((3, 2))),
        lambda x: pb.grad(lambda y: pb.where(y > 0, y, -y).sum())(x),
    ],
)
@pytest.mark.parametrize("provenance", [False, True])
def test_a_printed_trace_is_a_module(f, provenance):
    t = pb.trace(f, pb.tensor([1.0, 2.0]))
    module = pb.ir.parse(t.text(provenance))
    pb.ir.verify(module)
    assert module.text() == str(t) == str(t.graph)


def test_inputs_of_one_name_are_told_apart():
    x, y = source(2), source(2)
    graph = Graph([x, y], [x + y], ["x", "x"])
    pb.ir.verify(pb.ir.parse(str(graph)))


# -- fingerprints -------------------------------------------------------------------------------


def test_fingerprints_do_not_depend_on_how_a_program_is_written():
    def made(name: str, swap: bool, line: Any = None) -> Graph:
        x, y = source(2, name=name), source(2)
        a = Node(Mul(), (y, x) if swap else (x, y), x.type, line)
        return Graph([x, y], [Alias()(a)])

    first = fingerprint(made("x", False))
    assert first == fingerprint(made("other", True, source_lines.user_line()))
    assert first == fingerprint(canonicalise(made("x", False)))
    assert len(first) == 64


def test_different_programs_have_different_fingerprints():
    x, y, wide = source(2), source(2), source(3)
    graphs = [
        Graph([x], [-x]), Graph([x], [x]), Graph([wide], [-wide]), Graph([x, y], [-x]),
        Graph([x, y], [-y]), Graph([x], [x * constant_node(0.0, F32)]),
        Graph([x], [x * constant_node(-0.0, F32)]), Graph([x], [-x, -x]),
        Graph([x], [Scaled(0.0)(x)]), Graph([x], [Scaled(-0.0)(x)]),
    ]  # fmt: skip
    assert len(set(map(fingerprint, graphs))) == len(graphs)


def test_input_names_of_inner_graphs_do_not_count():
    def made(name: str) -> Graph:
        x, y = source(2), source(2, name=name)
        return Graph([x], [Body(Graph([y], [Alias()(y) * y]))(x)])

    assert fingerprint(made("a")) == fingerprint(made("b"))


PROGRAM = """
from ir_ops import Graph, Marked, program, source
from pullback.graph.canonical import canonicalise
from pullback.static.fingerprints import fingerprint
from pullback.static.text import static_graph_text
graph = program()
x = source(2)
words = Graph([x], [Marked(frozenset("abcdefgh"))(x)])
text = static_graph_text
print(text(graph), text(canonicalise(graph)), fingerprint(graph), text(words))
"""


def test_m22_every_process_prints_the_same_bytes():
    command = [sys.executable, "-c", PROGRAM]
    printed = set()
    for seed in ("0", "1", "42"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": PYTHONPATH}
        printed.add(subprocess.check_output(command, env=environment))
    assert len(printed) == 1
