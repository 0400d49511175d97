"""Errors of static autodiff and their values (M11 to M13, M17 to M21)."""

from __future__ import annotations

import numpy as np
import pytest
from modules import build, feed, in_a_process, op

import pullback as pb
from pullback import ir
from pullback.errors import (
    ArgumentError,
    GradientVerification,
    InvalidAxis,
    NonDifferentiableInput,
    UnsupportedOp,
    UnsupportedShape,
)

X = '%0 = Input() {name: "x"} : Tensor<f32, [2, 3]>\n'
LOSS = ir.parse(
    X + "%1 = Exp(%0) : Tensor<f32, [2, 3]>\n%2 = Sum(%1, [], false) : Tensor<f32, []>\n"
    "outputs: %2\n"
)
QUOTIENT = X + (
    "%1 = BinOp(Div, %0, %0) : Tensor<f32, [2, 3]>\n"
    "%2 = Sum(%1, [], false) : Tensor<f32, []>\noutputs: %2\n"
)


def test_M11_an_instruction_without_a_rule():
    module = build(lambda x: op("NextAfter")(x, op("Exp")(x)), (), profile="extended")
    with pytest.raises(UnsupportedOp, match="NextAfter: there is no derivative rule") as caught:
        ir.autodiff(module)
    assert (caught.value.code, caught.value.op) == ("E5001", "NextAfter")
    assert caught.value.values["value"] == 2


def test_M11_a_loop_of_unknown_length():
    def f(x):
        state = (pb.tensor(0), x)
        return pb.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), state)[1]

    module = ir.from_function(f, pb.tensor(2.0))
    with pytest.raises(UnsupportedOp, match="has no reverse-mode rule") as caught:
        ir.autodiff(module)
    assert (caught.value.code, caught.value.values["value"]) == ("E5001", module.outputs[0])


@pytest.mark.parametrize(
    ("make", "shapes", "name"),
    [
        (op("Div"), [(), ()], "Div"),
        (lambda x, w: op("Sum", (0, 1, 2, 3), False)(op("Conv2d", (1, 1), "VALID")(x, w)),
         [(1, 2, 2, 1), (2, 2, 1, 1)], "Conv2d"),
    ],
)  # fmt: skip
def test_M12_M13_forward_only_in_core(make, shapes, name):
    module = build(make, *shapes)
    with pytest.raises(UnsupportedOp, match=f'{name}: .* core-v1, at %2.*\n.*profile="extended"'):
        ir.autodiff(module)
    arrays = [np.ones(shape) for shape in shapes]
    assert np.isfinite(ir.run(module, feed(module, arrays))[0])
    made = ir.autodiff(module, profile="extended")
    assert made.gradient_module.profile == "extended"
    ir.verify(made.gradient_module)


def test_M17_an_invalid_axis_that_was_not_verified():
    module = ir.parse(X + "%1 = Sum(%0, [5], false) : Tensor<f32, []>\noutputs: %1\n")
    with pytest.raises(InvalidAxis, match="gradient of Sum, at %1") as caught:
        ir.autodiff(module, options=ir.GradientOptions(verify=False))
    assert (caught.value.code, caught.value.values["inner"]) == ("E5003", "E3004")


@pytest.mark.parametrize("keepdims", ["true", "false"])
@pytest.mark.parametrize(("axes", "inner"), [("[7]", "E3004"), ("[1, 1]", "E3005")])
def test_M17_for_every_kind_of_reduction(axes, inner, keepdims):
    for word in ("Sum", "Mean"):
        line = f"%1 = {word}(%0, {axes}, {keepdims}) : Tensor<f32, []>\n"
        with pytest.raises(InvalidAxis) as caught:
            ir.autodiff(
                ir.parse(X + line + "outputs: %1\n"), options=ir.GradientOptions(verify=False)
            )
        assert caught.value.values["inner"] == inner


def test_another_error_that_was_not_verified_is_reported_too():
    module = ir.parse(
        '%0 = Input() {name: "x"} : Tensor<f32, []>\n'
        "%1 = MatMul(%0, %0) : Tensor<f32, []>\noutputs: %1\n"
    )
    with pytest.raises(GradientVerification):
        ir.autodiff(module, options=ir.GradientOptions(verify=False))


