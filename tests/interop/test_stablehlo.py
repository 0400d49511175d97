"""Round trips through StableHLO: names, order, bytes, bits and fingerprints."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback import testing
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla import builder, mlir
from pullback.errors import VerificationError
from pullback.graph.graph import Graph
from pullback.graph.op_table import TABLE
from pullback.ops.collective.all_reduce import Collective

OPS = [n for n in sorted(TABLE) if not issubclass(TABLE[n], Collective)]


def samples(names):
    for name in names:
        for op, arrays in TABLE[name].samples():
            arrays = [np.asarray(a) for a in arrays]
            yield op, arrays, testing.graph_of(op, arrays)


def round_trip(graph, portable=True):
    """The module read from a graph's StableHLO; text and bytes agree, and are stable."""
    text = pb.ir.to_stablehlo(graph)
    module = pb.ir.from_stablehlo(text)
    assert pb.ir.to_stablehlo(module) == text
    if portable:
        data = pb.ir.to_stablehlo(graph, portable=True)
        assert pb.ir.from_stablehlo(data) == module
        assert pb.ir.to_stablehlo(module, portable=True) == data
    pb.ir.verify(module)
    assert tuple(i.name for i in module.instructions if i.op == "Input") == graph.names
    return module


LARGE = 500  # instructions: of programs with more, such as those of samplers, one is enough


def returned(name):
    """An op's samples, each with the module that was read back."""
    found = []
    for i, (_, arrays, graph) in enumerate(samples([name])):
        module = round_trip(graph, portable=i < 2)
        found.append((arrays, graph, module))
        if len(module.instructions) > LARGE:
            break
    return found


def same_bits(graph, module, arrays):
    """Whether XLA computes the same; it runs both unless they are the same program to it."""
    if builder.build_xla_module(graph) == builder.build_xla_module(module.graph):
        return True
    xla = registered_engine("xla")
    # The text of a program has no kernels.
    want, got = (testing.run(g, arrays, xla, kernels=False) for g in (graph, module.graph))
    return [v.tobytes() for v in want] == [v.tobytes() for v in got]


def same_bits_together(graph, module, arrays):
    """As `same_bits`, but one program computes both: XLA compiles what they share only once."""
    if builder.build_xla_module(graph) == builder.build_xla_module(module.graph):
        return True
    both = Graph(graph.inputs, [*graph.outputs, *module.graph(*graph.inputs)])
    values = [
        v.tobytes() for v in testing.run(both, arrays, registered_engine("xla"), kernels=False)
    ]
    return values[: len(graph.outputs)] == values[len(graph.outputs) :]


