"""The static IR: text, verifier, canonical form. Tests carry the numbers of CHECKLIST part M."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_texts import X, fails, input_line, last_type

import pullback as pb
from pullback import testing
from pullback.ops.prelude import broadcast_shapes

EXAMPLES = {
    "a small network": (
        X + '%1 = Input() {name: "w"} : Tensor<f32, [3, 4]>\n'
        "%2 = MatMul(%0, %1) : Tensor<f32, [2, 4]>\n"
        "%3 = ConstF32(0.5) : Tensor<f32, []>\n"
        "%4 = BinOp(Mul, %2, %3) : Tensor<f32, [2, 4]>\n"
        "%5 = Sum(%4, [1], false) : Tensor<f32, [2]>\n"
        "%6 = Mean(%5, [], false) : Tensor<f32, []>\n"
        "outputs: %6"
    ),
    "copies": X + "%7 = Relu(%0) : Tensor<f32, [2, 3]>\n%8 = %7\noutputs: %8",
    "bare arithmetic": X + "%1 = Add(%0, %0) : tensor<f32[2, 3]>\ninputs: %0\noutputs: %1,",
    "late inputs, comments": (
        "# two constants and an input\n%0 = ConstI64(3) : Tensor<i64, []>  # three\n\n"
        '  %1 = Input() {name = "x"} : Tensor<i64, [2]>\n'
        "%2 = Mul(%0, %1,) : Tensor<i64, [2,]>\noutputs: %2 # the product"
    ),
}


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
def test_M23_print_parse_print_is_a_fixed_point(text):
    printed = pb.ir.parse(text).text()
    assert pb.ir.parse(printed).text() == printed
    canonical = pb.ir.canonicalise(pb.ir.parse(text))
    assert pb.ir.parse(canonical.text()) == canonical


def test_M23_the_examples_own_text_is_the_printed_form():
    text = EXAMPLES["a small network"]
    assert pb.ir.parse(text).text() == text


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
def test_M55_the_example_modules_are_accepted(text):
    pb.ir.verify(pb.ir.parse(text))
    pb.ir.verify(pb.ir.parse(text.encode()))


def test_M55_parse_errors_carry_line_and_column():
    with pytest.raises(pb.PullbackError, match=r"line 2, column 10") as caught:
        pb.ir.parse(X + "%1 = Neg %0 : Tensor<f32, [2, 3]>\noutputs: %1")
    assert (caught.value.line, caught.value.column) == (2, 10)
    assert caught.value.source.startswith("%1 = Neg %0") and isinstance(caught.value, ValueError)


def test_M56_commutative_operands_are_sorted():
    text = input_line(0, [2]) + input_line(1, [2])
    body = "".join(
        f"%{i} = BinOp({op}, %1, %0) : Tensor<f32, [2]>\n"
        for i, op in enumerate(("Add", "Mul", "Sub", "Div"), 2)
    )
    made = pb.ir.canonicalise(pb.ir.parse(text + body + "outputs: %2, %3, %4, %5")).text()
    assert "BinOp(Add, %0, %1)" in made and "BinOp(Mul, %0, %1)" in made
    assert "BinOp(Sub, %1, %0)" in made and "BinOp(Div, %1, %0)" in made


def test_M57_dead_code_goes_and_inputs_stay_and_nothing_changes_again():
    module = pb.ir.parse(
        input_line(4, [2]) + "%9 = Exp(%4) : Tensor<f32, [2]>\n" + input_line(3, [5])
        + "%5 = Neg(%4) : Tensor<f32, [2]>\n%6 = Neg(%4) : Tensor<f32, [2]>\n%7 = %6\n"
        "%8 = BinOp(Add, %7, %5) : Tensor<f32, [2]>\noutputs: %8, %7"
    )  # fmt: skip
    before = module.text()
    made, places = pb.ir.canonicalise(module, with_map=True)
    assert made.text() == (
        '%0 = Input() {name: "x4"} : Tensor<f32, [2]>\n'
        '%1 = Input() {name: "x3"} : Tensor<f32, [5]>\n'
        "%2 = Neg(%0) : Tensor<f32, [2]>\n"
        "%3 = BinOp(Add, %2, %2) : Tensor<f32, [2]>\n"
        "outputs: %3, %2"
    )
    assert places == {4: 0, 3: 1, 5: 2, 6: 2, 7: 2, 8: 3}  # and no 9
    assert module.text() == before, "it is pure"
    assert pb.ir.canonicalise(made) == made
    top = "%3, %4 = TopK(%0) {k: 1, axis: 1} : Tensor<f32, [2, 1]>, Tensor<i64, [2, 1]>\n"
    several = pb.ir.parse(f"profile: extended\n{X}{top}outputs: %3")
    assert pb.ir.canonicalise(several, with_map=True)[1] == {0: 0, 3: 1, 4: 2}
    assert pb.ir.fingerprint(module) == pb.ir.fingerprint(made)


@pytest.mark.parametrize(
    ("op", "a", "b", "folded"),
    [
        ("Add", 2, 3, 5), ("Sub", 2, 3, -1), ("Mul", -4, 3, -12), ("Div", -6, 3, -2),
        ("Add", 2**63 - 1, 1, None), ("Sub", -(2**63), 1, None), ("Mul", 2**62, 2, None),
        ("Div", 1, 0, None), ("Div", -(2**63), -1, None), ("Mul", -(2**62), 2, -(2**63)),
    ],
)  # fmt: skip
def test_M58_integer_folding_is_exact_or_not_done(op, a, b, folded):
    text = (
        f"%0 = ConstI64({a}) : Tensor<i64, []>\n%1 = ConstI64({b}) : Tensor<i64, []>\n"
        f"%2 = BinOp({op}, %0, %1) : Tensor<i64, []>\noutputs: %2"
    )
    made = pb.ir.canonicalise(pb.ir.parse(text)).text()
    if folded is None:
        assert f"BinOp({op}, " in made
    else:
        assert made == f"%0 = ConstI64({folded}) : Tensor<i64, []>\noutputs: %0"


def test_M59_definitions():
    fails("E4001", X + "%1 = Neg(%2) : Tensor<f32, [2, 3]>\noutputs: %1",
          instruction=1, used=2, value=1, line=2, column=1)  # fmt: skip
    fails("E4001", X + "%1 = Neg(%1) : Tensor<f32, [2, 3]>\noutputs: %1", instruction=1)
    fails("E4002", X + X + "outputs: %0", instruction=1, value=0, line=2)
    fails("E4003", X + "outputs: %0, %5", output=1, value=5, line=2)


def test_M60_inputs_and_constants():
    fails("E4004", "%0 = Input() : Tensor<f32, [2]>\noutputs: %0", instruction=0)
    fails("E4004", '%0 = Input() {name: ""} : Tensor<f32, [2]>\noutputs: %0')
    fails("E4004", X + '%1 = Input() {name: "x"} : Tensor<f32, [2]>\noutputs: %0', name="x")
    fails("E4004", X + "inputs: %0, %1\noutputs: %0", line=2)
    fails("E4005", "%0 = ConstTensor([1, 2]) : Tensor<f32, [3]>\noutputs: %0", elements=2, size=3)
    fails("E4005", "%0 = ConstTensor([1.5]) : Tensor<i32, [1]>\noutputs: %0", dtype="i32")
    fails("E3010", "%0 = ConstTensor([1.5]) : Tensor<f32, []>\noutputs: %0", literal=(1,), shape=())
    fails("E3010", "%0 = ConstTensor(1.5) : Tensor<f32, [1]>\noutputs: %0", literal=(), shape=(1,))
    fails("E4005", "%0 = ConstTensor(2147483648) : Tensor<i32, []>\noutputs: %0")
    fails("E4005", "%0 = ConstF32(1e39) : Tensor<f32, []>\noutputs: %0")


def test_M61_index_slice_convolution_gather():
    fails("E4006", X + "%1 = Index(%0, [1]) : Tensor<f32, []>\noutputs: %1", indices=1, rank=2)
    fails("E4007", X + "%1 = Slice(%0, [0:1:1]) : Tensor<f32, [1]>\noutputs: %1", rank=2)
    fails("E4007", X + "%1 = Slice(%0, starts=[0, 0], ends=[1, 1], steps=[1]) : "
          "Tensor<f32, [1, 1]>\noutputs: %1", lengths=(2, 2, 1))  # fmt: skip
    for step in (0, -1):
        text = f"%1 = Slice(%0, [0:2:1, 0:3:{step}]) : Tensor<f32, [2, 3]>\noutputs: %1"
        fails("E4008", X + text, axis=1, step=step)
    images = input_line(0, [1, 5, 5, 3]) + input_line(1, [3, 3, 2, 4])
    conv = (
        "%2 = Conv2d(%0, %1) {{strides: {}, padding: {}}} : Tensor<f32, [1, 3, 3, 4]>\noutputs: %2"
    )
    fails("E4009", images + conv.format([1, 1], "Valid"), channels=(3, 4))
    images = images.replace("3, 3, 2, 4", "3, 3, 3, 4")
    fails("E4010", images + conv.format([0, 1], "Valid"), strides=(0, 1))
    fails("E4010", images + conv.format([1], "Same"), strides=(1,))
    fails("E2001", images + conv.format([1, 1], "Full"))
    fails("E2001", images + conv.format([1, 1], "Custom([[1, 1]])"))
    negative = images + conv.format([1, 1], "Custom([[0, 0], [-1, 1]])")
    fails("E6003", negative)
    pb.ir.verify(pb.ir.parse("profile: extended\n" + negative))
    gather = "%1 = Gather(%0, %0) : Tensor<f32, [2, 3, 3]>\noutputs: %1"
    fails("E4011", X + gather, dtype="f32")


def test_M23_conv2d_prints_its_parameters_as_the_grammar_has_them():
    images = input_line(0, [1, 5, 5, 3]) + input_line(1, [3, 3, 3, 4])
    for padding, shape in (("Same", [1, 5, 5, 4]), ("Custom([[1, 0], [0, 0]])", [1, 4, 3, 4])):
        line = f"%2 = Conv2d(%0, %1, [1, 1], {padding}) : Tensor<f32, {shape}>\noutputs: %2"
        module = pb.ir.parse(images + line)
        pb.ir.verify(module)
        assert module.text() == images + line
        keys = f"%2 = Conv2d(%0, %1) {{strides: [1, 1], padding: {padding}}} : Tensor<f32, {shape}>"
        assert pb.ir.parse(f"{images}{keys}\noutputs: %2") == module


def test_M73_errors_begin_with_their_code_and_its_title():
    two = input_line(0, [3, 4]) + input_line(1, [3, 5])
    text = two + "%2 = BinOp(Add, %0, %1) : Tensor<f32, [3, 4]>\noutputs: %2"
    error = fails("E3001", text)
    assert str(error).startswith("E3001: Broadcasting failed: instruction 2 (Add): ")
    assert all(entry.title for entry in pb.ir.CATALOGUE.values())
    with pytest.raises(pb.PullbackError, match=r"^E1003: Unterminated string literal: "):
        pb.ir.parse('%0 = Input() {name: "x')
    module = pb.ir.parse(two + "outputs: %0")
    with pytest.raises(pb.PullbackError, match=r"^E5004: Unsupported shape in gradient: "):
        pb.ir.autodiff(module)
    with pytest.raises(pb.PullbackError, match=r"^run: "):  # a wrong call has no title
        pb.ir.run(module, np.ones((3, 4), np.float32))


def test_M62_shapes_of_products():
    two = input_line(0, [3, 4]) + input_line(1, [3, 5])
    add = "%2 = BinOp(Add, %0, %1) : Tensor<f32, [3, 5]>\noutputs: %2"
    fails("E3001", two + add, dimension=1, extents=(4, 5), instruction=2)
    product = "%2 = MatMul(%0, %1) : Tensor<f32, [3, 5]>\noutputs: %2"
    fails("E3003", two + product, extents=(4, 3))
    fails("E3002", input_line(0, [3]) + input_line(1, [3, 5]) + product, ranks=(1, 2))
    batches = input_line(0, [2, 3, 4]) + input_line(1, [5, 4, 3])
    fails("E3001", batches + product, dimension=0, extents=(2, 5))
    fails("E3003", two + "%2 = Dot(%0, %1) : Tensor<f32, []>\noutputs: %2", extents=(4, 3))


def test_M63_axes_and_dimensions():
    for axis in (2, -3):
        text = f"%1 = Sum(%0, [{axis}], false) : Tensor<f32, [2]>\noutputs: %1"
        fails("E3004", X + text, axis=axis, rank=2)
    fails("E3005", X + "%1 = Sum(%0, [1, -1], false) : Tensor<f32, [2]>\noutputs: %1", axis=1)
    fails(
        "E3005", input_line(0, [1, 1]) + "%1 = Squeeze(%0, [0, 0]) : Tensor<f32, []>\noutputs: %1"
    )
    for extent in (0, -2):
        fails("E3006", input_line(0, [2, extent]) + "outputs: %0", dimension=1, extent=extent)


def test_M64_movement():
    fails("E3007", X + "%1 = Reshape(%0, [4]) : Tensor<f32, [4]>\noutputs: %1", counts=(6, 4))
    for perm in ([0, 0], [0], [0, 2], [1, -1]):
        text = f"%1 = Transpose(%0, {perm}) : Tensor<f32, [3, 2]>\noutputs: %1"
        fails("E3008", X + text, rank=2)
    fails("E3009", X + "%1 = Squeeze(%0, [0]) : Tensor<f32, [3]>\noutputs: %1", axis=0, extent=2)
    literal = "%0 = ConstTensor([[1, 2], [3, 4]]) : Tensor<f32, [4, 1]>\noutputs: %0"
    fails("E3010", literal, literal=(2, 2), shape=(4, 1))
    fails("E3010", "%0 = ConstTensor([[1, 2], [3]]) : Tensor<f32, [2, 2]>\noutputs: %0")


def test_M65_dtypes():
    two = input_line(0, [2], "f32") + input_line(1, [2], "f64")
    add = "%2 = BinOp(Add, %0, %1) : Tensor<f32, [2]>\noutputs: %2"
    fails("E2004", two + add, dtypes=("f32", "f64"))
    log = "%1 = Log(%0) : Tensor<i32, [2]>\noutputs: %1"
    fails("E2005", input_line(0, [2], "i32") + log, dtype="i32")
    fails("E2001", X + "%1 = Neg(%0) : Tensor<f32, [3, 2]>\noutputs: %1")
    fails("E2001", "%0 = ConstF32(1.0) : Tensor<f64, []>\noutputs: %0")
    fails("E2007", X + "%1 = Neg(%0, %0) : Tensor<f32, [2, 3]>\noutputs: %1", operands=2)
    fails("E2007", X + "%1 = Neg(%0) {size: 2} : Tensor<f32, [2, 3]>\noutputs: %1")
    fails("E2007", X + "%1, %2 = Neg(%0) : Tensor<f32, [2, 3]>\noutputs: %1", results=1)


def test_M66_broadcasting_examples():
    for left, right, both in (
        ([], [3, 4, 5], [3, 4, 5]), ([1, 5], [3, 5], [3, 5]),
        ([3, 1, 5], [1, 4, 5], [3, 4, 5]), ([5], [3, 4, 5], [3, 4, 5]),
    ):  # fmt: skip
        text = input_line(0, left) + input_line(1, right)
        assert last_type(text + "%2 = Mul(%0, %1)") == str(both)
        assert last_type(text + "%2 = Mul(%1, %0)") == str(both)
    text = input_line(0, [3, 4]) + input_line(1, [3, 5]) + "%2 = Add(%0, %1) : Tensor<f32, []>\n"
    fails("E3001", text + "outputs: %2", dimension=1, extents=(4, 5))


SHAPES = st.lists(st.integers(1, 3), max_size=4).map(tuple)


def joined(*shapes):
    try:
        return broadcast_shapes(*shapes)
    except pb.PullbackError:
        return None


@given(SHAPES, SHAPES, SHAPES)
def test_M66_broadcasting_invariants(a, b, c):
    ab = joined(a, b)
    assert ab == joined(b, a)  # commutative
    if ab is not None and joined(b, c) is not None:
        assert joined(ab, c) == joined(a, joined(b, c))  # associative
    assert joined(a, ()) == joined(a, a) == a  # [] is the identity, and it is idempotent
    assert ab is None or len(ab) == max(len(a), len(b))
    try:
        assert ab == np.broadcast_shapes(a, b)
    except ValueError:
        assert ab is None


def test_M67_reductions():
    x = input_line(0, [3, 4, 5])
    for op in ("Sum", "Mean"):
        assert last_type(x + f"%1 = {op}(%0, [1], false)") == "[3, 5]"
        assert last_type(x + f"%1 = {op}(%0, [1], true)") == "[3, 1, 5]"
        assert last_type(x + f"%1 = {op}(%0, [-2], true)") == "[3, 1, 5]"
        for keepdims in ("true", "false"):
            assert last_type(x + f"%1 = {op}(%0, [], {keepdims})") == "[]"  # also K5


def test_M68_expanding_squeezing_transposing():
    x = input_line(0, [3, 4])
    assert last_type(x + "%1 = ExpandDims(%0, [0, 2])") == "[1, 3, 1, 4]"
    assert last_type(input_line(0, [1, 3, 1, 4]) + "%1 = Squeeze(%0, [0, 2])") == "[3, 4]"
    assert last_type(input_line(0, [2, 3, 4]) + "%1 = Transpose(%0, [2, 0, 1])") == "[4, 2, 3]"


def test_M69_indexing():
    x = input_line(0, [5, 2, 3])
    assert last_type(x + "%1 = Index(%0, [4, 1, 0])") == "[]"
    places = "%1 = ConstTensor([[0, 1, 4], [2, 2, 2]]) : Tensor<i32, [2, 3]>\n"
    assert last_type(x + places + "%2 = Gather(%0, %1)") == "[2, 3, 2, 3]"


@pytest.mark.parametrize(
    ("image", "window", "strides", "padding", "shape"),
    [
        ([1, 5, 5, 1], [3, 3, 1, 1], [1, 1], "Valid", [1, 3, 3, 1]),
        ([1, 5, 5, 1], [3, 3, 1, 1], [1, 1], "Same", [1, 5, 5, 1]),
        ([1, 6, 6, 1], [3, 3, 1, 1], [2, 2], "Valid", [1, 2, 2, 1]),
        ([1, 5, 5, 1], [3, 3, 1, 1], [1, 1], "Custom([[2, 2], [3, 3]])", [1, 7, 9, 1]),
        ([2, 5, 6, 3], [3, 3, 3, 8], [2, 2], "Same", [2, 3, 3, 8]),
    ],
)  # fmt: skip
def test_M70_convolutions(image, window, strides, padding, shape):
    text = input_line(0, image) + input_line(1, window)
    for form in ("{{strides: {}, padding: {}}}", "{{strides = {}, padding = {}}}"):
        conv = f"%2 = Conv2d(%0, %1) {form.format(strides, padding)}"
        assert last_type(text + conv) == str(shape)
    for form in (", {}, {})", ", strides={}, padding={})"):
        assert last_type(text + "%2 = Conv2d(%0, %1" + form.format(strides, padding)) == str(shape)


def test_M74_nothing_executes_after_a_verification_error(monkeypatch):
    called = []
    exp = type(pb.ir.parse(X + "%1 = Exp(%0) : Tensor<f32, [2, 3]>\noutputs: %1").values[1].op)
    monkeypatch.setattr(exp, "numpy", lambda self, x: called.append(x))
    bad = X + "%1 = Exp(%0) : Tensor<f32, [2, 3]>\n%2 = Neg(%1) : Tensor<f32, [2]>\noutputs: %1"
    with pytest.raises(pb.PullbackError):
        testing.run(pb.ir.parse(bad).graph, [np.zeros((2, 3), np.float32)])
    assert not called