def test_M18_outputs_that_cannot_be_differentiated():
    wide = build(op("Exp"), (2,))
    with pytest.raises(UnsupportedShape, match=r"must be a float scalar.*f64.2.") as caught:
        ir.autodiff(wide)
    assert caught.value.code == "E5004"
    two = ir.parse(X + "outputs: %0, %0\n")
    with pytest.raises(UnsupportedShape, match="there are 2: %0, %0"):
        ir.autodiff(two)
    with pytest.raises(UnsupportedShape, match="must be one of the outputs, %2, got 1"):
        ir.autodiff(LOSS, output=1)
    whole = ir.parse('%0 = Input() {name: "n"} : Tensor<i64, []>\noutputs: %0\n')
    for seed in (None, True):
        with pytest.raises(UnsupportedShape, match="i64"):
            ir.autodiff(whole, seed=seed)


def test_M19_only_floats_can_be_differentiated():
    module = ir.parse(
        '%0 = Input() {name: "x"} : Tensor<f32, [3]>\n%1 = Input() {name: "i"} : Tensor<i64, []>\n'
        "%2 = Gather(%0, %1) : Tensor<f32, []>\n%3 = ConstF32(2.0) : Tensor<f32, []>\n"
        "%4 = BinOp(Mul, %2, %3) : Tensor<f32, []>\noutputs: %4\n"
    )
    assert list(ir.autodiff(module).gradients) == [0]
    for target, what in ((1, "i64"), ("i", "i64"), (3, "a constant")):
        with pytest.raises(NonDifferentiableInput, match=f"it is {what}") as caught:
            ir.autodiff(module, wrt=[target])
        assert caught.value.code == "E5005"
    with pytest.raises(ArgumentError, match=r"no value 'y'(.|\n)*inputs are x, i"):
        ir.autodiff(module, wrt=["y"])
    with pytest.raises(ArgumentError, match="no value 9"):
        ir.autodiff(module, wrt=[9])


def test_arguments_that_mean_nothing():
    module = ir.parse('%0 = Input() {name: "x"} : Tensor<f32, []>\noutputs: %0\n')
    for wrong in ({"seed": ""}, {"seed": 1.0}, {"options": None}, {"options": {"verify": False}}):
        with pytest.raises(ArgumentError, match=f"autodiff: {next(iter(wrong))} must be"):
            ir.autodiff(module, **wrong)
    with pytest.raises(UnsupportedShape, match="there is none"):
        ir.autodiff(ir.parse('%0 = Input() {name: "x"} : Tensor<f32, []>\noutputs:\n'))


def test_M20_errors_are_the_same_in_every_process():
    found = {in_a_process(QUOTIENT, seed) for seed in (0, 7)}
    with pytest.raises(UnsupportedOp) as caught:
        ir.autodiff(ir.parse(QUOTIENT))
    assert found == {f"UnsupportedOp E5001 {caught.value}"}


def test_M21_the_first_error_in_reverse_order_is_reported():
    def two(x, y):
        first = op("Div")(x, y)
        return op("Exp")(op("Div")(op("Neg")(first), y))

    with pytest.raises(UnsupportedOp) as caught:
        ir.autodiff(build(two, (), ()))
    assert caught.value.values["value"] == 4


@pytest.mark.parametrize(
    "lines",
    [
        "%1 = ConstF32(2.0) : Tensor<f32, []>\n%2 = BinOp(Div, %1, %1) : Tensor<f32, []>\n"
        "%3 = BinOp(Mul, %0, %2) : Tensor<f32, [2, 3]>\n",
        "%2 = BinOp(Div, %0, %0) : Tensor<f32, [2, 3]>\n%3 = Neg(%0) : Tensor<f32, [2, 3]>\n",
    ],
    ids=["of constants", "unused"],
)
def test_K17_only_active_instructions_need_a_rule_unless_all_are_asked_for(lines):
    module = ir.parse(X + lines + "%4 = Sum(%3, [], false) : Tensor<f32, []>\noutputs: %4\n")
    assert list(ir.autodiff(module).gradients) == [0]
    with pytest.raises(UnsupportedOp, match="Div") as caught:
        ir.autodiff(module, options=ir.GradientOptions(strict_ops=True))
    assert caught.value.values["value"] == 2
