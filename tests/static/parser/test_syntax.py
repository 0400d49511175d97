"""The grammar: lenient forms, syntax errors with their places, profiles, the error catalogue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ir_fuzz import survives
from ir_texts import X, fails, input_line

import pullback as pb
from pullback import testing
from pullback.graph.graph import Graph
from pullback.graph.op_table import TABLE
from pullback.ops.elementwise.guarded import Guarded
from pullback.ops.prelude import ones
from pullback.static.catalogue import CATALOGUE
from pullback.static.module import IRModule as Module
from pullback.static.profiles import PROFILES
from pullback.transforms.reverse import gradients

EXTENDED = "profile: extended\n"


def same(*texts: str) -> str:
    """The standard layout of texts."""
    printed = {pb.ir.parse(t).text() for t in texts}
    assert len(printed) == 1, printed
    return printed.pop()


def test_lenient_forms_have_one_printed_form():
    text = same(
        X + "%1 = Sum(%0, [1], true) : Tensor<f32, [2, 1]>\noutputs: %1",
        X + "%1 = Sum(%0, axes=[1], keepdims=true) : tensor<f32[2, 1]>\noutputs: %1",
        X + "%1=Sum(%0,[1,],true,):Tensor<f32,[2,1,]>;outputs:%1,",
        X + "%1 = Sum(%0) {axes: [1], keepdims: true,} : Tensor<float32, [2, 1]>\noutputs: %1",
        X.replace(": ", " = ", 1) + "%1 = Sum(\n  %0,\n  [1],\n  keepdims = true\n) : "
        "Tensor <f32, [2, 1]> # a comment \"\noutputs: %1\n\n# the end",
        "\n\r\n" + X.replace("\n", "\r\n") + "inputs: %0\n%01 = Sum(%0, [1], true) : "
        "Tensor<f32, [2, 1]>\r\noutputs: %1\r\n",
    )  # fmt: skip
    assert text.splitlines()[1] == "%1 = Sum(%0, [1], true) : Tensor<f32, [2, 1]>"
    for name in ("Add", "Sub", "Mul", "Div"):
        form = X + "%1 = {} : Tensor<f32, [2, 3]>\noutputs: %1"
        bare, binary = f"{name}(%0, %0)", f"BinOp({name}, %0, %0)"
        assert binary in same(form.replace("{}", bare), form.replace("{}", binary))


def test_parameters_may_be_given_as_keys():
    form = X + "%1 = {} : Tensor<f32, {}>\noutputs: %1"

    def of(application, shape):
        return form.replace("{}", application, 1).replace("{}", str(shape), 1)

    for forms, shape in (
        (("Reshape(%0, [6])", "Reshape(%0, new_shape=[6])", "Reshape(%0) {shape: [6]}"), [6]),
        (("Transpose(%0, [1, 0])", "Transpose(%0, permutation=[1, 0])"), [3, 2]),
        (("Slice(%0, [0:1:1, 0:3:2])", "Slice(%0, ranges = [0:1, 0:3:2])"), [1, 2]),
        (("BinOp(Sub, %0, %0)", "BinOp(%0, %0, op=Sub)", "BinOp(%0, %0) {op: Sub}"), [2, 3]),
    ):  # fmt: skip
        same(*[of(f, shape) for f in forms])
    lists = of("Slice(%0, starts=[0, 0], ends=[1, 3], steps=[1, 2])", [1, 2])
    ranges = of("Slice(%0, [0:1:1, 0:3:2])", [1, 2])
    assert pb.ir.canonicalise(pb.ir.parse(lists)).text() == ranges
    assert survives(lists) == "module"
    same("%0 = ConstF32(0.5) : Tensor<f32, []>\noutputs: %0",
         "%0 = ConstF32() {value: 0.5} : Tensor<f32, []>\noutputs: %0")  # fmt: skip
    for wrong in ("BinOp(Pow, %0, %0)", "BinOp(%0, %0)", "BinOp(Add, %0, %0, op=Add)"):
        fails("E6003", of(wrong, [2, 3]))


def test_a_copy_may_state_its_type():
    text = same(X + "%1 = %0\noutputs: %1", X + "%1 = %0 : Tensor<f32, [2, 3]>\noutputs: %1")
    assert "%1 = %0 : Tensor<f32, [2, 3]>" in text
    fails("E2001", X + "%1 = %0 : Tensor<f32, [3, 2]>\noutputs: %1")
    fails("E4001", X + "%1 = %7\noutputs: %1", used=7)


def test_escapes_in_strings():
    name = 'a "b"\n\r\t\\ ü # %0'
    written = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    written = written.replace("\r", "\\r").replace("\t", "\\t")
    module = pb.ir.parse(f'%0 = Input() {{name: "{written}"}} : Tensor<f32, [2]>\noutputs: %0')
    assert module.graph.names == (name,) and pb.ir.parse(module.text()) == module


def test_a_byte_order_mark_in_front_does_not_count():
    text = "\ufeff" + X + "outputs: %0"
    assert same(text, X + "outputs: %0") == pb.ir.parse(text.encode()).text()
    for given in ("\ufeff@", b"\xef\xbb\xbf\xff"):
        with pytest.raises(pb.PullbackError) as caught:
            pb.ir.parse(given)
        assert (caught.value.line, caught.value.column) == (1, 1)
    with pytest.raises(pb.PullbackError, match="ufeff"):
        pb.ir.parse(X + "\ufeffoutputs: %0")


def test_arguments_that_are_not_text_or_modules():
    with pytest.raises(pb.PullbackError, match=r"parse: takes a str .* got PosixPath .test_sy"):
        pb.ir.parse(Path("model.ir"))
    text = X + "outputs: %0"
    graph = pb.ir.parse(text).graph
    for name in ("verify", "canonicalise", "fingerprint", "autodiff", "run", "to_function",
                 "to_stablehlo"):  # fmt: skip
        with pytest.raises(pb.PullbackError, match=f"{name}: needs a Module, got str") as caught:
            getattr(pb.ir, name)(text)
        assert caught.value.hint == "pb.ir.parse reads one." and caught.value.where
    with pytest.raises(pb.PullbackError, match="got Graph") as caught:
        pb.ir.canonicalise(graph)
    assert "from_graph" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        (b'%0 = Input() {name: "\xff"} : Tensor<f32, [2]>', "E1001", 1, 22),
        ('\n%0 = Input() {name: "\ud800"} : Tensor<f32, [2]>', "E1001", 2, 22),
        ("\n  %0 = @", "E1002", 2, 8), ("%0 = Input() {name: \u2028", "E1002", 1, 21),
        ('%0 = Input() {name: "x', "E1003", 1, 21), ('%0 = Input() {name: "x\\', "E1003", 1, 21),
        ('%0 = Input() {name: "x\n"}', "E1003", 1, 21),
        ('%0 = Input() {name: "a\\q"}', "E1004", 1, 23),
        ("%0 = ConstF32(1.2.3)", "E1005", 1, 15), ("%0 = ConstF32(12ab)", "E1005", 1, 15),
        ("%0 = ConstF32(1e999)", "E1005", 1, 15), ("%0 = ConstF32(1e)", "E1005", 1, 15),
        (f"%0 = ConstI64({'9' * 5000})", "E1005", 1, 15), ("%0 = ConstI64(-99999999999999999999)",
         "E1005", 1, 15), ("%0 = ConstF32(nan(1))", "E1005", 1, 19),
        (f"%{'9' * 30} = ConstI64(1)", "E1005", 1, 1), (X + "%1 = Neg(%0)", "syntax", 2, 13),
        ('%0 = Input() {name: "x"} : Tensor<f32, [99999999999999999999]>', "E1005", 1, 28),
        ('%0 = Input() {name: "x"} : Tensor<f33, [2]>', "syntax", 1, 28),
        ("", "syntax", 1, 1), (X, "syntax", 2, 1), (X + "outputs: %0\n%1", "syntax", 3, 1),
        (X + "outputs: 3", "syntax", 2, 10), (X + "outputs %0", "syntax", 2, 9),
        ("profile: best\n", "syntax", 1, 10), (X + "profile: extended", "syntax", 2, 1),
        (X + "%1 = Neg(%0 %0) : Tensor<f32, [2, 3]>", "syntax", 2, 13),
        (X + "%1 = Neg(%0) {a: 1, a: 2}", "syntax", 2, 21), ("%0 = 3", "syntax", 1, 6),
        (X + "%1 = Neg(%0) : Tensor<f32, [2, 3]> %2", "syntax", 2, 36),
        (X + "%1 = Foo(%0, [" + "[" * 100, "syntax", 2, 79),
        (X + "%1 = Foo(%0) {a: graph(%0)}", "syntax", 2, 26),
        (X + "%1 = Foo(%0) {a: Bar(%0)}", "syntax", 2, 18),
        (X + "%1 = Foo(%0, (1, 2, 3))", "syntax", 2, 22),
    ],
)  # fmt: skip
def test_bad_syntax_has_a_place(text, code, line, column):
    with pytest.raises(pb.PullbackError) as caught:
        pb.ir.parse(text)
    error = caught.value
    assert (error.code, error.line, error.column) == (code, line, column), error
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    assert text.split("\n")[line - 1].startswith(error.source)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("E6001", "Unpack(%0) {word: 2, dtype: i8} : Tensor<i8, []>"),
        ("E6001", "Unpack(%0) {word: 1, dtype: complex128} : Tensor<complex128, []>"),
        ("E2007", "BranchNumber(%0) {count: 0} : Tensor<u64, [2]>"),
    ],
)
def test_parameters_that_no_engine_can_take_are_refused(code, line):
    fails(code, EXTENDED + input_line(0, [2], "u64") + f"%1 = {line}\noutputs: %1")


# -- the catalogue ----------------------------------------------------------------------------

CODES = {
    "E1001": b"\xff", "E1002": "@", "E1003": '%0 = Input() {name: "', "E1004": '%0 = Foo("\\u")',
    "E1005": "%0 = ConstF32(nan) : Tensor<f32, []>\noutputs: %0",
    "E2001": X + "%1 = Neg(%0) : Tensor<f32, [2]>\noutputs: %1",
    "E2004": X + input_line(1, [3], "f64") + "%2 = Add(%0, %1) : Tensor<f32, [2, 3]>\noutputs: %2",
    "E2005": input_line(0, [2], "bf16") + "outputs: %0",
    "E2007": X + "%1 = MatMul(%0) : Tensor<f32, [2, 2]>\noutputs: %1",
    "E3001": X + input_line(1, [2]) + "%2 = Add(%0, %1) : Tensor<f32, [2, 3]>\noutputs: %2",
    "E3002": input_line(0, [2]) + "%1 = MatMul(%0, %0) : Tensor<f32, [2, 2]>\noutputs: %1",
    "E3003": X + "%1 = MatMul(%0, %0) : Tensor<f32, [2, 2]>\noutputs: %1",
    "E3004": X + "%1 = Mean(%0, [7], true) : Tensor<f32, [2, 2]>\noutputs: %1",
    "E3005": X + "%1 = Mean(%0, [0, 0], true) : Tensor<f32, [1, 2]>\noutputs: %1",
    "E3006": input_line(0, [2, 0]) + "outputs: %0",
    "E3007": X + "%1 = Reshape(%0, [7]) : Tensor<f32, [7]>\noutputs: %1",
    "E3008": X + "%1 = Transpose(%0, [1]) : Tensor<f32, [3]>\noutputs: %1",
    "E3009": X + "%1 = Squeeze(%0, [1]) : Tensor<f32, [2]>\noutputs: %1",
    "E3010": "%0 = ConstTensor([[1], [2]]) : Tensor<f32, [1, 2]>\noutputs: %0",
    "E4001": "%0 = Neg(%1) : Tensor<f32, [2]>\noutputs: %0", "E4002": X + X + "outputs: %0",
    "E4003": "outputs: %0", "E4004": "%0 = Input() : Tensor<f32, []>\noutputs: %0",
    "E4005": "%0 = ConstTensor([1]) : Tensor<f32, [1000000000000]>\noutputs: %0",
    "E4006": X + "%1 = Index(%0, []) : Tensor<f32, []>\noutputs: %1",
    "E4007": X + "%1 = Slice(%0, []) : Tensor<f32, []>\noutputs: %1",
    "E4008": X + "%1 = Slice(%0, [0:1:0, 0:1:1]) : Tensor<f32, [1, 1]>\noutputs: %1",
    "E4009": input_line(0, [1, 2, 2, 1]) + input_line(1, [1, 1, 2, 1]) + "%2 = Conv2d(%0, %1, "
             "[1, 1], Same) : Tensor<f32, [1, 2, 2, 1]>\noutputs: %2",
    "E4010": input_line(0, [1, 2, 2, 1]) + input_line(1, [1, 1, 1, 1]) + "%2 = Conv2d(%0, %1, "
             "[1, 0], Same) : Tensor<f32, [1, 2, 2, 1]>\noutputs: %2",
    "E4011": X + "%1 = Gather(%0, %0) : Tensor<f32, [2]>\noutputs: %1",
    "E6001": X + "%1 = Index(%0, [0, 3]) : Tensor<f32, []>\noutputs: %1",
    "E6003": X + "%1 = Softplus(%0) : Tensor<f32, [2, 3]>\noutputs: %1",
}  # fmt: skip
RESERVED = {"E1006", "E2002", "E2003", "E2006"}


@pytest.mark.parametrize("code", CODES)
def test_M73_every_code_that_can_occur_does(code):
    error = fails(code, CODES[code])
    assert CATALOGUE[code].meaning and not CATALOGUE[code].reserved
    assert str(error.values["line"]) in str(error)
    assert isinstance(error, ValueError)


def test_M73_the_catalogue_is_complete():
    assert {c for c, entry in CATALOGUE.items() if entry.reserved} == RESERVED
    static = {c for c in CATALOGUE if c < "E5"}
    assert static - RESERVED == {c for c in CODES if c < "E5"}
    counts = {"E1": 6, "E2": 7, "E3": 10, "E4": 11, "E5": 5, "E6": 8}
    assert {c: sum(e.startswith(c) for e in CATALOGUE) for c in counts} == counts


# -- profiles ---------------------------------------------------------------------------------


def test_a_profile_is_the_first_line_unless_it_is_core():
    body = input_line(0, [2]) + "outputs: %0"
    assert pb.ir.parse("profile: core-v1\n" + body).text() == body
    for name in ("extended", "core-v1+gradient"):
        module = pb.ir.parse(f"# first\nprofile: {name}\n{body}")
        assert module.profile == name and module.text() == f"profile: {name}\n{body}"


def test_what_each_profile_has():
    step = input_line(0, [2]) + "%1 = Step(%0) : Tensor<f32, [2]>\noutputs: %1"
    sine = input_line(0, [2]) + "%1 = Sin(%0) : Tensor<f32, [2]>\noutputs: %1"
    none = input_line(0, [2]) + "%1 = Sum(%0, none, false) : Tensor<f32, [2]>\noutputs: %1"
    flags, halves = (input_line(0, [2], d) + "outputs: %0" for d in ("bool", "f16"))
    empty = input_line(0, [0]) + "outputs: %0"
    special = "%0 = ConstF32({}) : Tensor<f32, []>\noutputs: %0"
    zero, infinite = special.format("-0.0"), special.format("-inf")
    # for each text, the codes in the three profiles
    for text, codes in {
        step: ("E6003", None, None), sine: ("E6003", "E6003", None),
        none: ("E6003", "E6003", None), flags: ("E2005", None, None),
        halves: ("E2005", "E2005", None), empty: ("E3006", "E3006", None),
        zero: ("E1005", None, None), infinite: ("E1005", None, None),
    }.items():  # fmt: skip
        fits = []
        for profile, code in zip(PROFILES, codes, strict=True):
            stated = f"profile: {profile}\n{text}"
            if code is not None:
                fails(code, stated)
            else:
                pb.ir.verify(pb.ir.parse(stated))
                fits.append(profile)
        graph = pb.ir.parse(EXTENDED + text).graph
        assert Module.from_graph(graph).profile == fits[0], "the smallest that fits"


def test_internal_ops_are_not_instructions():
    for form in ("Leaf()", "Result(%0, 0)", "Scalar()", "Const()", 'Const() {data: "00"}'):
        fails("E6003", EXTENDED + X + f"%1 = {form} : Tensor<f32, [2]>\noutputs: %1")


def test_rules_of_core_instructions_stay_in_the_gradient_profile():
    """With the dtypes of Core v1, rules emit only instructions that the op table marks as such."""
    core = [n for n, cls in TABLE.items() if cls.text.profile == "core-v1"]
    assert len(core) == 20
    core.remove("Conv2d")  # it has no derivative in Core v1
    level, gradient = 0, PROFILES["core-v1+gradient"].level
    for name in core:
        for op, arrays in TABLE[name].samples():
            arrays = [np.asarray(a) for a in arrays]
            graph = testing.graph_of(op, arrays)
            if any(a.dtype.kind == "c" or not a.size for a in arrays):
                continue
            if op.text.least_profile(op, [x.type for x in graph.inputs]) != "core-v1":
                continue
            xs = [x for x in graph.inputs if x.type.inexact]
            found = gradients(graph.outputs, [ones(y.type) for y in graph.outputs], xs)
            for node in Graph(graph.inputs, found).nodes:
                if node.op.text.profile:
                    types = [x.type for x in node.inputs]
                    guarded = isinstance(node.op, Guarded)
                    plain = node.op.unguarded if guarded else node.op  # as in Core v1
                    needed = PROFILES[plain.text.least_profile(plain, types)].level
                    assert needed <= gradient, (name, node.op.name)
                    level = max(level, needed)
    assert level == gradient
