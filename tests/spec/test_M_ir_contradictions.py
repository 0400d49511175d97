"""Contradictions in the specification of the static IR, resolved as CHECKLIST's table K says."""

from __future__ import annotations

import itertools

import pytest
from ir_texts import X, fails, input_line

import pullback as pb
from pullback.graph.op_table import TABLE


def test_K5_an_empty_list_of_axes_is_all_of_them():
    for keepdims in ("true", "false"):
        module = pb.ir.parse(X + f"%1 = Sum(%0, [], {keepdims}) : Tensor<f32, []>\noutputs: %1")
        assert "Sum(%0, [0, 1], false)" in pb.ir.canonicalise(module).text()
    scalar = input_line(0, []) + "%1 = Sum(%0, [], true) : Tensor<f32, []>\noutputs: %1"
    pb.ir.verify(pb.ir.parse(scalar))


def test_K6_K7_K8_slices():
    text = "%1 = Slice(%0, [{}, {}]) : Tensor<f32, {}>\noutputs: %1"
    fails("E3006", X + text.format("1:1:1", "0:3:1", [0, 3]))
    fails("E3006", X + text.format("1:1:1", "0:3:1", [1, 3]))
    pb.ir.verify(pb.ir.parse(X + text.format("-5:9:1", "1:100:2", [2, 1])))
    pb.ir.verify(pb.ir.parse(X + text.format("0:2", "0:3", [2, 3])))
    fails("E4008", X + text.format("0:2:-1", "0:3:1", [2, 3]))
    forms = ("-5:9:1", "1:100:2"), ("0:2", "1:3:2"), ("0:7:1", "1:4:2")
    made = [pb.ir.parse(X + text.format(*form, [2, 1])) for form in forms]
    assert "Slice(%0, [0:2:1, 1:3:2])" in pb.ir.canonicalise(made[0]).text()
    assert len({*map(pb.ir.fingerprint, made)}) == 1


def test_K10_one_size_may_be_left_open():
    text = "%1 = Reshape(%0, {}) : Tensor<f32, [3, 2]>\noutputs: %1"
    made = pb.ir.canonicalise(pb.ir.parse(X + text.format([3, -1])))
    assert "Reshape(%0, [3, 2])" in made.text()
    fails("E3006", X + text.format([-1, -1]))
    fails("E3006", X + text.format([-3, -2]))
    fails("E3007", X + text.format([4, -1]), counts=(6, 4))
    fails("E3007", X + text.format([0, 2]))


def test_K11_an_axis_that_is_inserted_twice_is_two():
    text = "%1 = ExpandDims(%0, {}) : Tensor<f32, {}>\noutputs: %1"
    made = pb.ir.canonicalise(pb.ir.parse(X + text.format([0, 0], [1, 1, 2, 3])))
    assert "ExpandDims(%0, [0, 1])" in made.text()
    made = pb.ir.canonicalise(pb.ir.parse(X + text.format([1, 1, 2], [2, 1, 1, 1, 3])))
    assert "ExpandDims(%0, [1, 2, 3])" in made.text()
    fails("E3004", X + text.format([3], [2, 3, 1]), axis=3)


def test_K12_axes_may_count_from_the_end():
    forms = {
        "Sum(%0, [-1], true)": ("Sum(%0, [1], true)", [2, 1]),
        "Transpose(%0, [-1, 0])": ("Transpose(%0, [1, 0])", [3, 2]),
        "ExpandDims(%0, [-1])": ("ExpandDims(%0, [2])", [2, 3, 1]),
    }
    for form, (printed, shape) in forms.items():
        module = pb.ir.parse(X + f"%1 = {form} : Tensor<f32, {shape}>\noutputs: %1")
        assert printed in pb.ir.canonicalise(module).text()
    text = input_line(0, [2, 1]) + "%1 = Squeeze(%0, [-1]) : Tensor<f32, [2]>\noutputs: %1"
    assert "Squeeze(%0, [1])" in pb.ir.canonicalise(pb.ir.parse(text)).text()


def test_K20_unknown_dimensions_are_read_and_refused():
    for profile in ("core-v1", "extended"):
        text = f'profile: {profile}\n%0 = Input() {{name: "x"}} : Tensor<f32, [?, 2]>\noutputs: %0'
        assert "Tensor<f32, [?, 2]>" in pb.ir.parse(text).text()
        fails("E3006", text, dimension=0)


def test_K21_add_and_mul_commute_and_no_other_core_instruction():
    core = [n for n, cls in TABLE.items() if cls.text.profile == "core-v1"]
    assert [n for n in core if TABLE[n].commutative] == ["Add", "Mul"]


def test_K22_a_reshape_of_another_count_is_E3007():
    fails("E3007", X + "%1 = Reshape(%0, [5]) : Tensor<f32, [5]>\noutputs: %1")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_inputs_come_first_in_the_order_in_which_they_are_written(order):
    lines = [input_line(i, [i + 1]) for i in order]
    module = pb.ir.parse("%9 = ConstI64(1) : Tensor<i64, []>\n" + "".join(lines) + "outputs: %9")
    assert list(module.graph.names) == [f"x{i}" for i in order]
