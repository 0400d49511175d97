"""pb.compile: one program for each function and kind of arguments."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import pickle
import threading
import weakref
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from counters import counting
from helpers import line, told

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, HostReadError, IndexOutOfRange, InPlaceError

X = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.fixture
def x() -> Any:
    return pb.tensor(X)


class Counted:
    """A function that counts its calls."""

    def __init__(self, f: Any) -> None:
        self.f, self.runs = f, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.runs += 1
        return self.f(*args, **kwargs)


# -- N35: later calls run no Python ---------------------------------------------------------------


def test_N35_a_second_call_runs_no_user_python(x):
    runs = []

    @pb.compile
    def f(x, y):
        runs.append(1)
        return x * y + 1

    for k in range(5):
        assert f(x, x + k).tolist() == (X * (X + k) + 1).tolist()
    assert len(runs) == 1


def test_N35_every_way_of_counting_leaves_the_function_compiled(x):
    count = 0
    log, table = [], {}

    @pb.compile
    def f(x):
        nonlocal count
        count += 1
        log.append(x.shape)
        table["shape"] = x.shape
        f.calls = count
        return x * 2

    for _ in range(3):
        f(x)
    assert (count, log, table, f.calls) == (1, [(3,)], {"shape": (3,)}, 1)
    log.clear()  # what the function changes itself is nobody's guard
    f(x)
    assert log == []


def test_N35_only_shapes_dtypes_trees_and_static_values_retrace(x):
    f = Counted(lambda tree, flag=True: pb.tree.map(lambda v: v * 2 if flag else v, tree))
    g = pb.compile(f)
    for runs, args in enumerate(
        [(x,), (pb.tensor([1.0]),), (pb.tensor([1]),), ([x],), ({"a": x},), (x, False)], 1
    ):
        g(*args)
        g(*args)
        assert f.runs == runs


def test_a_compiled_call_is_one_program_and_starts_at_once(x):
    f = pb.compile(lambda x: pb.sin(x) * x)
    f(x)
    with counting() as counts:
        y = f(x)
        assert counts.programs == 1
        y.numpy()
        assert (counts.programs, counts.compiles) == (1, 0)


def test_pending_arguments_are_computed_first(x):
    f = pb.compile(lambda x: x + 1)
    y = x * 2
    assert f(y).tolist() == [3.0, 5.0, 7.0]
    assert f(y * y).tolist() == (4 * X * X + 1).tolist()


def test_as_decorator_with_and_without_options(x):
    @pb.compile
    def plain(x):
        """Doubles."""
        return x * 2

    @pb.compile(static_argnums=1, name="scaled")
    def scaled(x, n):
        return x * n

    assert plain(x).tolist() == (2 * X).tolist()
    assert scaled(x, 3).tolist() == (3 * X).tolist()
    assert (plain.__name__, plain.__doc__, repr(scaled)) == (
        "plain",
        "Doubles.",
        "<compiled scaled>",
    )
    with told(ArgumentError, TypeError, "must be a function"):
        pb.compile(3)


# -- N37: the program that is compiled ------------------------------------------------------------


def test_N37_dead_code_common_subexpressions_and_constants_are_gone(x):
    @pb.compile
    def f(x):
        pb.exp(x)  # nobody uses it
        n = pb.tensor(2, dtype="int32") + pb.tensor(3, dtype="int32")
        return pb.sin(x) * n + pb.sin(x)

    text = f.lower(x).text()
    assert "Exp" not in text
    assert text.count("Sin") == 1
    assert "5" in text and "Add, %1, %2" not in text.replace("f32", "")
    assert f(x).numpy() == pytest.approx(np.sin(X) * 6, rel=1e-6)


def test_N37_constants_of_floats_fold_where_they_are_exact(x):
    @pb.compile
    def f(x):
        half, tenth = pb.tensor(2.0) / 4, pb.tensor(0.1)
        return x * (half + half * half) + tenth * tenth

    text = f.lower(x).text()
    assert "0.75" in text and "Div" not in text and text.count("Mul") == 2
    assert f(x).numpy() == pytest.approx(X * 0.75 + 0.01, rel=1e-6)


def test_inputs_are_named_as_the_user_wrote_them(x):
    scale = pb.tensor(2.0)
    text = pb.compile(lambda params, x: params["w"] * x * scale).lower({"w": x}, x).text()
    for name in ("params['w']", '"x"', '"scale"'):
        assert name in text


# -- N38: trees -----------------------------------------------------------------------------------

Pair = namedtuple("Pair", ["first", "second"])


@functools.partial(pb.tree.register)
@dataclasses.dataclass
class Point:
    a: Any
    b: Any


class Box:
    def __init__(self, items: list, label: Any) -> None:
        self.items, self.label = items, label


pb.tree.register(
    Box, lambda box: (box.items, box.label), lambda label, items: Box(list(items), label)
)


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: [a, b],
        lambda a, b: (a, (b, ())),
        lambda a, b: {"b": b, "a": a},
        lambda a, b: OrderedDict(z=a, y=b),
        lambda a, b: Pair(a, b),
        lambda a, b: Point(a, [b, None]),
        lambda a, b: Box([a, b], "label"),
        lambda a, b: {"deep": [Pair(Point(a, b), None), (a,)]},
    ],
)
def test_N38_trees_of_every_kind_go_in_and_out(make, x):
    f = Counted(lambda tree, k: pb.tree.map(lambda v: v * 2 + k, tree))
    g = pb.compile(f)
    tree = make(x, pb.tensor([[1.0]]))
    for k in (1.0, 2.0):
        made = g(tree, k)
        wanted = pb.tree.map(lambda v, k=k: v * 2 + k, tree)
        assert type(made) is type(tree)
        assert pb.tree.flatten(made)[1] == pb.tree.flatten(wanted)[1]
        for got, want in zip(pb.tree.leaves(made), pb.tree.leaves(wanted), strict=True):
            assert got.tolist() == want.tolist()
    assert f.runs == 1


def test_N38_static_data_of_a_registered_node_is_compared_by_type_and_bits(x):
    f = pb.compile(lambda box: box.items[0] * 0 + str(box.label).count("-") + (box.label is True))
    seen = [f(Box([x], label)).tolist()[0] for label in (0.0, -0.0, 1, True)]
    assert seen == [0, 1, 0, 1]


def test_outputs_may_be_inputs_constants_numbers_or_nothing(x):
    outside = pb.tensor([7.0])

    @pb.compile
    def f(x, k):
        y = x + k
        return {"x": x, "y": y, "again": y, "number": 3, "k": k, "outside": outside, "none": None}

    for k in (1.0, 2.0):
        made = f(x, k)
        assert made["x"].tolist() == X.tolist()
        assert made["y"].tolist() == made["again"].tolist() == (X + k).tolist()
        assert (made["number"].item(), made["k"].item(), made["none"]) == (3, k, None)
        assert made["outside"].tolist() == [7.0]
    made["x"] += 1
    made["y"] += 1
    assert x.tolist() == X.tolist() and made["again"].tolist() == (X + 2).tolist()
    assert pb.compile(lambda x: None)(x) is None
    assert pb.compile(list)() == []
    assert pb.compile(lambda: pb.ones(2))().tolist() == [1.0, 1.0]


def test_the_same_tensor_passed_twice(x):
    f = pb.compile(lambda a, b: (a * 2, a + b))
    a, b = f(x, x)
    assert (a.tolist(), b.tolist()) == ((2 * X).tolist(), (2 * X).tolist())
    a, b = f(x, x + 1)
    assert b.tolist() == (2 * X + 1).tolist()
    assert pb.grad(lambda x: f(x, x)[1].sum())(x).tolist() == [2.0, 2.0, 2.0]


def test_keyword_arguments_and_defaults(x):
    f = Counted(lambda x, *, scale=2.0, shift: x * scale + shift)
    g = pb.compile(f)
    assert g(x, shift=1.0).tolist() == (2 * X + 1).tolist()
    assert g(x, shift=x, scale=3.0).tolist() == (4 * X).tolist()
    assert g(x, scale=4.0, shift=x).tolist() == (5 * X).tolist()
    assert f.runs == 2


def test_numpy_arrays_are_inputs(x):
    f = Counted(lambda x: x * 2)
    g = pb.compile(f)
    data = X.copy()
    y = g(data)
    data[:] = 0
    assert y.tolist() == (2 * X).tolist()
    assert g(data).tolist() == [0.0, 0.0, 0.0]
    assert g(x).tolist() == (2 * X).tolist()
    assert f.runs == 1


# -- numbers --------------------------------------------------------------------------------------


def test_numbers_are_inputs_and_never_retrace(x):
    f = Counted(lambda x, k, n, c: (x * k + n, x * c))
    g = pb.compile(f)
    for k, n, c in ((0.5, 1, 1j), (2.0, -7, 2 + 1j), (float("nan"), 2**40, 0j)):
        a, b = g(x, k, n, c)
        np.testing.assert_array_equal(a.numpy(), (x * k + n).numpy())
        np.testing.assert_array_equal(b.numpy(), (x * c).numpy())
        assert (a.dtype, b.dtype) == (pb.float32, pb.complex64)
    assert f.runs == 1


@pytest.mark.parametrize("dtype", [pb.bfloat16, pb.float16, pb.float32, pb.float64, pb.int32])
def test_a_number_takes_the_dtype_of_the_other_operand(dtype):
    x = pb.tensor([1, 2, 3], dtype=dtype)

    def f(x, k, n):
        twice = k * 2 + n  # numbers among themselves stay numbers
        both = pb.where(x > n, x, twice)
        return x * k, x + n, twice * x, both, pb.maximum(x, n), x / n, k, pb.sin(k), x**n, 2**n

    for k, n in ((0.1, 2), (3.25, 3)):
        for got, want in zip(pb.compile(f)(x, k, n), f(x, k, n), strict=True):
            want = pb.asarray(want)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(
                got.astype("float64").numpy(), want.astype("float64").numpy(), rtol=1e-2
            )


def test_numbers_are_computed_as_python_does():
    def f(a, b, n, m):
        return [
            a + b, a - b, a * b, a / b, a // b, a % b, a**b, -a, abs(b), +a, 2 - a, 3 / b, 7 // b,
            n + m, n - m, n * m, n / m, n // m, n % m, n**2, 2.0**n, -n, n / 2, 1 + n, n * a,
            10 % n, a < b, n >= m, n == 3, m != 2, a * (1 + 2j),
        ]  # fmt: skip

    with pb.default_dtype("float64"):
        g = pb.compile(f)
        for args in ((0.1, 0.3, 7, 2), (1e-7, -2.5, -7, 3)):
            for got, want in zip(g(*args), f(*args), strict=True):
                np.testing.assert_allclose(got.numpy(), np.asarray(want), rtol=1e-12)


def test_numpy_scalars_keep_their_dtype_when_they_become_tensors(x):
    def f(x, k):
        return x * k, pb.asarray(k)

    g = pb.compile(f)
    for k in (np.float64(0.1), np.float16(0.5), np.int8(3), np.bool_(True)):
        for got, want in zip(g(x, k), f(x, k), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_a_number_may_index_and_be_written(x):
    @pb.compile
    def f(x, i, v):
        x = x.at[i].set(v)
        return x[i], x

    for i, v in ((0, 5.0), (2, 6.0), (-1, 7.0)):
        one, whole = f(x, i, v)
        assert one.item() == v and whole[i].item() == v
    with told(DTypeError, TypeError, "without loss"):
        pb.compile(lambda x, v: x.at[0].set(v))(pb.tensor([1, 2]), 0.5)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, n: x if n > 1 else -x,
        lambda x, n: x.reshape(n, 1),
        lambda x, n: sum(x for _ in range(n)),
        lambda x, n: x * float(n),
        lambda x, n: pb.zeros(n),
    ],
)
def test_using_the_value_of_a_number_suggests_a_static_argument(use, x):
    with pytest.raises(HostReadError):
        pb.compile(use)(x, 3)
    made = pb.compile(use, static_argnums=1)(x, 3)
    np.testing.assert_array_equal(made.numpy(), use(x, 3).numpy())


def test_a_number_that_does_not_fit_raises():
    with told(DTypeError, TypeError, "does not fit"):
        pb.compile(lambda n: n + 1)(2**70)


def test_the_learning_rate_of_an_optimizer_may_be_an_argument(x):
    def step(params, state, rate):
        grads = pb.grad(lambda p: (p * p).sum())(params)
        return pb.optim.adam(rate).update(grads, state, params)

    compiled = pb.compile(step)
    state = pb.optim.adam(0.1).init(x)
    rates = (0.1, 0.2, 0.3)
    with counting() as counts:
        found = [compiled(x, state, rate)[0].numpy() for rate in rates]
        assert counts.compiles == 1
    for rate, got in zip(rates, found, strict=True):
        np.testing.assert_allclose(got, step(x, state, rate)[0].numpy(), rtol=1e-6)
    with counting() as counts:  # nor does the undecorated step compile for another rate
        step(x, state, 0.4)[0].numpy()
        assert counts.compiles == 0


# -- static arguments -----------------------------------------------------------------------------


def test_static_values_are_compared_by_type_and_value(x):
    f = Counted(lambda x, k: x * 0 + (1 / k if k else -1) if isinstance(k, float) else x * 0 + k)
    g = pb.compile(f, static_argnums=1)
    values = [1, True, 1.0, 0.0, -0.0, float("nan"), 2]
    for k in [*values, *values]:
        g(x, k)
    assert f.runs == len(values)


def test_static_arguments_by_position_and_by_name_are_the_same(x):
    f = Counted(lambda x, mode="double": x * 2 if mode == "double" else x)
    for options in ({"static_argnums": 1}, {"static_argnames": "mode"}, {"static_argnums": -1}):
        g = pb.compile(f.f, **options)
        assert g(x).tolist() == g(x, "double").tolist() == g(x, mode="double").tolist()
        assert g(x, "other").tolist() == g(x, mode="other").tolist() == X.tolist()


def test_flags_strings_and_objects_are_static_by_default(x):
    class Config:
        scale = 2.0

    config = Config()
    f = Counted(lambda x, flag, name, config: x * config.scale if flag else x + len(name))
    g = pb.compile(f)
    assert g(x, True, "ab", config).tolist() == (2 * X).tolist()
    assert g(x, False, "ab", config).tolist() == (X + 2).tolist()
    assert g(x, False, "abc", config).tolist() == (X + 3).tolist()
    config.scale = 3.0
    assert g(x, True, "ab", config).tolist() == (3 * X).tolist()
    g(x, True, "ab", config)
    assert f.runs == 4


def test_static_lists_and_dicts_are_compared_by_their_contents(x):
    f = Counted(lambda x, sizes: x * sum(sizes))
    g = pb.compile(f, static_argnums=1)
    sizes = [1, 2]
    assert g(x, sizes).tolist() == (3 * X).tolist()
    sizes.append(3)
    assert g(x, sizes).tolist() == (6 * X).tolist()
    assert g(x, [1, 2, 3]).tolist() == (6 * X).tolist()
    assert f.runs == 2


def test_invalid_options_raise():
    def f(x, y):
        return x + y

    with told(ArgumentError, ValueError, "static_argnums must be positions of arguments", "2"):
        pb.compile(f, static_argnums=2)
    with told(ArgumentError, ValueError, "static_argnames names 'z'", "x, y"):
        pb.compile(f, static_argnames="z")
    with told(ArgumentError, ValueError, "donate_argnums"):
        pb.compile(f, donate_argnums="x")
    with told(ArgumentError, ValueError, "a static argument cannot be donated"):
        pb.compile(f, static_argnums=0, donate_argnums=0)


# -- captured tensors -----------------------------------------------------------------------------


def test_captured_tensors_are_read_at_each_call(x):
    w = pb.tensor([1.0, 1.0, 1.0])
    f = Counted(lambda x: x * w)
    g = pb.compile(f)
    assert g(x).tolist() == X.tolist()
    w += 1
    assert g(x).tolist() == (2 * X).tolist()
    w[0] = 10.0
    assert g(x).tolist() == [10.0, 4.0, 6.0]
    w.assign([0.0, 0.0, 1.0])
    assert g(x).tolist() == [0.0, 0.0, 3.0]
    w = pb.tensor([5.0, 5.0, 5.0])
    assert g(x).tolist() == (5 * X).tolist()
    assert f.runs == 1


def test_two_tensors_with_one_value_are_distinguished(x):
    a = pb.tensor([1.0, 1.0, 1.0])
    b = pb.tensor(a)
    f = pb.compile(lambda x: x * a + b)
    assert f(x).tolist() == (X + 1).tolist()
    a += 1
    assert f(x).tolist() == (2 * X + 1).tolist()
    b += 1
    assert f(x).tolist() == (2 * X + 2).tolist()


def test_a_tensor_that_no_guard_finds_is_read_at_each_call(x):
    class Hidden:
        __slots__ = ("get",)

    def make(w):
        hidden = Hidden()
        hidden.get = [w].__getitem__  # a builtin: nothing can be looked into
        return hidden

    a = pb.tensor([1.0, 1.0, 1.0])
    b = pb.tensor(a)
    hidden = make(a)
    f = pb.compile(lambda x: x * hidden.get(0))
    assert f(x).tolist() == X.tolist()
    a += 1
    assert f(x).tolist() == (2 * X).tolist()
    b += 5
    assert f(x).tolist() == (2 * X).tolist()


def test_captured_tensors_of_objects_lists_and_dicts(x):
    class Layer:
        def __init__(self) -> None:
            self.w = pb.tensor(2.0)

    layers = [Layer(), Layer()]
    table = {"bias": pb.tensor(1.0)}

    @pb.compile
    def f(x):
        for layer in layers:
            x = x * layer.w
        return x + table["bias"]

    assert f(x).tolist() == (4 * X + 1).tolist()
    layers[1].w = pb.tensor(3.0)
    assert f(x).tolist() == (6 * X + 1).tolist()
    table["bias"] += 1
    assert f(x).tolist() == (6 * X + 2).tolist()
    layers.append(Layer())
    assert f(x).tolist() == (12 * X + 2).tolist()


def test_constants_created_inside_stay(x):
    big = np.arange(300, dtype=np.float32)

    @pb.compile
    def f(x):
        return x + pb.tensor([1.0, 2.0, 3.0]), pb.tensor(big) * x[0]

    for _ in range(2):
        small, large = f(x)
        assert small.tolist() == [2.0, 4.0, 6.0]
        assert large.tolist() == big.tolist()


# -- derivatives and nesting ----------------------------------------------------------------------


def test_derivatives_of_a_compiled_function(x):
    def f(x, w):
        return (pb.sin(x) * w).sum()

    g = pb.compile(f)
    w = pb.tensor([2.0, 3.0, 4.0])
    for name in ("grad", "value_and_grad", "hessian", "jacrev", "jacfwd"):
        got, want = getattr(pb, name)(g)(x, w), getattr(pb, name)(f)(x, w)
        for a, b in zip(pb.tree.leaves(got), pb.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    third = pb.grad(pb.grad(pb.grad(pb.compile(pb.sin))))
    assert third(pb.tensor(0.0)).item() == -1.0
    _, t = pb.jvp(g, (x, w), (x, w))
    _, wanted = pb.jvp(f, (x, w), (x, w))
    assert t.item() == pytest.approx(wanted.item(), rel=1e-6)


def test_a_compiled_derivative(x):
    def f(x):
        return (x**3).sum()

    g = pb.compile(pb.grad(f))
    assert g(x).tolist() == (3 * X * X).tolist()
    h = pb.compile(pb.grad(lambda x: pb.compile(pb.grad(f))(x).sum()))
    assert h(x).tolist() == (6 * X).tolist()


def test_a_captured_tensor_gets_its_gradient(x):
    w = pb.tensor([1.0, 2.0, 3.0])
    f = pb.compile(lambda x: (x * w * w).sum())

    def loss(v):
        nonlocal w
        w = v
        return f(x)

    assert pb.grad(loss)(pb.tensor([1.0, 2.0, 3.0])).tolist() == (2 * X * X).tolist()


def test_backward_through_a_compiled_call(x):
    w = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    f = pb.compile(lambda x, w: (x * w).sum())
    captured = pb.compile(lambda x: (x * w * w).sum())
    f(x, w).backward()
    assert w.grad.tolist() == X.tolist()
    captured(x).backward()
    assert w.grad.tolist() == (X + 2 * X * X).tolist()
    with pb.no_grad():
        assert not f(x, w).requires_grad
    assert f(x, w.detach()).item() == 14.0


def test_vmap_of_a_compiled_function_and_compiled_vmap(x):
    f = pb.compile(lambda x, k: (x * k).sum())
    rows = pb.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert pb.vmap(f, in_axes=(0, None))(rows, x).tolist() == [8.0, 26.0]
    assert pb.compile(pb.vmap(f, in_axes=(0, None)))(rows, x).tolist() == [8.0, 26.0]
    assert pb.vmap(pb.grad(f), in_axes=(0, None))(rows, x).tolist() == [X.tolist(), X.tolist()]
    normed = pb.compile(lambda v: v / pb.psum(v, "i"))
    assert pb.vmap(normed, axis_name="i")(pb.tensor([1.0, 3.0])).tolist() == [0.25, 0.75]
    with pytest.raises(pb.PullbackError):
        normed(pb.tensor(1.0))


def test_a_nested_call_is_one_node(x):
    inner = pb.compile(lambda x: pb.sin(x) * x, name="inner")
    outer = pb.compile(lambda x: inner(x) + inner(x * 2))
    assert outer(x).numpy() == pytest.approx(np.sin(X) * X + np.sin(2 * X) * 2 * X, rel=1e-5)
    text = str(pb.trace(lambda x: inner(x) + inner(x * 2), x))
    assert text.count("= Call(") == 2 and text.count('label: "inner"') == 2
    assert outer.lower(x).text().count("Sin") == 2  # what is run is written out


def test_an_unused_result_adds_nothing_to_a_gradient(x):
    f = pb.compile(lambda x: (x.sum(), x * pb.inf))
    assert pb.grad(lambda x: f(x)[0])(x).tolist() == [1.0, 1.0, 1.0]
    assert pb.vmap(pb.grad(lambda x: f(x)[0]))(x[None]).tolist() == [[1.0, 1.0, 1.0]]


def test_no_grad_inside_a_compiled_function_is_kept(x):
    def f(x):
        with pb.no_grad():
            y = x * 2
        return (x * y).sum()

    assert pb.grad(pb.compile(f))(x).tolist() == pb.grad(f)(x).tolist() == (2 * X).tolist()


def test_a_function_compiled_inside_a_function(x):
    @pb.compile
    def outer(x, y):
        inner = pb.compile(lambda z: z * y)
        return inner(x) + inner(y)

    assert outer(x, x + 1).tolist() == (X * (X + 1) + (X + 1) ** 2).tolist()


# -- methods --------------------------------------------------------------------------------------


class Model:
    factor = 1.0

    def __init__(self, scale: float) -> None:
        self.w, self.scale, self.training = pb.tensor(X), scale, True
        self.bound = pb.compile(self.plain)

    @pb.compile
    def __call__(self, x):
        return self.forward(x)

    @pb.compile
    def forward(self, x):
        return x * self.w * (self.scale if self.training else 1.0) * self.factor

    def plain(self, x):
        return x + self.w


def test_methods(x):
    model, other = Model(2.0), Model(3.0)
    assert model.forward(x).tolist() == model(x).tolist() == (2 * X * X).tolist()
    assert other.forward(x).tolist() == (3 * X * X).tolist()
    model.training = False
    assert model.forward(x).tolist() == model(x).tolist() == (X * X).tolist()
    model.training = True
    model.w = model.w + 1
    assert model.forward(x).tolist() == (2 * X * (X + 1)).tolist()
    assert model.bound(x).tolist() == (2 * X + 1).tolist()
    assert Model.forward(other, x).tolist() == (3 * X * X).tolist()
    assert "Mul" in model.forward.lower(x).text()


def test_copies_of_an_object_have_their_own_values(x):
    model = Model(2.0)
    model.bound(x), model.forward(x)
    other = copy.deepcopy(model)
    other.w, other.scale = other.w + 1, 5.0
    assert other.bound(x).tolist() == (2 * X + 1).tolist()
    assert other.forward(x).tolist() == (5 * X * (X + 1)).tolist()
    assert model.bound(x).tolist() == (2 * X).tolist()


def test_objects_are_not_kept_alive(x):
    model = Model(2.0)
    model.forward(x)
    ref = weakref.ref(model)
    del model
    gc.collect()
    assert ref() is None


@pb.compile
def module_level(x):
    return x * 2


def test_a_compiled_function_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(module_level)) is module_level


def test_other_kinds_of_callables(x):
    class Affine:
        def __init__(self, a):
            self.a = a

        def __call__(self, x, b=0.0):
            return x * self.a + b

    affine = Affine(2.0)
    f = pb.compile(affine)
    assert f(x).tolist() == (2 * X).tolist()
    affine.a = 3.0
    assert f(x, 1.0).tolist() == (3 * X + 1).tolist()
    assert pb.compile(functools.partial(affine, b=1.0))(x).tolist() == (3 * X + 1).tolist()
    assert pb.compile(pb.sin)(x).tolist() == pb.sin(x).tolist()
    assert pb.compile(pb.compile(affine))(x).tolist() == (3 * X).tolist()


# -- mistakes -------------------------------------------------------------------------------------


def test_a_host_read_raises_at_its_line(x):
    @pb.compile
    def f(x):
        return x if x.sum() > 0 else -x

    with told(HostReadError, TypeError, "traced on placeholders"):
        f(x)


def test_an_error_inside_leaves_nothing_broken(x):
    fails = True

    @pb.compile
    def f(x):
        y = x * 2
        if fails:
            raise KeyError("inside")
        return y

    y = x + 1
    for _ in range(2):
        with pytest.raises(KeyError, match="inside"):
            f(x)
    assert y.tolist() == (X + 1).tolist()  # pending work is still there
    fails = False
    assert f(x).tolist() == (2 * X).tolist()


def test_writes_to_tensors_from_outside_raise(x):
    w = pb.tensor([1.0, 1.0, 1.0])
    box: dict[str, Any] = {}

    def adds(x):
        w[0] = 5.0
        return x

    def stores(x):
        box["y"] = x * 2
        return x

    def rebinds(x):
        nonlocal w
        w = w + 1
        return x * w

    def backward(x):
        v = pb.tensor([1.0], requires_grad=True)
        leaves.append(v)
        (outer * x.sum()).backward()
        return x

    leaves: list[Any] = []
    outer = pb.tensor(2.0, requires_grad=True)
    for f, word in ((adds, "made outside"), (stores, "box['y']"), (rebinds, "stored"),
                    (backward, "backward()")):  # fmt: skip
        with pytest.raises(InPlaceError) as error:
            pb.compile(f)(x)
        assert word in str(error.value)
    assert outer.grad is None


def test_a_result_that_is_not_a_tensor_raises(x):
    with told(ArgumentError, TypeError, "must return tensors or numbers, got str"):
        pb.compile(lambda x: "text")(x)
    with told(ArgumentError, TypeError, "a type has no value"):
        pb.compile(lambda x: x)(pb.Type((3,), pb.float32))


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_an_index_out_of_range_raises_at_its_line_when_read(engine, x):
    with pb.config(engine=engine):

        @pb.compile
        def f(x, i):
            return x * 2, x[i] + 1

        at = line(-2)
        outer = pb.compile(lambda x, i: f(x, i)[1] * 2)
        fine, wrong = f(x, pb.tensor(7))
        later = wrong * 2
        assert fine.tolist() == (2 * X).tolist()
        for bad in (wrong, later, outer(x, pb.tensor(-9))):
            with told(IndexOutOfRange, IndexError, "out of range", at=at):
                bad.numpy()
        with told(IndexOutOfRange, IndexError, "out of range", at=at):
            f(wrong * x, pb.tensor(0))[0].numpy()
        assert f(x, pb.tensor(1))[1].item() == 3.0


# -- settings -------------------------------------------------------------------------------------


def test_settings_are_part_of_the_key(x):
    f = Counted(lambda x: x * pb.tensor(1.5))
    g = pb.compile(f)
    wanted = (1.5 * X).tolist()
    assert g(x).tolist() == wanted
    with pb.config(engine="reference"):
        assert g(x).tolist() == wanted
    with pb.config(eager=True):
        assert g(x).tolist() == wanted
    with pb.default_dtype("float64"):
        assert g(x).dtype == pb.float64
    with pb.no_grad():
        assert g(x).tolist() == wanted
    assert f.runs == 4


def test_clear_cache_causes_a_new_trace(x):
    f = Counted(lambda x: x * 2)
    g = pb.compile(f)
    g(x)
    pb.clear_cache()
    assert g(x).tolist() == (2 * X).tolist()
    assert f.runs == 2
    assert [c.kind for c in pb.cache_info().causes] == ["first"]


def test_equal_programs_are_compiled_once(x):
    with counting() as counts:
        for _ in range(3):
            assert pb.compile(lambda x: pb.tanh(x) * 2.0)(x).shape == (3,)
        assert counts.compiles == 1


def test_the_number_of_specializations_is_bounded(x, monkeypatch):
    from pullback.compiled import function

    monkeypatch.setattr(function, "MOST_SPECIALIZATIONS", 3)
    f = Counted(lambda x, n: x * n)
    g = pb.compile(f, static_argnums=1)
    for n in range(5):
        g(x, n)
    g(x, 4)
    assert f.runs == 5
    assert g(x, 0).tolist() == [0.0, 0.0, 0.0]
    assert pb.cache_info().causes[-1].kind == "evicted"


# -- threads --------------------------------------------------------------------------------------


def test_threads_with_the_same_first_call_trace_and_compile_once(x):
    barrier = threading.Barrier(4)
    f = Counted(lambda x, k: pb.cos(x) * k + 17)
    g = pb.compile(f)
    found: list[Any] = [None] * 4

    def work(i: int) -> None:
        barrier.wait()
        found[i] = g(x, float(i)).numpy()

    with counting() as counts:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert counts.compiles == 1
    assert f.runs == 1
    for i in range(4):
        np.testing.assert_allclose(found[i], np.cos(X) * i + 17, rtol=1e-6)


def test_two_functions_traced_at_once_in_two_threads_do_not_wait_for_each_other(x):
    @pb.compile
    def f(x, n=1):
        return g(x) if n else x

    @pb.compile
    def g(x, n=0):
        return f(x) * 2 if n else x + 1

    results = []
    threads = [
        threading.Thread(target=lambda h=h: results.append(h(x).numpy())) for h in (f, g, f, g)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=60)
    assert len(results) == 4


def test_leaves_are_read_in_the_order_of_the_tree(x):
    """The fast path of a call flattens known trees itself, in the order of `tree.flatten`."""
    from pullback.compiled.flatten_fast import make_fast_reader

    trees = [
        (x, {"b": [x, None], "a": (x,)}, ()),
        {"z": {}, "y": [[], {"q": x, "p": x + 1}], "x": None},
        [Pair(x, {"k": x}), {"one": x}],
        {f"p{i}": i * x for i in (3, 1, 2, 10)},
        [],
    ]
    for t in trees:
        leaves, structure = pb.tree.flatten(t)
        read = make_fast_reader(structure)
        found: list[Any] = []
        assert read(t, found)
        assert all(a is b for a, b in zip(found, leaves, strict=True))
        for other in trees:
            same = pb.tree.flatten(other)[1] == structure
            got: list[Any] = []
            if read(other, got) and not same:  # a container where a leaf was: seen by the caller
                assert any(isinstance(v, (list, tuple, dict)) or v is None for v in got)
    assert make_fast_reader(pb.tree.flatten(OrderedDict(a=x))[1]) is None


def test_a_container_is_not_taken_for_a_leaf(x):
    f = Counted(lambda v: pb.tree.map(lambda a: a * 2, v))
    g = pb.compile(f)
    for value in (x, [x], (x,), {"a": x}, None, [[x]], [x, None], True, 2.0):
        for _ in range(2):
            got, want = g(value), f.f(value)
            assert pb.tree.flatten(got)[1] == pb.tree.flatten(want)[1]
            for a, b in zip(pb.tree.leaves(got), pb.tree.leaves(want), strict=True):
                assert a.tolist() == pb.asarray(b).tolist()
    assert f.runs == 9


def test_an_evicted_program_is_compiled_again(x):
    f = pb.compile(lambda x, k: pb.exp(x) * k)
    want = f(x, 2.0).tolist()
    with pb.config(cache_bytes=1):
        for k in range(3):
            pb.compile(lambda x, k=k: x * k + 1)(x).numpy()  # each one pushes the others out
    with counting() as counts:
        assert f(x, 2.0).tolist() == want
        assert counts.misses == 0


def test_named_axes_around_a_call_are_a_cause():
    f = pb.compile(lambda x: x * 2)
    f(pb.ones(3))
    pb.vmap(f, axis_name="i")(pb.ones((2, 3)))
    cause = pb.cache_info().causes[-1]
    assert (cause.kind, cause.path) == ("setting", "named axes")
    assert (cause.before, cause.after) == ("{}", "{'i': 2}")