# Ops whose samples all keep their fingerprints, and of others how many samples do.
ONE_TO_ONE = {
    "Abs", "Alias", "Barrier", "Case", "Cbrt", "Ceil", "Cholesky", "Concat", "Const",
    "ConvolutionBy", "Cos", "Eig", "Eigh", "Eigvals", "EigvalsH", "Exp", "Expm1", "Floor",
    "GatherBlocks", "LU", "Log", "Log1p", "LogicalNot", "Logistic", "Neg",
    "OptimizationBarrier", "Pad", "PopulationCount", "QR", "ReduceWindow", "Reshape", "Round",
    "Rsqrt", "SVD", "ScatterBlocks", "Sign", "Sin", "SingularValues", "Slice", "SliceAt",
    "SortBy", "Tan", "Tanh", "Transpose", "TriangularSolve", "UpdateAt", "While",
}  # fmt: skip
KEPT = {
    "Add": 2, "All": 3, "Any": 3, "Atan2": 2, "Bitcast": 6, "BitwiseAnd": 3, "BitwiseNot": 2,
    "BitwiseOr": 3, "BitwiseXor": 3, "Broadcast": 1, "BroadcastInDim": 3, "Cast": 63,
    "Complex": 1, "Conv2d": 3, "Convolution": 5, "Direct": 3, "Div": 2, "Dot": 6,
    "DotGeneral": 5, "Equal": 2, "Fft": 2, "Flip": 3, "Greater": 2, "GreaterEqual": 2,
    "Imag": 1, "Iota": 4, "Irfft": 3, "IsFinite": 3, "Less": 2, "LessEqual": 2, "MatMul": 6,
    "Mul": 2, "NotEqual": 2, "Pow": 2, "Prod": 7, "Real": 1, "Reduce": 2, "Rem": 2, "Rfft": 3,
    "ShiftRightLogical": 1, "Sqrt": 4, "Sub": 2, "Sum": 6,
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_every_sample_round_trips(name):
    found = returned(name)
    kept = [pb.ir.fingerprint(graph) == pb.ir.fingerprint(module) for _, graph, module in found]
    assert all(kept) if name in ONE_TO_ONE else sum(kept) >= KEPT.get(name, 0)
    for arrays, graph, module in found[:2]:
        pairs = zip(testing.run(graph, arrays), testing.run(module.graph, arrays), strict=True)
        for want, got in pairs:
            testing.assert_close(got, want, scale=10)
    # The others, and each program by itself: tests/long/stablehlo_bits.py
    for arrays, graph, module in found[:1]:
        if len(module.instructions) <= LARGE:
            assert same_bits_together(graph, module, arrays)


# -- fingerprints ---------------------------------------------------------------------------------

# Core v1 on operands of the same shape, without the exceptions in docs/interop.md.
CORE = """
%0 = Input() {name: "x"} : Tensor<f32, [2, 3]>
%1 = Input() {name: "w"} : Tensor<f32, [3, 4]>
%2 = Input() {name: "v"} : Tensor<f32, [4]>
%3 = Input() {name: "image"} : Tensor<f64, [1, 4, 4, 2]>
%4 = Input() {name: "filter"} : Tensor<f64, [3, 3, 2, 5]>
%5 = MatMul(%0, %1) : Tensor<f32, [2, 4]>
%6 = Exp(%5) : Tensor<f32, [2, 4]>
%7 = BinOp(Add, %5, %6) : Tensor<f32, [2, 4]>
%8 = BinOp(Sub, %7, %6) : Tensor<f32, [2, 4]>
%9 = BinOp(Mul, %8, %7) : Tensor<f32, [2, 4]>
%10 = BinOp(Div, %9, %6) : Tensor<f32, [2, 4]>
%11 = Dot(%10, %2) : Tensor<f32, [2]>
%12 = Neg(%11) : Tensor<f32, [2]>
%13 = Log(%6) : Tensor<f32, [2, 4]>
%14 = Sum(%13, [0, 1], false) : Tensor<f32, []>
%15 = ConstF32(0.5) : Tensor<f32, []>
%16 = BinOp(Mul, %14, %15) : Tensor<f32, []>
%17 = Transpose(%13, [1, 0]) : Tensor<f32, [4, 2]>
%18 = Reshape(%17, [8]) : Tensor<f32, [8]>
%19 = Slice(%18, [1:7:2]) : Tensor<f32, [3]>
%20 = Conv2d(%3, %4) {strides: [1, 1], padding: Same} : Tensor<f64, [1, 4, 4, 5]>
%21 = ConstTensor([1.0, 2.0, 3.0]) : Tensor<f32, [3]>
%22 = BinOp(Add, %19, %21) : Tensor<f32, [3]>
outputs: %22, %12, %16, %20
"""


def test_core_instructions_that_are_one_to_one_keep_the_fingerprint():
    module = pb.ir.parse(CORE)
    back = round_trip(module.graph)
    assert pb.ir.fingerprint(back) == pb.ir.fingerprint(module)
    assert back.profile == "core-v1"


# -- programs -------------------------------------------------------------------------------------


def perceptron(x, w, v):
    return pb.sum(pb.tanh(x @ w) @ v)


def gradients(x, w, v):
    return pb.grad(perceptron, argnums=(0, 1, 2))(x, w, v)


def recurrent(x, w):
    def step(carry, row):
        new = pb.tanh(carry @ w + row)
        return new, pb.sum(new)

    return pb.scan(step, pb.zeros_like(x[0]), x)


def branches(x, w):
    return pb.cond(pb.sum(x) > 0, lambda: x @ w, lambda: x - 1.0)


def images(x, w):
    return pb.grad(lambda w: pb.sum(pb.conv2d(x, w) ** 2))(w)


def drawn(x):
    return x + pb.random.normal(pb.random.key(7), (3, 4))


def lookup(x):
    return (
        pb.sort(x, axis=1)[pb.tensor([2, 0, 0])],
        pb.cumulative_sum(x, axis=0),
        pb.argmax(x, axis=1),
    )


def real(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("f", "arrays"),
    [
        (perceptron, [real(2, 3), real(3, 4), real(4)]),
        (gradients, [real(2, 3), real(3, 4), real(4)]),
        (recurrent, [real(5, 3), real(3, 3)]),
        (branches, [real(3, 3), real(3, 3)]),
        (images, [real(1, 5, 5, 2), real(3, 3, 2, 4)]),
        (drawn, [real(3, 4)]),
        (lookup, [real(3, 4)]),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_programs_give_the_same_bits(f, arrays):
    graph = pb.trace(f, *map(pb.tensor, arrays)).graph
    given = dict(zip(graph.names, arrays, strict=False))
    captured = [np.zeros(x.type.shape, x.type.dtype.numpy) for x in graph.inputs]
    values = [given.get(n, c) for n, c in zip(graph.names, captured, strict=True)]
    module = round_trip(graph)
    assert same_bits(graph, module, values)


def test_a_program_that_was_read_can_be_differentiated():
    graph = pb.trace(perceptron, *map(pb.tensor, (real(2, 3), real(3, 4), real(4)))).graph
    back = round_trip(graph).graph
    arrays = [a.astype(np.float64) for a in (real(2, 3), real(3, 4), real(4))]
    wide = pb.trace(perceptron, *map(pb.tensor, arrays)).graph
    testing.check_derivatives(pb.ir.from_stablehlo(pb.ir.to_stablehlo(wide)).graph, arrays, order=1)
    assert [y.type.shape for y in back.outputs] == [()]


def test_names_and_order_survive():
    x, y = (TABLE["Input"](name, (2,), pb.float32)() for name in ('a "b"\\\n', "ß"))
    graph = pb.ir.Module.from_graph(type(pb.trace(lambda: pb.ones(1)).graph)((x, y), (y, x, y)))
    for portable in (False, True):
        back = pb.ir.from_stablehlo(pb.ir.to_stablehlo(graph, portable=portable))
        assert back.graph.names == ('a "b"\\\n', "ß")
        assert back.outputs == (1, 0, 1)


def test_only_stablehlo_attributes_are_written():
    graph = pb.trace(recurrent, pb.tensor(real(5, 3)), pb.tensor(real(3, 3))).graph
    text = pb.ir.to_stablehlo(graph)
    assert "jax." not in text and "mhlo." not in text and "custom_call" not in text


# -- errors ----------------------------------------------------------------------------------------

MODULE = """module {{
  func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {{
    {line}
    return %0 : tensor<2xf32>
  }}
}}
"""


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('%0 = stablehlo.custom_call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>', "custom_call"),
        ('%0 = "stablehlo.all_reduce"(%x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): '
         '"stablehlo.return"(%a) : (tensor<f32>) -> () }) {replica_groups = dense<[[0]]> : '
         'tensor<1x1xi64>} : (tensor<2xf32>) -> tensor<2xf32>', "all_reduce"),
        ("%0 = func.call @main(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "call"),
    ],
)  # fmt: skip
def test_an_unsupported_instruction_is_named_with_its_place(line, what):
    with pytest.raises(pb.PullbackError, match=rf"{what} at line 3, column \d+") as caught:
        pb.ir.from_stablehlo(MODULE.format(line=line))
    assert caught.value.code == "E6003"


def test_functions_that_double_at_each_call_are_refused(monkeypatch):
    monkeypatch.setattr(mlir, "MOST", 1000)
    last, t = 40, "tensor<2xf32>"
    head = "func.func {}(%x: {t}) -> {t} {{\n"
    lines = [head.format("private @f" + str(last), t=t), f"%0 = stablehlo.add %x, %x : {t}\n"]
    lines.append(f"return %0 : {t}\n}}\n")
    for k in reversed(range(last)):
        lines.append(head.format("@main" if k == 0 else f"private @f{k}", t=t))
        lines += [f"%{i} = call @f{k + 1}(%x) : ({t}) -> {t}\n" for i in (0, 1)]
        lines.append(f"return %1 : {t}\n}}\n")
    with pytest.raises(pb.PullbackError, match=r"func.call at line .*") as caught:
        pb.ir.from_stablehlo("module {\n" + "".join(lines) + "}\n")
    assert "more than 1,000" in caught.value.hint


def test_invalid_stablehlo_is_an_error_with_its_place():
    with pytest.raises(pb.PullbackError) as caught:
        pb.ir.from_stablehlo(MODULE.format(line="%0 = stablehlo.add %x, %z : tensor<2xf32>"))
    assert (caught.value.line, caught.value.source.strip()[:4]) == (3, "%0 =")
    for bad in ("", "module {", b"\xff\xfe", b"ML\xefR no bytecode"):
        with pytest.raises(pb.PullbackError):
            pb.ir.from_stablehlo(bad)


FOREIGN = """
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: M, %arg1: tensor<3x3xf32>) -> (M {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0],
        precision = [DEFAULT, DEFAULT] : (M, tensor<3x3xf32>) -> M
    %1 = call @relu(%0) : (M) -> M
    %2 = call @doubled(%1) : (M) -> M
    %3 = chlo.square %2 : M -> M
    %4 = stablehlo.iota dim = 1 : M
    %5 = stablehlo.add %3, %4 : M
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %6 = stablehlo.slice %arg1 [0:1, 0:1] : (tensor<3x3xf32>) -> tensor<1x1xf32>
    %7 = stablehlo.reshape %6 : (tensor<1x1xf32>) -> tensor<f32>
    %8 = stablehlo.compare GT, %7, %cst : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %9 = stablehlo.select %8, %5, %arg0 : tensor<i1>, M
    return %9 : M
  }
  func.func private @relu(%arg0: M) -> M {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> M
    %1 = stablehlo.maximum %arg0, %0 : M
    return %1 : M
  }
  func.func private @doubled(%arg0: M) -> M {
    %0 = call @relu(%arg0) : (M) -> M
    %1 = stablehlo.convert %0 : M
    %2 = stablehlo.add %1, %0 : M
    return %2 : M
  }
}
""".replace("M", "tensor<2x3xf32>")


def test_a_program_of_another_writer_is_rewritten():
    """With functions, precisions, and forms that are never written."""
    module = pb.ir.from_stablehlo(FOREIGN)
    text = pb.ir.to_stablehlo(module)
    again = pb.ir.from_stablehlo(text)
    assert pb.ir.to_stablehlo(again) == text
    assert pb.ir.fingerprint(again) == pb.ir.fingerprint(module)
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    w = np.eye(3, dtype=np.float32)[::-1].copy()
    for chosen in (0, 1):
        w[0, 0] = chosen
        expected = (2 * np.maximum(x @ w, 0)) ** 2 + np.arange(3) if chosen else x
        for name in ("xla", "reference"):
            feed = dict(zip(module.graph.names, (x, w), strict=True))
            np.testing.assert_array_equal(pb.ir.run(module, feed, engine=name)[0], expected)


def test_the_error_shows_why_an_instruction_cannot_be_read():
    line = (
        "%1 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<2xf32>, tensor<2xf32>) "
        "-> tensor<2xi1>\n%0 = stablehlo.select %1, %x, %y : tensor<2xi1>, tensor<2xf32>"
    )
    with pytest.raises(pb.PullbackError, match="compare at line 3") as caught:
        pb.ir.from_stablehlo(MODULE.format(line=line))
    assert "f32[2], f32[2] with" in caught.value.hint and "TOTALORDER" in caught.value.hint


def test_recursive_functions_are_refused():
    function = (
        "func.func @{name}(%x: tensor<f32>) -> tensor<f32> {{\n"
        "%0 = call @{other}(%x) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32> }}\n"
    )
    calls = {"main": "f", "f": "g", "g": "f"}
    text = "".join([function.format(name=n, other=o) for n, o in calls.items()])
    with pytest.raises(pb.PullbackError, match="call at line 8") as caught:
        pb.ir.from_stablehlo(text)
    assert caught.value.code == "E6003"


def test_dynamic_shapes_and_programs_without_a_main_are_refused():
    with pytest.raises(pb.PullbackError, match="a function main, got g"):
        pb.ir.from_stablehlo("func.func @g() { return }")
    with pytest.raises(pb.PullbackError, match=r"tensor<\?xf32>"):
        pb.ir.from_stablehlo("func.func @main(%x: tensor<?xf32>) { return }")


def test_the_same_bytes_in_every_process():
    code = (
        "import pullback as pb, hashlib; t = pb.trace(lambda x: pb.softmax(x @ x) * 2,"
        " pb.ones((3, 3))).graph; print(hashlib.sha256(pb.ir.to_stablehlo(t, portable=True)"
        " + pb.ir.to_stablehlo(t).encode()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1] and len(runs[0]) == 65


NESTED = {
    "modules": lambda n: "module {" * n + "}" * n,
    "generic": lambda n: '"builtin.module"() ({' * n + "}) : () -> ()" * n,
    "lists": lambda n: "module attributes {a.b = " + "[" * n + "]" * n + "} {}",
    "dictionaries": lambda n: "module attributes {a.b = " + "{c = " * n + "1" + "}" * n + "} {}",
    "types": lambda n: "module attributes {a.b = " + "tuple<" * n + ">" * n + "} {}",
    "locations": lambda n: "module {} loc(" + "fused[" * n + '"x"' + "]" * n + ")",
    "signs": lambda n: "module attributes {a.b = affine_map<(d) -> (" + "- " * n + "d)>} {}",
    "aliases": lambda n: "\n".join([
        "#a0 = [1]", *[f"#a{i + 1} = [#a{i}]" for i in range(n)],
        f"module attributes {{a.b = #a{n}}} {{}}"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", NESTED)
def test_text_that_is_nested_too_deep_is_refused(kind):
    for depth in (1000, 50_000):
        with pytest.raises(VerificationError, match="nested deeper than 300 levels"):
            pb.ir.from_stablehlo(NESTED[kind](depth))


def test_brackets_in_strings_and_comments_are_no_nesting():
    text = pb.ir.to_stablehlo(pb.trace(lambda x: x + 1, pb.tensor([1.0])).graph)
    comment, named = "// " + "{" * 1000 + "\n", 'loc("' + "(" * 1000 + '")'
    again = pb.ir.from_stablehlo(comment + text.replace('loc("x")', named))
    assert again.graph.names == ("(" * 1000,)
