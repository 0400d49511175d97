"""Ops that users define by subclassing the op class (N39), in both engines and every transform."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from helpers import line, told

import pullback as pb
from pullback import testing
from pullback.errors import (
    ArgumentError,
    EngineError,
    GradientVerification,
    ShapeError,
    UnsupportedOp,
    VerificationError,
)
from pullback.graph.op_table import TABLE
from pullback.ops.parts import Parts
from pullback.ops.text import Text

X = np.array([0.3, -0.7, 1.1])


@pytest.fixture(params=["xla", "reference"], autouse=True)
def engine(request):
    with pb.config(engine=request.param):
        yield request.param


@pytest.fixture(autouse=True)
def table():
    """Remove the ops that a test defined: other tests walk over the whole table."""
    before = dict(TABLE)
    yield
    TABLE.clear()
    TABLE.update(before)


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=1e-9)


def softsign():
    class Softsign(pb.Elementwise):
        """x / (1 + |x|)."""

        kinds = "f"

        def numpy(self, x):
            return x / (1 + np.abs(x))

        def expand(self, x):
            return x / (pb.op("Abs")(x) + 1)

        def partials(self, out, x):
            scale = pb.op("Abs")(x) + 1
            return (1 / (scale * scale),)

    return Softsign()


def scaled(factor):
    class Scaled(pb.Op):
        """A whole number times the operand."""

        factor: int
        linear = True

        def infer(self, x):
            return x

        def numpy(self, x):
            return (x * self.factor).astype(x.dtype)

        def hlo(self, b, out, x):
            return b.op("stablehlo.multiply", x, b.full(out, self.factor), out=out)

        def vjp(self, g, out, xs, need):
            return [self(g)]

        def batch(self, axis, xs, mapped):
            return self(*xs)

    return Scaled(factor)


def halves():
    class Halves(pb.Op):
        """The first and the second half of a vector."""

        linear = True

        def infer(self, x):
            if x.rank != 1 or x.shape[0] % 2:
                raise ShapeError(f"needs a vector of even length, got {x}")
            half = x.with_shape((x.shape[0] // 2,))
            return half, half

        def numpy(self, x):
            return tuple(np.split(x, 2))

        def hlo(self, b, out, x):
            n = out[0].shape[0]
            return tuple(
                b.op("stablehlo.slice", x, out=out[0], start_indices=(k,),
                     limit_indices=(k + n,), strides=(1,))
                for k in (0, n)
            )  # fmt: skip

        def vjp(self, g, out, xs, need):
            return [pb.op("Concat", 0)(*g)]

    return Halves()


def swish():
    class Swish(pb.Composite):
        """x / (1 + exp(-b x))."""

        def expand(self, x, b):
            return x / (pb.op("Exp")(-(x * b)) + 1)

    return Swish()


# -- what works -----------------------------------------------------------------------------------


def test_N39_an_elementwise_op_with_partials():
    op = softsign()
    x = pb.tensor(X)
    close(pb.apply(op, x), X / (1 + abs(X)))
    close(pb.grad(lambda x: pb.apply(op, x).sum())(x), 1 / (1 + abs(X)) ** 2)
    close(pb.jvp(lambda x: pb.apply(op, x), (x,), (x,))[1], X / (1 + abs(X)) ** 2)
    close(pb.vmap(lambda x: pb.apply(op, x))(x), X / (1 + abs(X)))
    pb.check_grads(lambda x: pb.apply(op, x), (x,), order=3)


def test_N39_a_general_op_with_every_rule():
    op = scaled(3)
    x = pb.tensor(X)
    close(pb.apply(op, x), 3 * X)
    close(pb.grad(lambda x: pb.apply(op, x * x).sum())(x), 6 * X)
    close(pb.jvp(lambda x: pb.apply(op, x), (x,), (x,))[1], 3 * X)
    close(pb.grad(lambda x: pb.vmap(lambda x: pb.apply(op, x * x))(x).sum())(x), 6 * X)
    close(pb.vmap(pb.grad(lambda x: pb.apply(op, x * x)))(x), 6 * X)
    assert pb.eval_shape(lambda x: pb.apply(op, x), x) == pb.Type((3,), pb.float64)


def test_N39_an_op_with_several_results():
    op = halves()
    x = pb.tensor(np.arange(4.0))
    first, second = pb.apply(op, x)
    assert (first.tolist(), second.tolist()) == ([0.0, 1.0], [2.0, 3.0])

    def f(x):
        first, second = pb.apply(op, x)
        return (first * second).sum()

    close(pb.grad(f)(x), [2.0, 3.0, 0.0, 1.0])
    pb.check_grads(f, (x,))


def test_N39_a_composite_op():
    op = swish()
    x, b = pb.tensor(X), pb.tensor(X + 2)
    close(pb.apply(op, x, b), X / (1 + np.exp(-X * (X + 2))))
    pb.check_grads(lambda x, b: pb.apply(op, x, b), (x, b))
    close(pb.vmap(lambda x, b: pb.apply(op, x, b))(x, b), X / (1 + np.exp(-X * (X + 2))))


def test_elementwise_operands_are_promoted_and_numbers_take_their_type():
    class Hypotenuse(pb.Elementwise):
        kinds = "f"
        differentiable = False

        def numpy(self, x, y):
            return np.sqrt(x * x + y * y)

        def expand(self, x, y):
            return pb.op("Sqrt")(x * x + y * y)

    made = pb.apply(Hypotenuse(), pb.tensor([3.0]), pb.tensor([4.0], dtype="float64"))
    assert made.dtype is pb.float64 and made.tolist() == [5.0]
    made = pb.apply(Hypotenuse(), pb.tensor([3.0]), 4)
    assert made.dtype is pb.float32 and made.tolist() == [5.0]


def test_ops_run_in_eager_mode_under_backward_and_inside_other_transforms():
    op = scaled(2)
    w = pb.tensor(X, requires_grad=True)
    pb.apply(op, w * w).sum().backward()
    close(w.grad, 4 * X)
    with pb.config(eager=True):
        close(pb.apply(op, pb.tensor(X)), 2 * X)
    safe = pb.checkpoint(lambda x: pb.apply(op, pb.sin(x)))
    close(pb.grad(lambda x: safe(x).sum())(pb.tensor(X)), 2 * np.cos(X))
    text = str(pb.trace(lambda x: pb.apply(op, x), pb.tensor(X)))
    assert "Scaled(%0) {factor: 2}" in text


def test_equal_parameters_are_the_same_op_and_the_same_program():
    from pullback.lazy.launch import state

    kind = type(scaled(2))
    assert kind(2) is kind(2) and kind(2) is not kind(3)
    pb.apply(kind(2), pb.tensor(X)).numpy()
    before = state.cache.compiles
    pb.apply(kind(2), pb.tensor(X)).numpy()
    assert state.cache.compiles == before
    pb.apply(kind(3), pb.tensor(X)).numpy()
    assert state.cache.compiles == before + 1


def test_an_op_that_is_defined_again_is_never_the_old_one():
    def define(factor):
        class Again(pb.Elementwise):
            def numpy(self, x):
                return x * factor

            def expand(self, x):
                return x * factor

            def partials(self, out, x):
                return (factor,)

        return Again()

    x = pb.tensor(X)
    for factor in (2, 5, 7):
        op = define(factor)
        assert TABLE["Again"] is type(op) and pb.op("Again") is op
        close(pb.apply(op, x), factor * X)
        close(pb.grad(lambda x: pb.apply(pb.op("Again"), x).sum())(x), [factor] * 3)


# -- check_op -------------------------------------------------------------------------------------


def test_check_op_accepts_correct_ops():
    testing.check_op(softsign(), X)
    testing.check_op(softsign(), X.astype("f"))
    testing.check_op(scaled(3), X)
    testing.check_op(swish(), X, X + 2)


@pytest.mark.parametrize("fault", ["numpy", "expand", "partials", "batch"])
def test_check_op_finds_a_wrong_rule(fault):
    class Cubed(pb.Elementwise):
        kinds = "f"

        def numpy(self, x):
            return x**3 + (1 if fault == "numpy" else 0)

        def expand(self, x):
            return x * x * (x + x if fault == "expand" else x)

        def partials(self, out, x):
            return (x * x * (2 if fault == "partials" else 3),)

        def batch(self, axis, xs, mapped):
            return pb.op("Flip", (0,))(self(*xs)) if fault == "batch" else self(*xs)

    with pytest.raises(AssertionError):
        testing.check_op(Cubed(), X)


def test_check_op_finds_a_wrong_type_and_a_wrong_second_derivative():
    class Wide(pb.Elementwise):
        differentiable = False

        def numpy(self, x):
            return x.astype("f8")

        def expand(self, x):
            return x

    with pytest.raises(EngineError, match=r"f32\[3\] differs from the engine's float64"):
        testing.check_op(Wide(), X.astype("f"))

    class Frozen(pb.Elementwise):
        """The derivative is right, but a constant, so the second derivative is wrong."""

        kinds = "f"

        def numpy(self, x):
            return x * x

        def expand(self, x):
            return x * x

        def partials(self, out, x):
            return (2 * pb.op("StopGradient")(x),)

    testing.check_op(Frozen(), X, order=1)
    with pytest.raises(AssertionError):
        testing.check_op(Frozen(), X)


# -- errors ---------------------------------------------------------------------------------------


def test_the_name_of_a_known_op_is_refused():
    with told(ArgumentError, ValueError, "Sin: there is an op of this name", "trigonometric"):

        class Sin(pb.Elementwise):
            pass

    assert TABLE["Sin"].__module__.startswith("pullback.")


def test_apply_and_op_check_their_arguments():
    kind = type(scaled(2))
    with told(ArgumentError, TypeError, "op must be an op, got Scaled", "pb.apply(Scale"):
        pb.apply(kind, pb.tensor(X))
    with told(ArgumentError, TypeError, "op must be an op, got function"):
        pb.apply(lambda x: x, pb.tensor(X))
    with told(ArgumentError, ValueError, "no op 'Sine'", "Did you mean"):
        pb.op("Sine")
    with told(ArgumentError, TypeError, "Scaled: parameters must be hashable"):
        kind(np.ones(3))


def test_an_error_of_the_type_rule_names_the_op_and_the_line():
    op, what = halves(), "halves: needs a vector of even length, got f64[3]"
    at = line(2)
    with told(ShapeError, ValueError, what, at=at):
        pb.apply(op, pb.tensor(X))


class Rough(pb.Op, abstract=True):
    """An identity; each test adds the rules it needs."""

    name: ClassVar[str] = "Rough"

    def infer(self, x):
        return x

    def numpy(self, x):
        return x

    def hlo(self, b, out, x):
        return x


def test_a_type_rule_must_return_a_type():
    class Shapes(Rough, abstract=True):
        def infer(self, x):
            return x.shape

    with told(VerificationError, ValueError, "shapes: infer must return a Type", "(3,)"):
        pb.apply(Shapes(), pb.tensor(X))


def test_a_missing_rule_is_an_error_that_names_the_op():
    x = pb.tensor(X)
    with pytest.raises(UnsupportedOp, match="rough: has no reverse-mode rule"):
        pb.grad(lambda x: pb.apply(Rough(), x).sum())(x)
    with pytest.raises(UnsupportedOp, match="rough: has no forward-mode rule"):
        pb.jvp(lambda x: pb.apply(Rough(), x), (x,), (x,))


def test_a_missing_meaning_is_an_error_at_the_users_line(engine):
    class Empty(pb.Op, abstract=True):
        def infer(self, x):
            return x

    at = line(1)
    y = pb.apply(Empty(), pb.tensor(X))
    what = "no StableHLO lowering" if engine == "xla" else "no NumPy meaning"
    with told(UnsupportedOp, TypeError, "empty", what, at=at):
        y.numpy()


@pytest.mark.parametrize(
    ("pulled", "words"),
    [
        (lambda g: [], "rough: the rule gave 0 cotangents for 1 operands"),
        (lambda g: g, "rough: the rule must give a list of 1 cotangents, got Node"),
        (lambda g: [2.0], "cotangents must be nodes or None, the rule gave a float"),
        (lambda g: [pb.op("Reshape", (1, 3))(g)], None),  # it reduces to the operand's shape
        (lambda g: [pb.op("Reshape", (3, 1))(g)], "cotangent of type f64[3,1] for an operand"),
        (lambda g: [pb.op("Cast", pb.float32)(g)], "cotangent of type f32[3] for an operand"),
    ],
)
def test_results_of_a_vjp_rule_are_checked(pulled, words):
    class Pulled(Rough, abstract=True):
        name: ClassVar[str] = "Rough"

        def vjp(self, g, out, xs, need):
            return pulled(g)

    def gradient():
        return pb.grad(lambda x: pb.apply(Pulled(), x).sum())(pb.tensor(X))

    if words is None:
        close(gradient(), [1.0] * 3)
        return
    with pytest.raises(GradientVerification) as info:
        gradient()
    assert words in str(info.value)


def test_results_of_a_jvp_rule_are_checked():
    class Pushed(Rough, abstract=True):
        def jvp(self, out, xs, ts):
            return [ts[0]]

    x = pb.tensor(X)
    with pytest.raises(GradientVerification, match="pushed: tangents must be nodes"):
        pb.jvp(lambda x: pb.apply(Pushed(), x), (x,), (x,))


def test_results_of_a_batching_rule_are_checked():
    class Batched(Rough, abstract=True):
        def batch(self, axis, xs, mapped):
            return pb.op("Reshape", (3, 1, 1))(xs[0])

    with pytest.raises(GradientVerification, match="batched: the batching rule gave f64"):
        pb.vmap(lambda x: pb.apply(Batched(), x))(pb.tensor(X))


def test_partials_must_match_the_operands():
    class Uneven(pb.Elementwise, abstract=True):
        def numpy(self, x, y):
            return x + y

        def expand(self, x, y):
            return x + y

        def partials(self, out, x, y):
            return (1,)

    x = pb.tensor(X)
    with pytest.raises(GradientVerification, match="uneven: partials must return a tuple of 2"):
        pb.grad(lambda x: pb.apply(Uneven(), x, x).sum())(x)


def test_a_wrong_result_of_hlo_or_numpy_is_an_error_at_the_users_line(engine):
    class Wrong(pb.Op, abstract=True):
        def infer(self, x):
            return x

        def numpy(self, x):
            return x.sum()

        def hlo(self, b, out, x):
            return b.constant(0.0, out.dtype)

    at = line(1)
    y = pb.apply(Wrong(), pb.tensor(X))
    with told(EngineError, RuntimeError, "wrong: inferred type f64[3] differs", at=at):
        y.numpy()

    class Nothing(Wrong, abstract=True):
        def hlo(self, b, out, x):
            return None

        def numpy(self, x):
            return None

    at = line(1)
    y = pb.apply(Nothing(), pb.tensor(X))
    with told(EngineError, RuntimeError, "nothing: ", at=at):
        y.numpy()


def test_float_parameters_are_compared_by_bits():
    class Shifted(pb.Elementwise):
        by: float
        differentiable = False

        def numpy(self, x):
            return x * 0 + x.dtype.type(self.by)

        def expand(self, x):
            return x * 0 + self.by

    assert Shifted(0.0) is not Shifted(-0.0) and Shifted(0.5) is Shifted(0.5)
    assert np.signbit(pb.apply(Shifted(-0.0), pb.tensor([-0.0])).numpy()).tolist() == [True]


def test_an_elementwise_op_without_partials_is_refused():
    with told(ArgumentError, TypeError, "Tripled: an elementwise op must define partials"):

        class Tripled(pb.Elementwise):
            def numpy(self, x):
                return x * 3

    assert "Tripled" not in TABLE


def test_an_elementwise_op_may_have_a_zero_derivative_or_none(engine):
    class Floored(pb.Elementwise):
        kinds = "f"
        stablehlo = "floor"

        def numpy(self, x):
            return np.floor(x)

        def partials(self, out, x):
            return (None,)

    class Halted(Floored):
        differentiable = False

    x = pb.tensor(X)
    close(pb.grad(lambda x: (x * pb.apply(Floored(), x)).sum())(x), np.floor(X))
    with pytest.raises(UnsupportedOp):
        pb.grad(lambda x: pb.apply(Halted(), x).sum())(x)


def test_elementwise_rules_may_be_stated_instead_of_partials():
    class Flipped(pb.Elementwise):
        stablehlo = "negate"

        def numpy(self, x):
            return -x

        def vjp(self, g, out, xs, need):
            return [-g]

        def jvp(self, out, xs, ts):
            return -ts[0]

    testing.check_op(Flipped(), X)


@pytest.mark.parametrize("name", ["parts", "text", "numpy", "linear"])
def test_a_parameter_must_not_hide_an_attribute_of_ops(name):
    with told(ArgumentError, ValueError, f"Hiding: every op has an attribute {name!r}"):
        type(pb.Op)("Hiding", (pb.Op,), {"__annotations__": {name: int}, "__module__": __name__})
    assert "Hiding" not in TABLE


def test_fields_of_records_may_be_stated_on_the_class():
    class Turned(type(scaled(2))):
        positional: ClassVar[tuple[str, ...]] = ("factor",)
        combine = "max"

    assert Turned.text == Text(("factor",)) and Turned.parts == Parts(combine="max")
    assert pb.Op.text == Text() and pb.Op.parts == Parts()
    text = str(pb.trace(lambda x: pb.apply(Turned(2), x), pb.tensor(X)))
    assert "Turned(%0, 2)" in text


def test_an_op_must_define_the_abstract_methods_of_its_family():
    from abc import abstractmethod

    class Family(pb.Op, abstract=True):
        @abstractmethod
        def factor(self):
            """What to multiply by."""

    class Half(Family, abstract=True):
        """Still open."""

    with told(ArgumentError, TypeError, "NoFactor: an op of its family must define factor"):

        class NoFactor(Half):
            """Defines nothing."""

    class WithFactor(Half):
        def factor(self):
            return 2

    assert WithFactor().factor() == 2


def test_replacing_a_rule_discards_compiled_programs():
    op = scaled(3)
    cls, x = type(op), pb.tensor(X)
    run = pb.compile(lambda x: pb.apply(op, x))
    slope = pb.compile(pb.grad(lambda x: pb.apply(op, x).sum()))
    close(pb.apply(op, x), 3 * X)
    close(run(x), 3 * X)
    close(slope(x), 3 + 0 * X)
    cls.numpy = lambda self, x: x * 5
    cls.hlo = lambda self, b, out, x: b.op("stablehlo.multiply", x, b.full(out, 5), out=out)
    close(pb.apply(op, x), 5 * X)
    close(run(x), 5 * X)
    cls.vjp = lambda self, g, out, xs, need: [g * 7]
    close(slope(x), 7 + 0 * X)
    cls.infer = lambda self, x: x.with_shape((1, *x.shape))
    assert pb.apply(op, x).shape == (1, 3)
