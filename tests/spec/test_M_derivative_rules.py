"""The instructions of each derivative rule, and a check by central differences (M25 to M54).

In `Derived.lines` the inputs are %0, %1, the cotangent follows them, then the instruction itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from modules import Derived, build, check_rule, feed, op

from pullback import ir
from pullback.errors import UnsupportedOp

# name: (instruction, shapes, what is emitted, the gradients)
RULES = {
    "M25 add": (op("Add"), [(2, 3), (2, 3)], [], ["%2", "%2"]),
    "M26 add broadcast": (op("Add"), [(2, 1), (2, 3)], ["%4 = Sum(%2, [1], true)"], ["%4", "%2"]),
    "M27 add leading": (op("Add"), [(3,), (2, 3)], ["%4 = Sum(%2, [0], false)"], ["%4", "%2"]),
    "M27 add scalar": (op("Add"), [(), (2, 3)], ["%4 = Sum(%2, [0, 1], false)"], ["%4", "%2"]),
    "M28 sub": (op("Sub"), [(2,), (2,)], ["%4 = Neg(%2)"], ["%2", "%4"]),
    "M28 sub broadcast": (
        op("Sub"), [(2, 3), (3,)], ["%4 = Neg(%2)", "%5 = Sum(%4, [0], false)"], ["%2", "%5"]
    ),
    "M29 mul": (
        op("Mul"), [(2, 1), (2, 3)],
        ["%4 = BinOp(Mul, %1, %2)", "%5 = BinOp(Mul, %0, %2)", "%6 = Sum(%4, [1], true)"],
        ["%6", "%5"],
    ),
    "M29 square": (
        lambda x: op("Mul")(x, x), [(3,)],
        ["%3 = BinOp(Mul, %0, %1)", "%4 = BinOp(Add, %3, %3)"], ["%4"],
    ),
    "M30 sum": (
        op("Sum", (1,), False), [(2, 3)],
        ["%3 = ExpandDims(%1, [1])", "%4 = Broadcast(%3, [2, 3])"], ["%4"],
    ),
    "M30 sum keepdims": (
        op("Sum", (0, 2), True), [(2, 3, 4)], ["%3 = Broadcast(%1, [2, 3, 4])"], ["%3"]
    ),
    "M30 sum of two axes": (
        op("Sum", (0, 2), False), [(2, 3, 4)],
        ["%3 = ExpandDims(%1, [0, 2])", "%4 = Broadcast(%3, [2, 3, 4])"], ["%4"],
    ),
    "M31 sum of rank 0": (op("Sum", (), False), [()], [], ["%1"]),
    "M32 mean": (
        op("Mean", (1, 2), False), [(2, 3, 4)],
        [f"%3 = ConstF64({1 / 12!r})", "%4 = BinOp(Mul, %1, %3)", "%5 = ExpandDims(%4, [1, 2])",
         "%6 = Broadcast(%5, [2, 3, 4])"],
        ["%6"],
    ),
    "M34 reshape": (op("Reshape", (3, 2)), [(2, 3)], ["%3 = Reshape(%1, [2, 3])"], ["%3"]),
    "M35 transpose": (
        op("Transpose", (2, 0, 1)), [(2, 3, 4)], ["%3 = Transpose(%1, [1, 2, 0])"], ["%3"]
    ),
    "M36 expand dims": (
        op("ExpandDims", (0, 2)), [(3, 4)], ["%3 = Squeeze(%1, [0, 2])"], ["%3"]
    ),
    "M37 squeeze": (op("Squeeze", (0, 2)), [(1, 3, 1)], ["%3 = ExpandDims(%1, [0, 2])"], ["%3"]),
    "M38 index": (
        op("Index", (1, 2)), [(3, 4)],
        ["%3 = Reshape(%1, [1, 1])", "%4 = ConstF64(0.0)",
         "%5 = Pad(%3, %4) {low: [1, 2], high: [1, 1], interior: [0, 0]}"],
        ["%5"],
    ),
    "M39 slice": (
        op("Slice", (1, 0), (6, 3), (2, 1)), [(7, 4)],
        ["%3 = ConstF64(0.0)", "%4 = Pad(%1, %3) {low: [1, 0], high: [1, 1], interior: [1, 0]}"],
        ["%4"],
    ),
    "M41 dot": (
        op("Dot"), [(3,), (3,)],
        ["%4 = BinOp(Mul, %1, %2)", "%5 = BinOp(Mul, %0, %2)"], ["%4", "%5"],
    ),
    "M42 matrix and vector": (
        op("Dot"), [(2, 3), (3,)],
        ["%4 = Reshape(%2, [2, 1])", "%5 = BinOp(Mul, %1, %4)", "%6 = Transpose(%0, [1, 0])",
         "%7 = Dot(%6, %2)"],
        ["%5", "%7"],
    ),
    "M43 vector and matrix": (
        op("Dot"), [(2,), (2, 3)],
        ["%4 = Transpose(%1, [1, 0])", "%5 = Dot(%2, %4)", "%6 = Reshape(%0, [2, 1])",
         "%7 = BinOp(Mul, %2, %6)"],
        ["%5", "%7"],
    ),
    "M44 two matrices": (
        op("Dot"), [(2, 3), (3, 4)],
        ["%4 = Transpose(%1, [1, 0])", "%5 = MatMul(%2, %4)", "%6 = Transpose(%0, [1, 0])",
         "%7 = MatMul(%6, %2)"],
        ["%5", "%7"],
    ),
    "M45 matmul": (
        op("MatMul"), [(2, 3), (3, 4)],
        ["%4 = Transpose(%1, [1, 0])", "%5 = MatMul(%2, %4)", "%6 = Transpose(%0, [1, 0])",
         "%7 = MatMul(%6, %2)"],
        ["%5", "%7"],
    ),
    "M46 batches": (
        op("MatMul"), [(2, 3, 4), (2, 4, 5)],
        ["%4 = Transpose(%1, [0, 2, 1])", "%5 = MatMul(%2, %4)", "%6 = Transpose(%0, [0, 2, 1])",
         "%7 = MatMul(%6, %2)"],
        ["%5", "%7"],
    ),
    "M47 batches broadcast": (
        op("MatMul"), [(2, 1, 3, 4), (1, 5, 4, 6)],
        ["%4 = Transpose(%1, [0, 1, 3, 2])", "%5 = MatMul(%2, %4)",
         "%6 = Transpose(%0, [0, 1, 3, 2])", "%7 = MatMul(%6, %2)", "%8 = Sum(%5, [1], true)",
         "%9 = Sum(%7, [0], true)"],
        ["%8", "%9"],
    ),
    "M47 one matrix for all": (
        op("MatMul"), [(2, 3, 4), (4, 5)],
        ["%4 = Transpose(%1, [1, 0])", "%5 = MatMul(%2, %4)",
         "%6 = DotGeneral(%0, %2) {contract: [[0, 1], [0, 1]], batched: [[], []]}"],
        ["%5", "%6"],
    ),
    "M48 relu": (op("Relu"), [(3,)], ["%3 = Step(%0)", "%4 = BinOp(Mul, %1, %3)"], ["%4"]),
    "M49 neg": (op("Neg"), [(3,)], ["%3 = Neg(%1)"], ["%3"]),
    "M50 exp reuses its result": (op("Exp"), [(3,)], ["%3 = BinOp(Mul, %1, %2)"], ["%3"]),
    "M51 log": (op("Log"), [(3,)], ["%3 = BinOp(Div, %1, %0)"], ["%3"]),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_M25_to_M51_a_rule_emits_its_formula(name):
    make, shapes, lines, results = RULES[name]
    derived = check_rule(make, *shapes)
    assert derived.lines == lines
    assert derived.results == results
    ir.verify(derived.gradient)


@pytest.mark.parametrize("keepdims", ["false", "true"])
def test_M31_empty_axes_reduce_everything(keepdims):
    module = ir.parse(
        '%0 = Input() {name: "x"} : Tensor<f64, [2, 3]>\n'
        f"%1 = Sum(%0, [], {keepdims}) : Tensor<f64, []>\noutputs: %1\n"
    )
    derived = Derived(module)
    assert derived.lines == ["%3 = ExpandDims(%1, [0, 1])", "%4 = Broadcast(%3, [2, 3])"]
    derived.check(np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("axes", ["[-1]", "[-3, -1]"])
def test_M30_negative_axes(axes):
    shape = "[2, 3]" if axes == "[-1]" else "[3]"
    module = ir.parse(
        '%0 = Input() {name: "x"} : Tensor<f64, [2, 3, 4]>\n'
        f"%1 = Sum(%0, {axes}, false) : Tensor<f64, {shape}>\noutputs: %1\n"
    )
    derived = Derived(module)
    expected = "[2]" if axes == "[-1]" else "[0, 2]"
    assert derived.lines[0] == f"%3 = ExpandDims(%1, {expected})"
    derived.check(np.arange(24.0).reshape(2, 3, 4))


def test_M33_values_of_the_specification():
    mean = Derived(build(op("Mean", (0,), False), (4,)))
    assert mean.run(np.ones(4))[0].tolist() == [0.25] * 4
    total = Derived(build(op("Sum", (0, 1), False), (2, 2)))
    assert total.run(np.ones((2, 2)))[0].tolist() == [[1, 1], [1, 1]]


def test_M34_a_reshape_that_infers_a_size():
    module = ir.parse(
        '%0 = Input() {name: "x"} : Tensor<f64, [2, 6]>\n'
        "%1 = Reshape(%0, [3, -1]) : Tensor<f64, [3, 4]>\noutputs: %1\n"
    )
    derived = Derived(module)
    assert derived.lines == ["%3 = Reshape(%1, [2, 6])"]
    derived.check(np.arange(12.0).reshape(2, 6))


def test_M38_the_element_gets_upstream_and_the_others_zero():
    (got,) = Derived(build(op("Index", (1, 0)), (2, 2))).run(np.ones((2, 2)), cotangent=7.0)
    assert got.tolist() == [[0, 0], [7, 0]]


def test_M39_the_strided_region_gets_upstream_and_the_others_zero():
    derived = Derived(build(op("Slice", (0, 1), (3, 4), (2, 2)), (3, 4)))
    (got,) = derived.run(np.ones((3, 4)), cotangent=[[1, 2], [3, 4]])
    assert got.tolist() == [[0, 1, 0, 2], [0, 0, 0, 0], [0, 3, 0, 4]]


@pytest.mark.parametrize("indices", [[2, 0, 2], [[0, 1], [1, 1]]])
def test_M40_gather_accumulates_duplicates(indices):
    indices = np.array(indices)
    module = ir.parse(
        '%0 = Input() {name: "x"} : Tensor<f64, [3, 2]>\n'
        f'%1 = Input() {{name: "i"}} : Tensor<i64, {list(indices.shape)}>\n'
        f"%2 = Gather(%0, %1) : Tensor<f64, {[*indices.shape, 2]}>\noutputs: %2\n"
    )
    derived = Derived(module)
    assert list(derived.gradients) == [0], "indices get no gradient"
    assert [line.split(" = ")[1].split("(")[0] for line in derived.lines] == [
        "ConstF64", "Broadcast", "ScatterAdd",
    ]  # fmt: skip
    g = np.arange(indices.size * 2.0).reshape(*indices.shape, 2) + 1
    expected = np.zeros((3, 2))
    np.add.at(expected, indices, g)
    (got,) = derived.run(np.ones((3, 2)), indices, cotangent=g)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_M48_relu_where_it_has_a_kink(engine):
    derived = Derived(build(op("Relu"), (6,)))
    x = np.array([-1.0, -0.0, 0.0, 5e-324, 2.0, np.nan])
    (got,) = derived.run(x, cotangent=[3.0] * 6, engine=engine)
    assert got.tolist() == [0, 0, 0, 3, 3, 0]


def test_M50_there_is_no_second_exp():
    module = build(lambda x: op("Sum", (0,), False)(op("Exp")(x)), (3,))
    text = ir.autodiff(module).gradient_module.text()
    assert text.count("Exp(") == 1


def test_K3_a_second_derivative_through_log_needs_the_extended_profile():
    module = build(lambda x: op("Sum", (0,), False)(op("Log")(x)), (3,))
    first = ir.autodiff(module)
    total = _sum_of(first.gradient_module, first.gradients[0])
    with pytest.raises(UnsupportedOp, match=r"Div.*profile core-v1"):
        ir.autodiff(total)
    second = ir.autodiff(total, profile="extended")
    got = ir.run(second.gradient_module, {"x": [1.0, 2.0, 4.0]}, engine="reference")[-1]
    np.testing.assert_allclose(got, [-1, -1 / 4, -1 / 16])


def _sum_of(module, i):
    """A module that sums one value of another."""
    graph = module.graph
    y = op("Sum", (0,), False)(module.values[i])
    return ir.Module.from_graph(type(graph)(graph.inputs, [y], graph.names), module.profile)


# -- beyond Core v1 -------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["VALID", "SAME", ((2, 0), (1, 3))])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_M52_conv2d(padding, strides):
    derived = check_rule(
        op("Conv2d", strides, padding), (1, 4, 4, 2), (3, 2, 2, 2), profile="extended"
    )
    by_input, by_filter = derived.lines
    assert by_input.startswith(f"%4 = Conv2dBackwardInput(%2, %1, [1, 4, 4, 2], {list(strides)}, ")
    assert by_filter.startswith(
        f"%5 = Conv2dBackwardFilter(%0, %2, [3, 2, 2, 2], {list(strides)}, "
    )


def test_M52_the_exact_small_case():
    derived = Derived(build(op("Conv2d", (1, 1), "VALID"), (1, 2, 2, 1), (2, 2, 1, 1)),
                      profile="extended")  # fmt: skip
    x = np.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 2, 2, 1)
    w = np.array([1.0, 0.0, 0.0, 1.0]).reshape(2, 2, 1, 1)
    dx, dw = derived.run(x, w)
    assert dx.ravel().tolist() == [1, 0, 0, 1]
    assert dw.ravel().tolist() == [1, 2, 3, 4]


def test_M53_div():
    """upstream / b, and -(upstream * a) / (b * b) with the quotient that is there for a / b: the
    square of b leaves its range long before the gradient does."""
    derived = check_rule(op("Div"), (2, 3), (3,), profile="extended")
    assert derived.lines == [
        "%4 = DivNoNan(%2, %1)", "%5 = Neg(%3)", "%6 = MulNoNan(%2, %5)", "%7 = DivNoNan(%6, %1)",
        "%8 = Sum(%7, [0], false)",
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    a, b, g = (rng.uniform(0.5, 2, shape) for shape in ((2, 3), (3,), (2, 3)))
    da, db = derived.run(a, b, cotangent=g)
    np.testing.assert_allclose(da, g / b, rtol=1e-15)
    np.testing.assert_allclose(db, np.sum(-(g * a) / (b * b), 0), rtol=1e-14)


def test_M53_a_divisor_whose_square_underflows():
    (_, db) = Derived(build(op("Div"), (), ()), profile="extended").run(1e-200, 1e-200)
    assert db == pytest.approx(-1e200)


def test_M54_the_example_of_the_specification():
    module = ir.parse(
        '%0 = Input() {name: "x"} : Tensor<f32, [3]>\n'
        '%1 = Input() {name: "y"} : Tensor<f32, [3]>\n'
        "%2 = BinOp(Mul, %0, %1) : Tensor<f32, [3]>\n"
        "%3 = BinOp(Add, %2, %0) : Tensor<f32, [3]>\n"
        "%4 = Sum(%3, [], false) : Tensor<f32, []>\noutputs: %4\n"
    )
    made, gradients = ir.autodiff(module)
    assert list(gradients) == [0, 1]
    assert made.outputs == (4, gradients[0], gradients[1])
    x, y = np.array([1, 2, 3], "f"), np.array([4, 5, 6], "f")
    loss, dx, dy = ir.run(made, feed(made, [x, y]))
    assert loss == 38
    assert dx.tolist() == (y + 1).tolist() and dy.tolist() == x.tolist()
