"""Conversion of functions to modules and of modules to functions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import line, told

import pullback as pb
from pullback import ir
from pullback.errors import ArgumentError, DTypeError, ShapeError, TraceError


def network(params, x):
    w, b = params["w"], params["b"]
    return pb.mean(pb.relu(x @ w + b))


PARAMS = {"w": pb.ones((3, 4)) * 0.5, "b": pb.zeros(4)}
X = pb.tensor(np.arange(6, dtype="f").reshape(2, 3))


def test_a_function_of_trees_is_a_module_of_core_v1():
    module = ir.from_function(network, PARAMS, X)
    assert module.profile == "core-v1"
    assert module.graph.names == ("params['b']", "params['w']", "x")
    arrays = {"params['b']": np.zeros(4, "f"), "params['w']": np.full((3, 4), 0.5, "f"), "x": X}
    assert ir.run(module, arrays)[0] == network(PARAMS, X).item()


def test_names_can_be_given():
    module = ir.from_function(network, PARAMS, X, names=["b", "w", "inputs"])
    assert module.graph.names == ("b", "w", "inputs")
    with pytest.raises(ArgumentError, match="needs 3 names for the tensors"):
        ir.from_function(network, PARAMS, X, names=["b"])


def test_captured_tensors_are_inputs_and_those_made_inside_are_constants():
    scale = pb.tensor([2.0, 3.0])

    def f(x):
        return x * scale + pb.tensor([10.0, 20.0]) * 2.0

    module = ir.from_function(f, pb.ones(2))
    assert module.graph.names == ("x", "captured0")
    assert "ConstTensor([10.0, 20.0])" in module.text()
    got = ir.run(module, {"x": [1.0, 1.0], "captured0": [5.0, 6.0]})[0]
    assert got.tolist() == [25.0, 46.0]
    assert ir.from_function(f, pb.ones(2), names=["x", "scale"]).graph.names == ("x", "scale")


def test_a_function_that_branched_on_a_value_is_refused():
    def f(x):
        return x if x.sum() > 0 else -x

    with told(TraceError, RuntimeError, "cannot be written as a module", at=line(-2)):
        ir.from_function(f, pb.ones(2))


def test_integers_and_keys_are_arguments():
    def f(key, n):
        return pb.random.normal(key, (3,)) * n.astype("f32")

    key = pb.random.key(7)
    module = ir.from_function(f, key, pb.tensor(2))
    got = ir.run(module, {"key": key, "n": 3})[0]
    np.testing.assert_array_equal(got, f(key, pb.tensor(3)).numpy())
    trace = pb.trace(f, key, pb.tensor(2))
    np.testing.assert_array_equal(trace.replay(key, pb.tensor(3)).numpy(), got)


def test_a_custom_rule_cannot_be_written():
    @pb.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda x, g: (g * x,))
    with pytest.raises(TraceError, match="cannot be written as text"):
        ir.from_function(f, pb.tensor(1.0))


# -- modules as functions -------------------------------------------------------------------------

LOSS = ir.from_function(network, PARAMS, X, names=["b", "w", "x"])


def test_a_module_is_a_function_by_position_and_by_name():
    f = ir.to_function(LOSS)
    expected = network(PARAMS, X).item()
    assert f(PARAMS["b"], PARAMS["w"], X).item() == expected
    assert f(PARAMS["b"], x=X, w=PARAMS["w"]).item() == expected
    with pytest.raises(ArgumentError, match="takes 3 inputs, got 4"):
        f(1, 2, 3, 4)
    with pytest.raises(ArgumentError, match="input 'b' is given twice"):
        f(PARAMS["b"], b=PARAMS["b"])
    with pytest.raises(ShapeError, match=r"input 'x' is declared as f32\[2,3\], got f32\[3\]"):
        f(PARAMS["b"], PARAMS["w"], X[0])
    with pytest.raises(DTypeError, match=r"input 'x' is declared as f32\[2,3\], got f64\[2,3\]"):
        f(PARAMS["b"], PARAMS["w"], X.astype("f64"))


def test_several_outputs_are_a_tuple():
    f = ir.to_function(ir.from_function(lambda x: (x + 1.0, x * 2.0), pb.tensor(1.0)))
    assert [y.item() for y in f(3.0)] == [4.0, 6.0]


def test_a_module_is_differentiated_like_any_function():
    f = ir.to_function(LOSS)
    got = pb.grad(f, argnums=(0, 1))(PARAMS["b"], PARAMS["w"], X)
    want = pb.grad(network)(PARAMS, X)
    np.testing.assert_array_equal(got[0].numpy(), want["b"].numpy())
    np.testing.assert_array_equal(got[1].numpy(), want["w"].numpy())
    w = pb.tensor(PARAMS["w"], requires_grad=True)
    f(PARAMS["b"], w, X).backward()
    np.testing.assert_array_equal(w.grad.numpy(), want["w"].numpy())


def test_a_module_is_compiled_mapped_and_pushed_forward():
    f = ir.to_function(LOSS)
    rows = pb.stack([X, X * 2.0, X - 1.0])
    mapped = pb.vmap(lambda x: f(PARAMS["b"], PARAMS["w"], x))(rows)
    np.testing.assert_allclose(mapped.numpy(), [network(PARAMS, x).item() for x in rows])
    compiled = pb.compile(f)
    assert compiled(PARAMS["b"], PARAMS["w"], X).item() == pytest.approx(network(PARAMS, X).item())
    _, t = pb.jvp(lambda x: f(PARAMS["b"], PARAMS["w"], x), (X,), (X,))
    assert t.item() == pytest.approx(network(PARAMS, X).item())


def test_a_gradient_module_agrees_with_grad():
    made = ir.autodiff(LOSS, wrt=["b", "w"]).gradient_module
    _, db, dw = ir.to_function(made)(PARAMS["b"], PARAMS["w"], X)
    want = pb.grad(network)(PARAMS, X)
    np.testing.assert_array_equal(db.numpy(), want["b"].numpy())
    np.testing.assert_array_equal(dw.numpy(), want["w"].numpy())


def test_a_gradient_of_the_extended_profile_leaks_nothing_from_a_branch_not_taken():
    def f(x):
        return pb.where(x > 0, pb.log(x) / x, 0.0).sum()

    x = np.array([0.0, 2.0], "f")
    module = ir.from_function(f, pb.tensor(x))
    (_, got) = ir.run(ir.autodiff(module).gradient_module, {"x": x})
    np.testing.assert_array_equal(got, pb.grad(f)(pb.tensor(x)).numpy())
    assert got[0] == 0


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_loops_are_differentiated_in_modules(engine):
    def f(x):
        return pb.scan(lambda c, _: (pb.sin(c) * x, c), x, None, length=5)[0].sum()

    x = np.array([0.3, 0.7], "f")
    made = ir.autodiff(ir.from_function(f, pb.tensor(x))).gradient_module
    again = ir.parse(made.text())
    assert again.text() == made.text()
    want = pb.grad(f)(pb.tensor(x)).numpy()
    np.testing.assert_allclose(ir.run(again, {"x": x}, engine=engine)[1], want, rtol=1e-6)


def test_names_of_inputs_are_different_strings():
    x = pb.ones(2)
    for names in (["a", "a"], ["a", ""], ["a", 3], ["a", "b", "a"]):
        with pytest.raises(ArgumentError, match="different strings"):
            pb.ir.from_function(lambda y, z: y * z + x, x, x, names=names)
