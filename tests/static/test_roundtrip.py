"""Printed text reads back: every op of the table, traces, literals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from each import each
from ir_ops import Marked, source

import pullback as pb
from pullback import testing
from pullback.errors import ParseError, TraceError
from pullback.graph import dtypes
from pullback.graph.graph import Graph
from pullback.graph.op_table import TABLE
from pullback.ops.sources import Const, placeholder
from pullback.static.literals import literal_text
from pullback.static.module import IRModule as Module

SAMPLED = [name for name in sorted(TABLE) if list(TABLE[name].samples())]


def read_back(graph: Graph) -> Module:
    """The module of a graph, read back from its text; both are the same program."""
    module = Module.from_graph(graph)
    text = module.text()
    again = pb.ir.parse(text)
    assert again.text() == text and again == module and hash(again) == hash(module)
    assert Module.from_graph(again.graph).text() == text
    assert pb.ir.fingerprint(again) == pb.ir.fingerprint(graph)
    canonical = pb.ir.canonicalise(again)
    assert pb.ir.canonicalise(pb.ir.parse(canonical.text())) == canonical
    assert pb.ir.fingerprint(canonical) == pb.ir.fingerprint(graph)
    return again


@each(SAMPLED)
def test_every_op_reads_back(name):
    for op, arrays in TABLE[name].samples():
        graph = testing.graph_of(op, [np.asarray(a) for a in arrays])
        module = read_back(graph)
        assert module.graph.outputs[0].type == graph.outputs[0].type
        node = next(n for n in module.graph.nodes if n.op.name == name)
        if name == "Slice":  # its bounds are printed clamped to the operand
            op = op.inside(graph.inputs[0].type)
        lines = any(n.op.fallible for n in graph.nodes)
        assert lines or node.op is op, "ops are interned: an equal one is the same"


@each(SAMPLED)
def test_every_op_reads_back_from_keywords(name):
    """Each parameter may be given by name, also if it is printed as positional."""
    for op, arrays in list(TABLE[name].samples())[:2]:
        graph = testing.graph_of(op, [np.asarray(a) for a in arrays])
        module = Module.from_graph(graph)
        line = module.instructions[-1]
        if line.literal is None:
            positional = [k for k in op.text.positional if k in line.parameters]
            named = line._replace(
                op=name, problem=TraceError("not bound"), parameters=line.parameters
            )
            stated = Module([*module.instructions[:-1], named], module.outputs, module.profile)
            assert all(f"{k}: " in stated.text() for k in positional)
            assert pb.ir.parse(stated.text()) == module


def test_core_content_prints_as_the_graph_does():
    graph = pb.trace(lambda x, w: pb.relu(x @ w).sum(), pb.ones((2, 3)), pb.ones((3, 4))).graph
    module = Module.from_graph(graph)
    assert module.profile == "core-v1" and module.text() == str(graph) == repr(module)


def loop(x):
    total, rows = pb.scan(lambda c, row: (c + row, pb.sin(row) * c), x[0], x)
    return pb.cond(total.sum() > 0, lambda t: t * 2, lambda t: -t, total), rows


def searched(x):
    return pb.while_loop(lambda c: c.sum() < 100, lambda c: c * 2 + x[0], x)


def picked(x):
    return pb.switch(pb.argmax(x[0]), [lambda y: y[[0, 1]], lambda y: y[::-1], lambda y: y[:2]], x)


def drawn(x):
    key = pb.random.key(3)
    return pb.random.normal(key, (2, 3)) * x + pb.random.uniform(pb.random.split(key)[0], (3,))


def spread(x):
    return pb.vmap(lambda r: r / pb.psum(r, "rows"), axis_name="rows")(x)


def nested(x):
    inner = pb.compile(lambda y: pb.fori_loop(0, 3, lambda i, c: c * y + i, y))
    return pb.scan(lambda c, row: (c, pb.map(lambda v: v * c, inner(row))), x.sum(), x)[1]


def held(x):
    return pb.checkpoint(lambda y: pb.sin(y) @ y.T)(x) + pb.stop_gradient(x.sum())


@pytest.mark.parametrize("f", [loop, searched, picked, drawn, spread, nested, held])
def test_traces_read_back_and_compute_the_same(f):
    x = pb.tensor(np.arange(6, dtype=np.float32).reshape(2, 3) / 4 - 0.3)
    graph = pb.trace(f, x).graph
    module = read_back(graph)
    values = [np.asarray(x)]
    rest = [np.zeros(i.type.shape, i.type.dtype.numpy) for i in graph.inputs[1:]]
    for a, b in zip(testing.run(graph, [*values, *rest]),
                    testing.run(module.graph, [*values, *rest]), strict=True):  # fmt: skip
        assert a.tobytes() == b.tobytes()


def test_gradients_of_traces_read_back():
    gradient = pb.grad(lambda x: pb.scan(lambda c, r: (pb.tanh(c * r), None), x[0], x)[0].sum())
    read_back(pb.trace(gradient, pb.ones((4, 3))).graph)


def test_inner_graphs_are_nested_functions_on_lines_of_their_own():
    text = Module.from_graph(pb.trace(lambda x: pb.map(lambda r: -r, x), pb.ones(2)).graph).text()
    assert text == (
        "profile: extended\n"
        '%0 = Input() {name: "x"} : Tensor<f32, [2]>\n'
        "%1 = Scan(%0) {body: graph(\n"
        '  %0 = Input() {name: "x0"} : Tensor<f32, []>\n'
        "  %1 = Neg(%0) : Tensor<f32, []>\n"
        "  outputs: %1\n"
        "), carries: 0, scanned: 1, length: 2} : Tensor<f32, [2]>\n"
        "outputs: %1"
    )
    one_line = text.replace("(\n  ", "(").replace("\n  ", "; ").replace("\n)", ")")
    assert pb.ir.parse(one_line) == pb.ir.parse(text)


def test_python_objects_cannot_be_written_and_the_error_names_the_line():
    @pb.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda kept, g: (g,))
    traced = pb.trace(lambda x: f(x) + 1, pb.ones(2))
    with pytest.raises(TraceError, match=r"cannot be written as text.*test_roundtrip\.py:\d+"):
        Module.from_graph(traced.graph)
    x = source(2)
    with pytest.raises(TraceError, match="marked"):
        Module.from_graph(Graph([x], [Marked(3)(x)]))  # not in the table


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_constants_of_every_dtype_read_back_bit_for_bit(dtype):
    bits = np.random.default_rng(1).integers(0, 256, (40, dtype.numpy.itemsize), np.uint8)
    if dtype is dtypes.bool_:
        bits &= 1
    data = bits.tobytes()
    for shape in ((40,), (2, 4, 5), (40, 1)):
        op = Const(dtype, shape, data)
        (node,) = read_back(Graph([], [op()])).graph.nodes
        assert node.op is op
    for shape in ((0,), (2, 0), (0, 3), (2, 0, 3)):
        op = Const(dtype, shape, b"")
        assert read_back(Graph([], [op()])).graph.nodes[0].op is op
    scalar = Const(dtype, (), data[: dtype.numpy.itemsize])
    assert read_back(Graph([], [scalar()])).graph.nodes[0].op is scalar


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, -math.inf, math.nan, 1e-45, 16777217.0])
def test_scalar_floats_read_back(value):
    for name in ("f16", "bf16", "f32", "f64"):
        dtype = dtypes.dtype(name)
        with np.errstate(all="ignore"):
            data = np.asarray(value).astype(dtype.numpy).tobytes()
        op = Const(dtype, (), data)
        assert read_back(Graph([], [op()])).graph.nodes[0].op is op


def test_flat_lists_and_other_forms_of_literals():
    forms = ["[[1, 2], [3, 4]]", "[1, 2, 3, 4]", "[[1.0, 2e0], [+3, 4.,],]", "[\n1, 2,\n\n3, 4]"]
    made = {pb.ir.parse(f"%0 = ConstTensor({f}) : Tensor<f32, [2, 2]>\noutputs: %0") for f in forms}
    assert len(made) == 1
    assert "ConstTensor([[1.0, 2.0], [3.0, 4.0]])" in made.pop().text()


def test_inputs_with_the_same_name_get_different_names():
    x, y, z = source(2, name="x"), source(2, name="x"), source(2, name="x_1")
    module = Module.from_graph(Graph([x, y, z], [x * y * z]))
    assert list(module.graph.names) == ["x", "x_1", "x_1_1"]


def test_modules_are_frozen_and_compare_by_their_text():
    module = Module.from_graph(Graph([x := source(2)], [-x]))
    with pytest.raises(AttributeError, match="frozen"):
        module.profile = "extended"
    assert module != module.text() and len({module, pb.ir.parse(module.text())}) == 1
    assert module.values[1].op.name == "Neg" and module.values[0] is module.graph.inputs[0]
    with pytest.raises(pb.PullbackError, match="profile"):
        Module([], [], "core-v2")


def test_an_op_may_be_a_parameter():
    class Twice(pb.Op):
        op: pb.Op
        times: tuple[float, ...] = ()

        def infer(self, x):
            return self.op.infer(self.op.infer(x))

    try:
        x = source(2, 3, 4)
        graph = Graph([x], [Twice(TABLE["Sum"]((0,), False), (0.5, -0.0))(x)])
        module = read_back(graph)
        written = "Twice(%0) {op: Sum() {axes: [0], keepdims: false}, times: [0.5, -0.0]}"
        assert written in module.text()
        assert module.graph.outputs[0].op is graph.outputs[0].op
    finally:
        del TABLE["Twice"]


def test_equal_loops_are_equal_wherever_they_are_written():
    def both(change):
        body = (
            '%0 = Input() {name: "a"} : Tensor<f32, []>\n%1 = Input() {name: "b"} : '
            "Tensor<f32, []>\n%2 = BinOp(Add, %0, %1) : Tensor<f32, []>\noutputs: %2"
        )
        call = '%{} = Call(%0, %0) {{label: "f", graph: graph({})}} : Tensor<f32, []>\n'
        return pb.ir.parse(
            'profile: extended\n%0 = Input() {name: "x"} : Tensor<f32, []>\n'
            + call.format(1, body) + call.format(2, change(body)) + "outputs: %1, %2"
        )  # fmt: skip

    plain = pb.ir.canonicalise(both(lambda body: body))
    assert plain.text().endswith("outputs: %1, %1")
    for change in (
        lambda body: body.replace('"a"', '"c"').replace("%2", "%7"),
        lambda body: body.replace("%0, %1)", "%1, %0)"),
        lambda body: body.replace("\n%2", "; %3 = Exp(%0) : Tensor<f32, []>\n%2"),
        lambda body: body.replace("outputs: %2", "%4 = %2\noutputs: %4"),
    ):
        module = both(change)
        assert pb.ir.canonicalise(module).text().endswith("outputs: %1, %1")
        assert pb.ir.fingerprint(module) == pb.ir.fingerprint(plain)


# -- types on a mesh -----------------------------------------------------------------------------

MESH = pb.DeviceMesh((2, 4), ("dp", "tp"))
AXES = '[["dp", 2], ["tp", 4]]'


@pytest.mark.parametrize(
    ("mesh", "spec", "text"),
    [
        (MESH, pb.P("dp", "tp"), f'mesh: {AXES}, spec: ["dp", "tp"]'),
        (MESH, pb.P(), f"mesh: {AXES}, spec: []"),
        (MESH, pb.P(None, ("tp", "dp")), f'mesh: {AXES}, spec: [[], ["tp", "dp"]]'),
        (
            MESH, pb.P("dp", replicated="tp", priority=2),
            f'mesh: {AXES}, spec: ["dp"], replicated: ["tp"], priority: [2]',
        ),
        (
            pb.DeviceMesh(2, "x", [3, 1]), pb.P("x"),
            'mesh: [["x", 2]], spec: ["x"], devices: [3, 1]',
        ),
        (pb.DeviceMesh((), ()), pb.P(), "mesh: [], spec: []"),
    ],
)  # fmt: skip
def test_shardings_print_short_and_read_back(mesh, spec, text):
    x = placeholder("x", pb.Type((8, 8), pb.float32, pb.Sharding(mesh, spec)))
    program = read_back(Graph([x], [x], ["x"])).text()
    assert f"Tensor<f32, [8, 8], {text}>" in program
    assert pb.ir.parse(program).graph.inputs[0].type is x.type
    long = program.replace(text, f"sharding: {literal_text(x.type.sharding.plain)}")
    assert pb.ir.parse(long).text() == program


@pytest.mark.parametrize(
    "fields",
    [
        'spec: ["dp"]', "mesh: 3", 'mesh: [["dp", 2]], mesh: [["dp", 2]]', "nothing: 3",
        'mesh: [["dp", 2]], spec: ["dp", "dp"]', 'mesh: [["dp", 2]], devices: [0, 0]',
        'mesh: [["dp", 2]], sharding: [1]', 'mesh: [["dp", 99999999999]]',
    ],
)  # fmt: skip
def test_bad_shardings_are_refused(fields):
    with pytest.raises(ParseError, match=r"\(line 2, column \d+\)"):
        pb.ir.parse(
            f'profile: extended\n%0 = Input() {{name: "x"}} : Tensor<f32, [8, 4], {fields}>\n'
            "outputs: %0\n"
        )
