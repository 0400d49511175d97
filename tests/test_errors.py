"""Errors name the line that caused them, the op and the types."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers import Opaque, line, told

import pullback as pb
from pullback.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    GraphConsumed,
    HostReadError,
    IndexOutOfRange,
    InPlaceError,
    NonDifferentiableInput,
    OutOfMemory,
    PullbackError,
    ShapeError,
    TraceError,
    UnsupportedOp,
    UnsupportedShape,
)
from pullback.lazy import record


@pytest.fixture
def x():
    return pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])  # f32[2,3]


@pytest.fixture
def v():
    return pb.tensor([1.0, 2.0])  # f32[2]


def cases(**table):
    return pytest.mark.parametrize("act", [pytest.param(f, id=name) for name, f in table.items()])


# -- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "act"),
    [
        ("+", lambda x, v: x + v),
        ("-", lambda x, v: x - v),
        ("*", lambda x, v: x * v),
        ("/", lambda x, v: x / v),
        (">", lambda x, v: x > v),
        ("maximum", lambda x, v: pb.maximum(x, v)),
        ("**", lambda x, v: x**v),
        ("where", lambda x, v: pb.where(x > 0, x, v)),
    ],
)
def test_shapes_that_do_not_broadcast(op, act, x, v):
    with told(ShapeError, ValueError, f"{op}:", "f32[2,3]", "f32[2]"):
        act(x, v)


def test_broadcasting_names_the_dimension(x, v):
    with told(ShapeError, ValueError, "+:", "dimension 1", "3", "2") as info:
        x + v
    assert info.value.code == "E3001"


@pytest.mark.parametrize(
    ("words", "act"),
    [
        (("matmul:", "f32[2,3] @ f32[2,3]"), lambda x: x @ x),
        (("matmul:", "f32[2,3]", "f32[]"), lambda x: x @ pb.tensor(1.0)),
        (("reshape:", "f32[2,3]", "[4, 2]"), lambda x: x.reshape(4, 2)),
        (("reshape:", "f32[2,3]", "[4, -1]"), lambda x: x.reshape(4, -1)),
        (("reshape:", "[-1, -1]"), lambda x: x.reshape(-1, -1)),
        (("concat:", "f32[2,3]", "f32[2,2]"), lambda x: pb.concat([x, x[:, :2]])),
        (("stack:", "f32[2,3]", "f32[3]"), lambda x: pb.stack([x, x[0]])),
        (("broadcast", "f32[2,3]", "[4, 3]"), lambda x: pb.broadcast_to(x, (4, 3))),
        (("squeeze:", "f32[2,3]"), lambda x: pb.squeeze(x, 0)),
        (("split:", "f32[2,3]"), lambda x: pb.split(x, 2, axis=1)),
        (("max:", "f32[0,3]"), lambda x: x[:0].max(axis=0)),
        (("einsum", "f32[2,3]"), lambda x: pb.einsum("ij,ij,jk->k", x, x, x)),
    ],
)
def test_shapes_that_an_op_does_not_accept(words, act, x):
    with told(PullbackError, ValueError, *words):
        act(x)


def test_the_wording_of_the_design(x):
    with told(ShapeError, ValueError) as info:
        x @ x
    where = info.value.where
    text = f"matmul: inner dimensions must agree, got f32[2,3] @ f32[2,3] ({where})"
    assert str(info.value) == text
    assert (info.value.op, info.value.code) == ("matmul", "E3003")


def test_a_statement_of_several_lines_gives_the_line_of_the_operation(x, v):
    wanted = line(4)
    with told(ShapeError, ValueError, "+:", at=wanted):
        # fmt: off
        _ = (
            x + v
        )
        # fmt: on


def test_the_line_may_be_inside_a_function(x, v):
    def layer(a, b):
        return a * b

    with told(ShapeError, ValueError, "*:", at=line(-2)):
        pb.grad(lambda x: layer(x, v).sum())(x)


# -- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "act"),
    [
        (("&:", "f32"), lambda x: x & x),
        (("<<:", "f32"), lambda x: x << 1),
        (("~:", "f32"), lambda x: ~x),
        ((">:", "complex64"), lambda x: x.astype("complex64") > 1.0),
        (("max:", "complex64"), lambda x: x.astype("complex64").max()),
        (("bitcast:", "f32", "i16"), lambda x: pb.bitcast(x, "int16")),
        (("float7",), lambda x: x.astype("float7")),
        (("float7",), lambda x: pb.tensor([1.0], dtype="float7")),
        (("index", "f32"), lambda x: x[pb.tensor([0.0])]),
        (("300", "i8"), lambda x: pb.tensor([1], dtype="int8") + 300),
        (("300", "i8"), lambda x: pb.tensor([300], dtype="int8")),
        (("str",), lambda x: pb.tensor("text")),
        (("float", "i64[2]"), lambda x: pb.tensor([1, 2]).at[0].set(1.5)),
        (("f32", "i64[2]"), lambda x: pb.tensor([1, 2]).at[0].set(x[0, 0])),
    ],
)
def test_dtypes_that_an_op_does_not_accept(words, act, x):
    with told(DTypeError, TypeError, *words):
        act(x)


@cases(plus=lambda x: x + object(), order=lambda x: x < "text", matmul=lambda x: x @ "text")
def test_operators_leave_foreign_objects_to_python(act, x):
    with pytest.raises(TypeError):
        act(x)


def test_nested_lists_of_different_lengths():
    with told(ArgumentError, ValueError, "tensor:", "lengths"):
        pb.tensor([[1.0, 2.0], [3.0]])


# -- axes and indices -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "act"),
    [
        (("sum:", "axis 2", "rank 2"), lambda x: x.sum(axis=2)),
        (("sum:", "axis -3", "rank 2"), lambda x: x.sum(axis=-3)),
        (("mean:", "axis 5"), lambda x: x.mean(axis=5)),
        (("max:", "axis 2"), lambda x: x.max(axis=2)),
        (("argmax:", "axis 2"), lambda x: pb.argmax(x, axis=2)),
        (("concat:", "axis 2"), lambda x: pb.concat([x, x], axis=2)),
        (("expand_dims:", "axis 4"), lambda x: pb.expand_dims(x, 4)),
        (("softmax:", "axis 2"), lambda x: pb.softmax(x, axis=2)),
        (("flip:", "axis 2"), lambda x: pb.flip(x, axis=2)),
        (("sort:", "axis 2"), lambda x: pb.sort(x, axis=2)),
        (("sum:", "twice"), lambda x: x.sum(axis=(0, 0))),
        (("sum:", "twice"), lambda x: x.sum(axis=(1, -1))),
    ],
)
def test_axes_out_of_range(words, act, x):
    with told(AxisError, IndexError, *words):
        act(x)


def test_an_axis_that_is_not_an_integer(x):
    with told(ArgumentError, TypeError, "sum:", "axis", "float"):
        x.sum(axis=0.5)


def test_an_axis_error_is_also_a_value_error(x):
    with pytest.raises(ValueError, match="axis 2"):
        x.sum(axis=2)


@pytest.mark.parametrize(
    ("words", "act"),
    [
        (("index", "2", "axis 0", "size 2"), lambda x: x[2]),
        (("index", "-3", "axis 0", "size 2"), lambda x: x[-3]),
        (("index", "3", "axis 1", "size 3"), lambda x: x[0, 3]),
        (("index", "7", "axis 0", "size 2"), lambda x: x[[0, 7]]),
        (("index", "5", "axis 0", "size 2"), lambda x: x.at[5].add(1.0)),
        (("5", "size 2"), lambda x: pb.take(x, [0, 5], axis=0)),
    ],
)
def test_indices_out_of_range(words, act, x):
    with told(IndexOutOfRange, IndexError, *words):
        act(x)


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_computed_indices_out_of_range_raise_when_a_value_is_read(engine, x):
    with pb.config(engine=engine):
        y = x[pb.tensor([0, 7])]
        with told(IndexOutOfRange, IndexError, "x[...]:", "axis 0", "size 2", at=line(-1)):
            (y * 2.0).numpy()


@pytest.mark.parametrize("engine", ["xla", "reference"])
@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("take:", lambda x, i: pb.take(x, i, axis=0)),
        ("gather:", pb.gather),
        ("x[...]:", lambda x, i: x[i, i]),
        ("x.at[...].add:", lambda x, i: x.at[i].add(1.0)),
        ("scatter:", lambda x, i: pb.scatter(x, i, 1.0)),
        ("take_along_axis:", lambda x, i: pb.take_along_axis(x[0], i)),
        ("take:", lambda x, i: pb.grad(lambda x: pb.take(x, i, axis=0).sum())(x)),
        ("take:", lambda x, i: pb.compile(lambda x, i: pb.take(x, i, axis=0))(x, i)),
    ],
)
def test_an_index_error_names_the_function_that_the_user_called(engine, name, act, x):
    with pb.config(engine=engine), pytest.raises(IndexOutOfRange, match=rf"^{re.escape(name)} "):
        act(x, pb.tensor([0, 7])).numpy()


def test_an_integer_power_is_called_pow():
    with told(DTypeError, TypeError, "pow:", "power -1"):
        pb.pow(pb.tensor([1, 2]), -1)


@pytest.mark.parametrize(
    ("kind", "builtin", "words", "act"),
    [
        (AxisError, IndexError, ("too many indices", "rank 2", "3"), lambda x: x[0, 0, 0]),
        (ArgumentError, TypeError, ("...", "once"), lambda x: x[..., ...]),
        (ArgumentError, ValueError, ("step",), lambda x: x[::0]),
        (PullbackError, TypeError, ("index", "str"), lambda x: x["text"]),
        (PullbackError, TypeError, ("index", "float"), lambda x: x[0.5]),
        (PullbackError, IndexError, ("mask", "2", "3"), lambda x: x[np.array([True, False, True])]),
        (ShapeError, ValueError, ("[2]", "f32[3]"), lambda x: x.at[:, 0].set([1.0, 2.0, 3.0])),
    ],
)
def test_invalid_indices(kind, builtin, words, act, x):
    with told(kind, builtin, *words):
        act(x)


# -- placeholders ---------------------------------------------------------------------------------


@cases(
    numpy=lambda x: x.numpy(),
    item=lambda x: x.sum().item(),
    tolist=lambda x: x.tolist(),
    float=lambda x: float(x.sum()),
    int=lambda x: int(x.sum()),
    bool=lambda x: bool(x.sum() > 0),
    branch=lambda x: x if x.sum() > 0 else -x,
    array=lambda x: np.asarray(x),
    evaluate=lambda x: pb.evaluate(x),
)
def test_reading_a_placeholder(act, x):
    with told(HostReadError, TypeError, "placeholder"):
        pb.eval_shape(act, x)


def test_reading_a_tensor_from_outside_while_tracing(x, v):
    with told(HostReadError, TypeError, "placeholder", "would stay the same"):
        pb.eval_shape(lambda x: x * v.sum().item(), x)
    assert v.sum().item() == 3.0


def test_writing_to_a_tensor_from_outside_while_tracing(x, v):
    def f(x):
        v[0] = 5.0
        return x

    with told(InPlaceError, RuntimeError, "outside"):
        pb.eval_shape(f, x)
    assert v.tolist() == [1.0, 2.0]


def test_an_escaped_placeholder_has_no_value(x):
    kept = []
    pb.eval_shape(lambda x: kept.append(x * 2.0) or x, x)
    with told(HostReadError, TypeError, "placeholder", "f32[2,3]"):
        kept[0].numpy()


def test_after_an_error_inside_a_trace_tensors_can_be_read(x):
    with pytest.raises(HostReadError):
        pb.eval_shape(lambda x: x.sum().item(), x)
    assert x.sum().item() == 21.0
    assert repr(pb.eval_shape(lambda x: x @ x.T, x)) == "f32[2,2]"


# -- backward -------------------------------------------------------------------------------------


@pytest.fixture
def w():
    return pb.tensor([1.0, 2.0], requires_grad=True)


def test_backward_twice(w):
    loss = (w * w).sum()
    where = line(-1)
    loss.backward()
    with told(GraphConsumed, RuntimeError, "sum", where, "run the forward again"):
        loss.backward()


def test_backward_through_a_consumed_part_names_that_part(w):
    hidden = w * w
    where = line(-1)
    hidden.sum().backward()
    with told(GraphConsumed, RuntimeError, "mul", where, "run the forward again"):
        (hidden + 1.0).sum().backward()


def test_backward_of_a_non_scalar(w):
    with told(UnsupportedShape, ValueError, "backward()", "f32[2]", ".sum()"):
        (w * w).backward()


def test_backward_of_a_constant(v):
    with told(ArgumentError, ValueError, "backward()", "requires_grad=True"):
        v.sum().backward()


def test_backward_under_no_grad(w):
    with pb.no_grad():
        loss = (w * w).sum()
    with told(ArgumentError, ValueError, "backward()", "no_grad"):
        loss.backward()


def test_backward_through_an_op_without_a_rule(w):
    y = record.apply(Opaque(), w)
    with told(UnsupportedOp, TypeError, "opaque", "stop_gradient", at=line(-1)):
        y.sum().backward()


def test_in_place_on_a_leaf(w):
    with told(InPlaceError, RuntimeError, "+=", "f32[2]", "no_grad"):
        w += 1.0
    with told(InPlaceError, RuntimeError, "x[...] =", "f32[2]", "no_grad"):
        w[0] = 1.0
    with told(InPlaceError, RuntimeError, "assign", "f32[2]", "no_grad"):
        w.assign([5.0, 6.0])


def test_in_place_with_another_type(v):
    with told(ArgumentError, ValueError, "+=", "f32[3,2]", "f32[2]"):
        v += pb.ones((3, 2))
    n = pb.tensor([1, 2])
    with told(ArgumentError, TypeError, "*=", "f32[2]", "i64[2]"):
        n *= 0.5
    with told(ArgumentError, ValueError, "assign", "f32[2]", "f32[3]"):
        v.assign([1.0, 2.0, 3.0])


def test_an_integer_cannot_require_a_gradient():
    with told(NonDifferentiableInput, TypeError, "requires_grad", "i64[2]") as info:
        pb.tensor([1, 2], requires_grad=True)
    assert info.value.code == "E5005"


def test_requires_grad_can_only_be_set_on_a_leaf(w):
    y = w * 2.0
    with told(ArgumentError, ValueError, "requires_grad", "leaf"):
        y.requires_grad = False


def test_only_leaves_have_grad(w):
    y = w * 2.0
    with told(ArgumentError, TypeError, "grad", "pb.grad"):
        _ = y.grad


# -- function transforms --------------------------------------------------------------------------


def test_grad_of_a_non_scalar(x):
    with told(UnsupportedShape, ValueError, "grad:", "f32[2,3]", ".sum()"):
        pb.grad(lambda x: x * 2.0)(x)
    with told(UnsupportedShape, ValueError, "value_and_grad:", "f32[]", ","):
        pb.value_and_grad(lambda x: (x.sum(), x.sum()))(x)


def test_grad_of_a_function_that_returns_no_tensor(x):
    with told(ArgumentError, TypeError, "grad:", "str"):
        pb.grad(lambda x: "text")(x)
    with told(PullbackError, ValueError, "grad:", "nothing"):
        pb.grad(lambda x: None)(x)


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("grad", lambda n: pb.grad(lambda n: n.sum())(n)),
        ("value_and_grad", lambda n: pb.value_and_grad(lambda n: n.sum())(n)),
        ("vjp", lambda n: pb.vjp(lambda n: n * 2, n)),
        ("jvp", lambda n: pb.jvp(lambda n: n * 2, (n,), (n,))),
        ("linearize", lambda n: pb.linearize(lambda n: n * 2, n)),
    ],
)
def test_differentiation_with_respect_to_integers(name, act):
    with told(NonDifferentiableInput, TypeError, f"{name}:", "i64[2]", "float"):
        act(pb.tensor([1, 2]))


@pytest.mark.parametrize("name", ["jacrev", "jacfwd", "hessian"])
def test_jacobians_with_respect_to_integers(name):
    with told(NonDifferentiableInput, TypeError, f"{name}:", "i64[2]"):
        getattr(pb, name)(lambda n: n * 2)(pb.tensor([1, 2]))


def test_an_integer_inside_a_tree_is_no_error():
    weights = {"w": pb.tensor([1.0]), "steps": pb.tensor([1, 2])}
    assert pb.grad(lambda p: p["w"].sum())(weights)["steps"] is None
    with told(NonDifferentiableInput, TypeError, "grad:", "i64[2]", "argument[1]"):
        pb.grad(lambda p, n: p["w"].sum(), (0, 1))(weights, weights["steps"])


def test_an_integer_result(x):
    with told(NonDifferentiableInput, TypeError, "grad:", "i64[]"):
        pb.grad(lambda x: pb.argmax(x))(x)
    with told(NonDifferentiableInput, TypeError, "grad:", "complex64[]"):
        pb.grad(lambda x: x.astype("complex64").sum())(x)


@pytest.mark.parametrize("argnums", [2, -3, (0, 2), (0, 0), (1, -1), "x", 0.5, (0, "x")])
def test_bad_argnums(argnums, x):
    for transform in (pb.grad, pb.value_and_grad, pb.jacrev, pb.jacfwd):
        with told(ArgumentError, ValueError, f"{transform.__name__}:", "argnums"):
            transform(lambda a, b: (a * b).sum(), argnums)(x, x)


def test_an_argument_that_is_not_a_tensor():
    with told(ArgumentError, TypeError, "grad:", "str"):
        pb.grad(lambda x: x)("text")


def test_has_aux_without_a_pair(x):
    with told(ArgumentError, TypeError, "grad:", "pair"):
        pb.grad(lambda x: x.sum(), has_aux=True)(x)


def test_wrong_trees(x, v):
    _, pull = pb.vjp(lambda x: {"a": x.sum(), "b": x}, x)
    with told(ArgumentError, ValueError, "trees must agree"):
        pull({"a": 1.0})
    with told(ArgumentError, ValueError, "trees must agree"):
        pull((1.0, x))
    with told(ArgumentError, ValueError, "shapes must agree", "f32[2,3]", "f32[2]"):
        pull({"a": 1.0, "b": v})
    with told(ArgumentError, ValueError, "jvp:", "trees must agree"):
        pb.jvp(lambda x: x, (x,), (x, x))
    with told(ArgumentError, ValueError, "jvp:", "f32[2,3]", "f32[2]"):
        pb.jvp(lambda x: x, (x,), (v,))
    with told(ArgumentError, TypeError, "jvp:", "tuple", "(x,)"):
        pb.jvp(lambda x: x, x, x)


def test_a_tangent_of_another_dtype(x):
    with told(PullbackError, TypeError, "jvp:", "complex64"):
        pb.jvp(lambda x: x * 2.0, (x,), (x.astype("complex64"),))


def test_a_trace_that_branched_is_not_replayed(x):
    def f(x):
        return x * 2.0 if x.sum() > 0 else x

    t = pb.trace(f, x)
    with told(TraceError, RuntimeError, "replayed", "pb.where", at=line(-3)):
        t.replay(x)
    with told(ArgumentError, ValueError, "replay:", "f32[2,3]", "f32[3]"):
        pb.trace(lambda x: x * 2.0, x).replay(x[0])


def test_replaying_something_else_than_a_trace(x):
    with told(ArgumentError, TypeError, "backward_on_trace:", "Tensor"):
        pb.backward_on_trace(x)


# -- reading and settings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "act"),
    [
        (("item:", "f32[2,3]"), lambda x: x.item()),
        (("bool:", "f32[2,3]", ".any()"), lambda x: bool(x)),
        (("float:", "f32[2,3]"), lambda x: float(x)),
        (("int:", "f32[2,3]"), lambda x: int(x)),
        (("index:", "f32[]"), lambda x: [1, 2, 3][x.sum()]),
        (("len:", "rank-0"), lambda x: len(x.sum())),
        (("iteration", "rank-0"), lambda x: list(x.sum())),
        (("Tensor:", "pb.tensor"), lambda x: pb.Tensor()),
        (("config:", "speed"), lambda x: pb.config(speed=11)),
        (("config:", "gpu"), lambda x: pb.config(engine="gpu")),
        (("default_dtype:", "i32"), lambda x: pb.default_dtype("int32")),
        (("check_grads:", "up"), lambda x: pb.check_grads(lambda x: x, (x,), modes=["up"])),
    ],
)
def test_invalid_calls(words, act, x):
    with told(ArgumentError, TypeError, *words):
        act(x)


def test_every_error_derives_from_one_class_and_has_a_code():
    import pullback.errors as errors

    classes = [e for e in vars(errors).values() if isinstance(e, type)]
    found = [e for e in classes if issubclass(e, Exception) and not issubclass(e, Warning)]
    for error in found:
        assert issubclass(error, PullbackError) and isinstance(error.code, str)
    builtins = (
        BufferError, ValueError, TypeError, IndexError, RuntimeError, MemoryError, OSError,
        AttributeError, ImportError, ConnectionError,
    )  # fmt: skip
    for error in found:
        if error not in (PullbackError, errors.AutodiffError):
            assert issubclass(error, builtins), error


def test_errors_are_the_same_every_time(x):
    def message():
        with pytest.raises(ShapeError) as info:
            x @ x
        return str(info.value)

    assert message() == message()


def test_no_program_runs_before_an_error(x, v):
    before = pb.engine_info().programs_run
    for act in (lambda: x + v, lambda: x @ x, lambda: x.sum(axis=7), lambda: x[9]):
        with pytest.raises(PullbackError):
            act()
    assert pb.engine_info().programs_run == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: pb.zeros((2**62, 4)), lambda: pb.full((10**7, 10**9), 2), lambda: pb.eye(10**8),
        lambda: pb.arange(10**20), lambda: pb.zeros((0, 10**30)), lambda: pb.linspace(0, 1, 10**30),
    ],
)  # fmt: skip
def test_tensors_too_large_for_any_memory_are_refused(make):
    with pytest.raises(OutOfMemory, match=r"not enough memory for shape .*test_errors\.py"):
        make()


def test_the_line_is_found_through_a_with_block():
    with pytest.raises(ShapeError, match=r"at most 2\*\*48 numbers.*test_errors\.py"):
        pb.random.normal(pb.random.key(0), (2**62, 4))
