"""Differentiating modules into modules: results, options, targets (M1 to M24)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from modules import Derived, build, in_a_process, instructions, op

from pullback import ir
from pullback.errors import ArgumentError, AutodiffError, GradientVerification, PullbackError
from pullback.graph.node import Node
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type

X = '%0 = Input() {name: "x"} : Tensor<f32, [2, 3]>\n'
LOSS = ir.parse(
    X + '%1 = Input() {name: "w"} : Tensor<f32, [3, 4]>\n'
    "%2 = MatMul(%0, %1) : Tensor<f32, [2, 4]>\n"
    "%3 = ConstF32(0.5) : Tensor<f32, []>\n"
    "%4 = BinOp(Mul, %2, %3) : Tensor<f32, [2, 4]>\n"
    "%5 = Relu(%4) : Tensor<f32, [2, 4]>\n"
    "%6 = Mean(%5, [], false) : Tensor<f32, []>\n"
    "outputs: %6\n"
)


def square(x):
    return op("Sum", (0,), False)(op("Mul")(x, x))


# -- the result -----------------------------------------------------------------------------------


def test_M1_autodiff_takes_modules():
    with pytest.raises(ArgumentError, match=r"needs a Module, got str"):
        ir.autodiff(LOSS.text())


def test_M2_a_module_that_is_wrong_is_not_differentiated():
    module = ir.parse(X + "%1 = Sum(%0, [2], false) : Tensor<f32, []>\noutputs: %1\n")
    with pytest.raises(PullbackError) as caught:
        ir.autodiff(module)
    assert caught.value.code == "E3004"
    assert not isinstance(caught.value, AutodiffError)


def test_M2_the_canonical_form_is_differentiated():
    twice = X + (
        "%7 = Exp(%0) : Tensor<f32, [2, 3]>\n%8 = %7\n%9 = Exp(%0) : Tensor<f32, [2, 3]>\n"
        "%3 = BinOp(Mul, %8, %9) : Tensor<f32, [2, 3]>\n"
        "%4 = Sum(%3, [], true) : Tensor<f32, []>\noutputs: %4\n"
    )
    once = X + (
        "%1 = Exp(%0) : Tensor<f32, [2, 3]>\n%2 = BinOp(Mul, %1, %1) : Tensor<f32, [2, 3]>\n"
        "%3 = Sum(%2, [0, 1], false) : Tensor<f32, []>\noutputs: %3\n"
    )
    first, second = ir.autodiff(ir.parse(twice)), ir.autodiff(ir.parse(once))
    assert first.gradient_module == second.gradient_module
    assert first.gradients == second.gradients


def test_M3_M4_gradients_map_values_to_values_of_the_same_type():
    made = ir.autodiff(LOSS, options=ir.GradientOptions(gradients="all"))
    assert set(made.gradients) == {0, 1, 2, 4, 5, 6}
    for i, g in made.gradients.items():
        assert made.gradient_module.values[g].type is LOSS.values[i].type


def test_M5_the_gradient_module_verifies_and_runs_alone():
    module = ir.parse(ir.autodiff(LOSS).gradient_module.text())
    assert module.profile == "core-v1+gradient"
    ir.verify(module)
    x, w = np.ones((2, 3), "f"), np.ones((3, 4), "f")
    loss, dx, dw = ir.run(module, {"x": x, "w": w})
    assert loss == 1.5 and dx.shape == x.shape and dw.shape == w.shape
    np.testing.assert_allclose(dx, 0.25)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: op("Mul")(x, x), 6.0),
        (lambda x: op("Add")(op("Mul")(x, x), op("Neg")(x)), 5.0),
        (lambda x: op("Add")(op("Add")(op("Add")(x, x), x), x), 4.0),
    ],
)  # fmt: skip
def test_M6_contributions_to_one_value_are_summed(make, expected):
    made = ir.autodiff(build(make, ())).gradient_module
    assert ir.run(made, {"x": 3.0})[-1] == expected


def test_M6_reverse_order():
    lines = Derived(build(lambda x: op("Neg")(op("Exp")(op("Relu")(x))), (2,))).lines
    assert [line.split(" = ")[1] for line in lines] == [
        "Neg(%1)", "BinOp(Mul, %3, %5)", "Step(%0)", "BinOp(Mul, %6, %7)",
    ]  # fmt: skip


def test_M7_M16_gradients_are_outputs_of_a_canonical_module():
    made, gradients = ir.autodiff(LOSS)
    assert made.outputs[1:] == tuple(gradients.values())
    again, places = ir.canonicalise(made, with_map=True)
    assert again == made
    assert all(places[i] == i for i in made.outputs)


def test_M8_canonicalisation_cannot_be_switched_off():
    fields = [f.name for f in dataclasses.fields(ir.GradientOptions)]
    assert fields == ["verify", "strict_ops", "gradients"]
    assert ir.GradientOptions().verify is True
    with pytest.raises(ArgumentError, match="gradients must be one of"):
        ir.GradientOptions(gradients="some")


# -- verification ---------------------------------------------------------------------------------


def wrong_type(self, g, out, xs, need):
    return [Node(g.op if g.inputs else TABLE["Neg"](), (g,), Type((7,), g.type.dtype))]


def wrong_node(self, g, out, xs, need):
    made = TABLE["Neg"]()(g)
    made.inputs = (Node(TABLE["Exp"](), (g,), Type((9,), g.type.dtype)),)
    return [made]


def wrong_op(self, g, out, xs, need):
    return [TABLE["Sin"]()(g)]


def wrong_shape(self, g, out, xs, need):
    return [TABLE["MatMul"]()(g, g)]


@pytest.mark.parametrize(
    ("rule", "inner"),
    [(wrong_type, "E2001"), (wrong_node, "E4001"), (wrong_op, "E6003"), (wrong_shape, "E3002")],
)
def test_M9_a_corrupted_rule_gives_no_module(monkeypatch, rule, inner):
    monkeypatch.setattr(TABLE["Exp"], "vjp", rule)
    module = build(lambda x: op("Sum", (0,), False)(op("Exp")(x)), (2,))
    with pytest.raises(GradientVerification, match=inner) as caught:
        ir.autodiff(module)
    assert caught.value.code == "E5002"
    assert caught.value.values["inner"] == inner


def test_M10_without_verifying_the_text_is_the_same():
    fast = ir.GradientOptions(verify=False)
    assert ir.autodiff(LOSS, options=fast) == ir.autodiff(LOSS)


def test_M14_every_extension_has_a_derivative_or_the_mark_that_it_has_none():
    found = {e.name: e for e in ir.extensions()}
    core = {name for name, cls in TABLE.items() if cls.text.profile in ("", "core-v1")}
    library = {n for n, cls in TABLE.items() if cls.__module__.startswith("pullback.")}
    assert set(found) == library - core
    for name, extension in found.items():
        assert extension.summary, name
        assert extension.derivative is None or all(extension.derivative), name
        if extension.derivative is not None:
            assert TABLE[name].differentiable
    assert found["Sin"].derivative == ("g * Cos(x)",)
    assert found["Floor"].derivative == ("none: it is 0 everywhere",)
    assert found["ArgMax"].derivative is None
    assert {n for n, e in found.items() if e.profile == "core-v1+gradient"} == {
        "Broadcast", "DotGeneral", "Pad", "ScatterAdd", "Step",
    }  # fmt: skip


def test_M15_an_input_that_is_not_used_gets_explicit_zeros():
    module = build(lambda x, y: square(x), (2,), (3, 2))
    made, gradients = ir.autodiff(module)
    assert list(gradients) == [0, 1]
    zeros = instructions(made)[gradients[1]]
    assert "Broadcast(" in zeros and zeros.endswith("Tensor<f64, [3, 2]>")
    got = ir.run(made, {"x": [1.0, 2.0], "y": np.ones((3, 2))})
    np.testing.assert_array_equal(got[2], np.zeros((3, 2)))


def test_M22_gradients_are_the_same_in_every_process():
    expected = ir.autodiff(LOSS).gradient_module.text().strip()
    assert {in_a_process(LOSS.text(), seed) for seed in (1, 12345)} == {expected}


def test_M24_constants_get_no_gradient_and_no_contribution():
    module = build(lambda x: op("Mul")(x, x) * 3.0 + 2.0, ())
    made, gradients = ir.autodiff(module, options=ir.GradientOptions(gradients="all"))
    constants = {i.results[0] for i in module.instructions if i.op.startswith("Const")}
    assert len(constants) == 2 and not constants & set(gradients)
    assert all(i in made.outputs for i in gradients.values())


# -- what is differentiated, and by what ----------------------------------------------------------


def test_K15_an_output_and_a_seed_can_be_chosen():
    module = ir.parse(
        X + "%1 = Exp(%0) : Tensor<f32, [2, 3]>\n"
        "%2 = Sum(%1, [], false) : Tensor<f32, []>\noutputs: %1, %2\n"
    )
    made, _ = ir.autodiff(module, output=2)
    assert len(made.outputs) == 3
    made, _ = ir.autodiff(module, output=1, seed="v")
    assert made.graph.names == ("x", "v")
    x, v = np.zeros((2, 3), "f"), np.arange(6, dtype="f").reshape(2, 3)
    np.testing.assert_array_equal(ir.run(made, {"x": x, "v": v})[2], v)
    with pytest.raises(ArgumentError, match="there is already an input 'x'"):
        ir.autodiff(module, output=1, seed="x")
    with pytest.raises(ArgumentError, match=r"seed must be True or a name, got 2\.0"):
        ir.autodiff(module, output=2, seed=2.0)


def test_K16_gradients_by_intermediate_values_come_in_the_order_asked_for():
    made, gradients = ir.autodiff(LOSS, wrt=[4, "x", 2])
    assert list(gradients) == [4, 0, 2]
    assert list(ir.autodiff(LOSS, wrt="w").gradients) == [1]
    assert made.outputs[1:] == tuple(gradients.values())


def test_K16_a_value_that_nothing_uses_has_a_zero_gradient():
    module = ir.parse(
        X + "%1 = Exp(%0) : Tensor<f32, [2, 3]>\n"
        "%2 = Sum(%0, [], false) : Tensor<f32, []>\noutputs: %2\n"
    )
    made, _ = ir.autodiff(module, wrt=[1])
    np.testing.assert_array_equal(ir.run(made, {"x": np.ones((2, 3), "f")})[1], np.zeros((2, 3)))


def test_stop_gradient_ends_a_path():
    def f(x):
        return op("Add")(op("Mul")(x, op("StopGradient")(x)), x)

    module = build(f, (), profile="extended")
    made = ir.autodiff(module).gradient_module
    assert ir.run(made, {"x": 3.0})[1] == 4.0
    assert ir.autodiff(ir.canonicalise(module)).gradient_module == made


@pytest.mark.parametrize("count", [10, 1_000, 100_000])
def test_autodiff_is_linear(count):
    def chain(x):
        y = x
        for i in range(count):
            y = y + x if i % 10 == 9 else op("Neg")(y)
        return y

    made, _ = ir.autodiff(build(chain, ()))
    assert len(made.instructions) < 3 * count
