"""custom_vjp and custom_jvp: custom rules, alone and inside every transform."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import count_calls, line, told

import pullback as pb
from pullback.errors import (
    ArgumentError,
    GradientCut,
    GradientCutWarning,
    GradientVerification,
    HostReadError,
    UnsupportedOp,
)
from pullback.graph.canonical import canonicalise

X = np.array([0.3, -0.7, 1.1])


@pytest.fixture(params=["xla", "reference"], autouse=True)
def engine(request):
    with pb.config(engine=request.param):
        yield request.param


def sine():
    """sin(x) * y with twice the derivative, so that only the rule can have computed it."""

    @pb.custom_vjp
    def f(x, y):
        return pb.sin(x) * y

    def fwd(x, y):
        return f(x, y), {"x": x, "y": y}

    def bwd(kept, g):
        return 2.0 * g * pb.cos(kept["x"]) * kept["y"], 2.0 * g * pb.sin(kept["x"])

    f.defvjp(fwd, bwd)
    return f


def cube():
    """x ** 3 with the forward rule 6 x**2 t, twice the derivative."""

    @pb.custom_jvp
    def f(x):
        return x**3

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), 6.0 * x * x * t

    return f


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=1e-9)


# -- custom_vjp -----------------------------------------------------------------------------------


def test_the_value_is_that_of_the_function():
    close(sine()(pb.tensor(X), 2.0), np.sin(X) * 2)


def test_the_gradient_is_that_of_the_rule():
    x, y = pb.tensor(X), pb.tensor(X + 1)
    gx, gy = pb.grad(lambda x, y: sine()(x, y).sum(), (0, 1))(x, y)
    close(gx, 2 * np.cos(X) * (X + 1))
    close(gy, 2 * np.sin(X))


def test_second_order_differentiates_the_rule():
    f = sine()
    g = pb.grad(lambda x: pb.grad(lambda x: f(x, x + 1.0).sum())(x).sum())(pb.tensor(X))
    # 2 cos(x) (x + 1) + 2 sin(x), where sin in the rule is plain: its derivative is not doubled
    close(g, 2 * (-np.sin(X) * (X + 1) + np.cos(X)) + 2 * np.cos(X))


def test_a_residual_that_is_the_result_uses_the_rule_at_second_order():
    @pb.custom_vjp
    def root(x):
        return pb.stop_gradient(pb.sqrt(x))  # nothing but the rule can differentiate it

    def fwd(x):
        y = root(x)
        return y, y

    root.defvjp(fwd, lambda y, g: (g / (2.0 * y),))
    x = np.array([0.25, 1.0, 4.0])
    third = pb.grad(lambda x: pb.grad(lambda x: pb.grad(lambda x: root(x).sum())(x).sum())(x).sum())
    close(third(pb.tensor(x)), 0.375 * x**-2.5)


def test_the_function_runs_once_and_a_rule_that_calls_it_gets_that_result(monkeypatch):
    runs = []

    @pb.custom_vjp
    def f(x):
        runs.append("f")
        return pb.exp(x)

    def fwd(x):
        runs.append("fwd")
        y = f(x)
        return y, y

    f.defvjp(fwd, lambda y, g: (runs.append("bwd") or g * y,))
    close(pb.grad(lambda x: f(x).sum())(pb.tensor(X)), np.exp(X))
    assert runs == ["f", "fwd", "bwd"]


def test_python_may_branch_on_values():
    @pb.custom_vjp
    def newton(a):
        y = a
        while abs(float((y * y - a).max())) > 1e-9:
            y = 0.5 * (y + a / y)
        return y

    def fwd(a):
        y = newton(a)
        return y, y

    newton.defvjp(fwd, lambda y, g: (g / (2.0 * y),))
    a = np.array([2.0, 2.0])
    close(newton(pb.tensor(a)), np.sqrt(a))
    close(pb.grad(lambda a: newton(a).sum())(pb.tensor(a)), 0.5 / np.sqrt(a))


def test_a_function_on_placeholders_must_not_read():
    @pb.custom_vjp
    def f(x):
        return x if float(x) > 0 else -x

    f.defvjp(lambda x: (f(x), None), lambda kept, g: (g,))
    with told(HostReadError, TypeError, "placeholders"):
        pb.vmap(f)(pb.tensor(X))


class State(NamedTuple):
    position: Any
    velocity: Any


def test_pytrees_in_arguments_residuals_and_results():
    @pb.custom_vjp
    def step(state, force):
        return State(state.position + state.velocity, state.velocity + force["f"])

    def fwd(state, force):
        return step(state, force), (force, [state.position])

    def bwd(kept, g):
        force, (position,) = kept
        return State(g.position * position, None), {"f": 3.0 * g.velocity * force["f"]}

    step.defvjp(fwd, bwd)

    def loss(state, force):
        new = step(state, force)
        return (new.position * new.velocity).sum()

    state = State(pb.tensor(X), pb.tensor(X * 2))
    force = {"f": pb.tensor(X + 1)}
    gs, gf = pb.grad(loss, (0, 1))(state, force)
    close(gs.position, (3 * X + 1) * X)
    close(gs.velocity, 0 * X)
    close(gf["f"], 3 * (3 * X) * (X + 1))


def test_static_arguments_come_first_in_bwd():
    @pb.custom_vjp(nondiff_argnums=(1, 0))
    def f(g, n, x):
        return g(x) * n

    def fwd(g, n, x):
        return f(g, n, x), x

    def bwd(g, n, x, ct):
        assert g is pb.sin and n == 3
        return (ct * n * 10.0,)

    f.defvjp(fwd, bwd)
    x = pb.tensor(X)
    close(f(pb.sin, 3, x), 3 * np.sin(X))
    close(pb.grad(lambda x: f(pb.sin, 3, x).sum())(x), 30 + 0 * X)


def test_static_arguments_by_name_and_keyword_only_ones():
    @pb.custom_vjp(nondiff_argnames="power")
    def f(x, power=2, *, factor=1.0):
        return factor * x**power

    def fwd(x, power, *, factor):
        return f(x, power, factor=factor), (x, factor)

    f.defvjp(fwd, lambda power, kept, g: (g * power * kept[1] * kept[0] * 100.0,))
    x = pb.tensor(X)
    close(pb.grad(lambda x: f(x, factor=5.0).sum())(x), 2 * 5 * X * 100)
    close(pb.grad(lambda x: f(power=3, x=x).sum())(x), 3 * X * 100)


def test_arguments_that_are_not_tensors_are_passed_unchanged():
    seen = []

    @pb.custom_vjp
    def f(x, options):
        seen.append(options)
        return x * options["scale"]

    f.defvjp(lambda x, o: (f(x, o), o["scale"]), lambda scale, g: (g * scale, None))
    options = {"scale": 3, "name": "a"}
    close(pb.grad(lambda x: f(x, options).sum())(pb.tensor(X)), 3 + 0 * X)
    assert seen == [options]


def test_integer_arguments_and_results():
    @pb.custom_vjp
    def take(x, i):
        return x[i], i + 1

    def fwd(x, i):
        return take(x, i), (x, i)

    def bwd(kept, g):
        x, _ = kept
        gx, gi = g
        assert gi.dtype is pb.int64
        return pb.zeros_like(x) + gx.sum(), None

    take.defvjp(fwd, bwd)
    x, i = pb.tensor(X), pb.tensor([2, 0])
    assert take(x, i)[1].tolist() == [3, 1]
    close(pb.grad(lambda x: (take(x, i)[0] * pb.tensor([1.0, 10.0], x.dtype)).sum())(x), [11.0] * 3)


def test_backward_uses_the_rule_and_keeps_no_graph():
    f = sine()
    w = pb.tensor(X, requires_grad=True)
    for times in (1, 2):
        f(w, 2.0).sum().backward()
        close(w.grad, times * 4 * np.cos(X))
    assert not w.grad.requires_grad


def test_no_grad_makes_the_result_constant():
    f = sine()
    w = pb.tensor(X, requires_grad=True)
    with pb.no_grad():
        assert not f(w, w).requires_grad
    assert f(w, w).requires_grad


def test_a_trace_replays_and_differentiates_it():
    f = sine()
    x = pb.tensor(X)
    t = pb.trace(lambda x: f(x, x), x)
    close(t.replay(x + 1.0), np.sin(X + 1) * (X + 1))
    close(pb.backward_on_trace(t)[x], 2 * np.cos(X) * X + 2 * np.sin(X))


def test_eager_mode():
    with pb.config(eager=True):
        close(pb.grad(lambda x: sine()(x, 3.0).sum())(pb.tensor(X)), 6 * np.cos(X))


# -- custom_jvp -----------------------------------------------------------------------------------


def test_forward_mode_uses_the_rule():
    y, t = pb.jvp(cube(), (pb.tensor(X),), (pb.tensor(X + 1),))
    close(y, X**3)
    close(t, 6 * X**2 * (X + 1))


def test_reverse_mode_transposes_the_rule():
    close(pb.grad(lambda x: cube()(x).sum())(pb.tensor(X)), 6 * X**2)


@pytest.mark.parametrize("outer", ["grad", "jvp"])
@pytest.mark.parametrize("inner", ["grad", "jvp"])
def test_modes_mix_at_second_order(outer, inner):
    f = cube()

    def derivative(f, mode):
        if mode == "grad":
            return pb.grad(lambda x: f(x).sum())
        return lambda x: pb.jvp(f, (x,), (pb.ones_like(x),))[1]

    close(derivative(derivative(f, inner), outer)(pb.tensor(X)), 12 * X)


def test_jvp_with_several_arguments_trees_and_static_ones():
    @pb.custom_jvp(nondiff_argnums=0)
    def f(n, pair, z):
        x, y = pair
        return {"a": n * x * y, "b": z}

    @f.defjvp
    def rule(n, primals, tangents):
        (x, y), z = primals
        (s, t), u = tangents
        return f(n, (x, y), z), {"a": n * (s * y + x * t), "b": 10.0 * u}

    def loss(pair, z):
        out = f(3, pair, z)
        return (out["a"] + out["b"]).sum()

    x, y, z = (pb.tensor(X + i) for i in range(3))
    (gx, gy), gz = pb.grad(loss, (0, 1))((x, y), z)
    close(gx, 3 * (X + 1))
    close(gy, 3 * X)
    close(gz, [10.0] * 3)
    # an argument without a tangent has the tangent zero
    _, t = pb.jvp(lambda x: loss((x, y), z), (x,), (x,))
    close(t, (3 * X * (X + 1)).sum())


def test_a_vjp_and_a_jvp_for_one_function():
    f = sine()

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (s, t) = primals, tangents
        return f(x, y), 5.0 * (s + t)

    x = pb.tensor(X)
    close(pb.jvp(lambda x: f(x, x), (x,), (x,))[1], 10 * X)
    close(pb.grad(lambda x: f(x, 1.0).sum())(x), 2 * np.cos(X))


# -- inside vmap ----------------------------------------------------------------------------------

ROWS = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])


def test_vmap_of_the_gradient():
    f = sine()
    g = pb.vmap(pb.grad(lambda x, y: f(x, y).sum()), in_axes=(0, None))
    close(g(pb.tensor(ROWS), pb.tensor(X)), 2 * np.cos(ROWS) * X)


def test_gradient_of_the_vmap_uses_the_rule_for_every_example():
    f = sine()

    def loss(x, y):
        return pb.vmap(f, in_axes=(0, None))(x, y).sum()

    gx, gy = pb.grad(loss, (0, 1))(pb.tensor(ROWS), pb.tensor(X))
    close(gx, 2 * np.cos(ROWS) * X)
    close(gy, 2 * np.sin(ROWS).sum(0))


def test_gradient_of_nested_vmaps():
    f = sine()
    pairs = pb.vmap(pb.vmap(f, in_axes=(None, 0)), in_axes=(0, None))
    x, y = np.array([0.1, 0.2]), X
    gx, gy = pb.grad(lambda x, y: pairs(x, y).sum(), (0, 1))(pb.tensor(x), pb.tensor(y))
    close(gx, 2 * np.cos(x) * y.sum())
    close(gy, 2 * np.sin(x).sum() + 0 * y)


def test_a_rule_that_sees_one_example_only():
    shapes = []

    @pb.custom_vjp
    def f(x):
        return x * x

    def bwd(x, g):
        shapes.append((x.shape, g.shape))
        return (g,)

    f.defvjp(lambda x: (f(x), x), bwd)
    close(pb.grad(lambda x: pb.vmap(f)(x).sum())(pb.tensor(ROWS)), np.ones_like(ROWS))
    assert shapes == [((3,), (3,))]


def test_results_that_all_examples_share_have_cotangents():
    @pb.custom_vjp
    def f(x):
        return pb.tensor(1.0, dtype="float64") * 2.0

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * x,))
    weights = pb.tensor(np.array([1.0, 10.0, 100.0]))
    g = pb.grad(lambda x: (pb.vmap(f)(x) * weights).sum())(pb.tensor(X))
    close(g, X * [1, 10, 100])


def test_second_order_through_vmap():
    f = sine()

    def loss(x):
        return pb.vmap(lambda x: f(x, x))(x).sum()

    g = pb.grad(lambda x: pb.grad(loss)(x).sum())(pb.tensor(X))
    close(g, 2 * (2 * np.cos(X) - X * np.sin(X)))


def test_custom_jvp_through_vmap_in_both_modes():
    f = pb.vmap(cube())
    x = pb.tensor(ROWS)
    close(pb.jvp(f, (x,), (x,))[1], 6 * ROWS**3)
    close(pb.grad(lambda x: f(x).sum())(x), 6 * ROWS**2)
    close(pb.vmap(lambda x: pb.jvp(cube(), (x,), (x,))[1])(x), 6 * ROWS**3)


def test_a_rule_may_use_the_named_axis_of_its_vmap():
    @pb.custom_vjp
    def centred(x):
        return x - pb.pmean(x, "i")

    centred.defvjp(lambda x: (centred(x), None), lambda kept, g: (g + pb.psum(g, "i"),))
    weights = pb.tensor(np.array([1.0, 2.0, 3.0]))
    mapped = pb.vmap(centred, axis_name="i")
    close(pb.grad(lambda x: (mapped(x) * weights).sum())(pb.tensor(X)), [7.0, 8.0, 9.0])


def test_rules_under_two_named_axes():
    @pb.custom_vjp
    def f(x, w):
        return x * w - pb.pmean(x, "b") + pb.psum(x, "a")

    f.defvjp(
        lambda x, w: (f(x, w), (x, w)), lambda kept, g: (g * kept[1] + pb.psum(g, "b"), g * kept[0])
    )
    c = np.arange(6.0).reshape(2, 3)
    x, w = pb.tensor(c + 1), pb.tensor(2.0, dtype="float64")
    for names, summed in ((("b", "a"), 1), (("a", "b"), 0)):
        g = f
        for name in names:  # the first is the inner axis, the last dimension
            g = pb.vmap(g, axis_name=name, in_axes=(0, None))
        gx, gw = pb.grad(lambda x, w, g=g: (g(x, w) * c).sum(), (0, 1))(x, w)
        close(gx, 2 * c + c.sum(summed, keepdims=True))
        close(gw, (c * (c + 1)).sum())


# -- inside loops and branches --------------------------------------------------------------------


def three_times(f, x):
    return pb.scan(lambda h, _: (f(h), None), x, None, length=3)[0]


def doubled_sine(c):
    @pb.custom_vjp
    def f(x):
        return pb.sin(x) * c

    f.defvjp(lambda x: (f(x), x), lambda x, g: (2.0 * g * pb.cos(x) * c,))
    return f


def written_out(x, c):
    """The gradient of three times `doubled_sine`, summed."""
    g = np.ones_like(x)
    states = [x]
    for _ in range(3):
        states.append(np.sin(states[-1]) * c)
    for h in reversed(states[:-1]):
        g = 2 * g * np.cos(h) * c
    return g


def test_a_rule_in_a_loop_is_used():
    c = pb.tensor(X + 2)
    f = doubled_sine(c)
    x = pb.tensor(X)
    close(pb.grad(lambda x: three_times(f, x).sum())(x), written_out(X, X + 2))
    rows = pb.tensor(ROWS)
    mapped = pb.grad(lambda x: pb.vmap(lambda x: three_times(f, x))(x).sum())(rows)
    close(mapped, np.stack([written_out(row, X + 2) for row in ROWS]))

    def plain(x):
        for _ in range(3):
            x = f(x)
        return x

    second = [
        pb.grad(lambda x, g=g: pb.grad(lambda x: g(x).sum())(x).sum())(x)
        for g in (lambda x: three_times(f, x), plain)
    ]
    close(second[0], second[1].numpy())


def in_a_scan(f):
    return lambda x: pb.scan(lambda c, r: (c + f(r), c), x[0] * 0.0, x)[0]


def in_the_state_of_a_scan(f):
    return lambda x: pb.sum(pb.scan(lambda c, _: (f(c), None), x, length=1)[0])


def in_a_while_loop(f):
    def looped(x):
        body = lambda s: (s[0] + 1, s[1] * 0.0 + pb.sum(f(x)))  # noqa: E731
        return pb.while_loop(lambda s: s[0] < 1, body, (0, x[0] * 0.0))[1]

    return looped


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(
    "within",
    [
        in_a_scan,
        in_the_state_of_a_scan,
        in_a_while_loop,
        lambda f: lambda x: pb.sum(pb.checkpoint(f)(x)),
        lambda f: lambda x: pb.cond(x[0] > 0, lambda x: pb.sum(f(x)), pb.sum, x),
    ],
    ids=["scan", "state", "while_loop", "checkpoint", "cond"],
)
def test_a_rule_inside_a_graph_may_use_numbers_and_tensors_from_outside(within, eager):
    """They become operands of the graph; in eager mode too, its own values do not exist yet."""
    w = pb.tensor(3.0, dtype="float64")

    @pb.custom_jvp
    def cube(x):
        return x * x * x

    cube.defjvp(lambda xs, ts: (cube(xs[0]), (w + 0.5 - 0.5) * xs[0] * xs[0] * ts[0]))

    @pb.custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (square(x), x), lambda x, g: ((w - 1.0) * x * g,))
    x = pb.tensor(X)
    with pb.config(eager=eager):
        f = within(cube)
        pushed = pb.jvp(f, (x,), (x,))[1]
        twice = pb.jvp(lambda x: pb.jvp(f, (x,), (x,))[1], (x,), (x,))[1]
        mapped = pb.vmap(lambda x: pb.jvp(f, (x,), (x,))[1])(x[None])
        if within is not in_a_while_loop:  # it has no reverse mode
            close(pb.grad(within(square))(x), 2 * X)
            close(pb.grad(within(cube))(x), 3 * X**2)
    close(pushed, (3 * X**3).sum())
    close(twice, (9 * X**3).sum())
    close(mapped, [(3 * X**3).sum()])


def test_a_rule_in_a_loop_is_not_cached():
    c = pb.tensor(X + 2)
    f = doubled_sine(c)
    x = pb.tensor(X)
    for shift in (2, 3, 4):
        c.assign(X + shift)
        close(pb.grad(lambda x: three_times(f, x).sum())(x), written_out(X, X + shift))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_rule_in_a_branch(sign):
    f = doubled_sine(pb.tensor(X + 2))

    def g(x):
        return pb.cond(x.sum() > 0, f, lambda x: x * x, x).sum()

    want = 2 * np.cos(X) * (X + 2) if sign > 0 else 2 * sign * X
    close(pb.grad(g)(pb.tensor(sign * X)), want)
    h = cube()
    pushed = pb.jvp(lambda x: pb.cond(x.sum() > 0, h, lambda x: x, x), (pb.tensor(X),), (X,))[1]
    close(pushed, 6 * X**3)


def test_a_solver_whose_loop_runs_once_and_is_not_differentiated():
    @pb.custom_vjp
    def root(a):
        def unsettled(x):
            return (abs(x * x - a) > 1e-12).any()

        return pb.while_loop(unsettled, lambda x: 0.5 * (x + a / x), a)

    def fwd(a):
        x = root(a)
        return x, x

    root.defvjp(fwd, lambda x, g: (g / (2.0 * x),))
    a = np.array([2.0, 3.0, 5.0])
    close(pb.grad(lambda a: root(a).sum())(pb.tensor(a)), 0.5 / np.sqrt(a))
    mapped = pb.vmap(pb.grad(root))
    close(mapped(pb.tensor(a)), 0.5 / np.sqrt(a))
    close(pb.grad(lambda a: pb.vmap(root)(a).sum())(pb.tensor(a)), 0.5 / np.sqrt(a))
    close(pb.grad(lambda a: mapped(a).sum())(pb.tensor(a)), -0.25 * a**-1.5)
    t = pb.trace(pb.value_and_grad(lambda a: root(a).sum()), pb.tensor(a))
    assert [n.op.name for n in canonicalise(t.graph).nodes].count("While") == 1


# -- one program ----------------------------------------------------------------------------------


def test_a_function_defined_again_at_each_step_compiles_once(monkeypatch):
    from pullback.lazy.launch import state

    def step(x):
        return pb.grad(lambda x: sine()(x, 2.0).sum())(x)

    x = pb.tensor(X)
    step(x).numpy()
    before = state.cache.compiles
    for _ in range(3):
        step(x).numpy()
    assert state.cache.compiles == before


def test_forward_work_that_the_rule_does_again_is_done_once():
    @pb.custom_vjp
    def f(x):
        return pb.tanh(pb.exp(x))

    def fwd(x):
        e = pb.exp(x)
        return pb.tanh(e), e

    f.defvjp(fwd, lambda e, g: (g * e,))
    t = pb.trace(lambda x: pb.value_and_grad(lambda x: f(x).sum())(x), pb.tensor(X))
    names = [n.op.name for n in canonicalise(t.graph).nodes]
    assert (names.count("Exp"), names.count("Tanh"), names.count("Custom")) == (1, 1, 0)


def test_gradient_nodes_belong_to_the_backward_pass(monkeypatch):
    f = sine()
    t = pb.trace(lambda x: pb.grad(lambda x: f(x, 2.0).sum())(x), pb.tensor(X))
    cosine = [n for n in t.graph.nodes if n.op.name == "Cos"]
    assert [n.backward for n in cosine] == [True]


# -- errors ---------------------------------------------------------------------------------------


def test_without_a_rule():
    f = pb.custom_vjp(lambda x: x)
    with told(ArgumentError, TypeError, "no derivative rule was given", "defvjp"):
        f(pb.tensor(1.0))
    with told(ArgumentError, TypeError, "defjvp"):
        pb.custom_jvp(lambda x: x)(pb.tensor(1.0))
    with told(ArgumentError, TypeError, "rules must be functions"):
        f.defvjp(lambda x: (x, None), None)


def test_forward_mode_without_a_jvp_suggests_defjvp():
    f = sine()
    x = pb.tensor(X)
    at = line(2)
    with told(UnsupportedOp, TypeError, "f: forward mode needs a jvp", "f.defjvp(rule)", at=at):
        pb.jvp(lambda x: f(x, 2.0), (x,), (x,))
    with pytest.raises(UnsupportedOp, match="defjvp"):
        pb.jvp(pb.vmap(lambda x: f(x, 2.0)), (x,), (x,))


def closing_over(w):
    @pb.custom_vjp
    def f(x):
        return x * w  # the line in the error

    f.defvjp(lambda x: (x * w, None), lambda kept, g: (g * w,))
    return f


def test_closing_over_a_tensor_under_a_derivative():
    x = pb.tensor(X)
    code = closing_over.__code__
    at = f"test_custom.py:{code.co_firstlineno + 3}"
    with told(UnsupportedOp, TypeError, "closes over", "Pass it as an argument", at=at):
        pb.grad(lambda w: closing_over(w)(x).sum())(x)
    with told(UnsupportedOp, TypeError, "closes over", at=at):
        closing_over(pb.tensor(X, requires_grad=True))(x)
    with pytest.raises(UnsupportedOp, match="closes over"):
        pb.grad(lambda w: pb.vmap(lambda w: closing_over(w)(x))(w).sum())(x)
    t = pb.trace(lambda w: closing_over(w)(x), x)
    with pytest.raises(UnsupportedOp, match="closes over"):
        pb.backward_on_trace(t)


def test_closing_over_a_constant_is_fine():
    w = pb.tensor(X + 1)
    close(pb.grad(lambda x: closing_over(w)(x).sum())(pb.tensor(X)), X + 1)
    p = pb.tensor(X, requires_grad=True)
    close(closing_over(pb.stop_gradient(p))(w), X * (X + 1))


def with_bwd(bwd, fwd=None):
    @pb.custom_vjp
    def f(x, y):
        return x * y["a"]

    f.defvjp(fwd or (lambda x, y: (f(x, y), None)), bwd)
    x = pb.tensor(X)
    return lambda: pb.grad(lambda x, y: f(x, y).sum(), (0, 1))(x, {"a": x})


# -- rules that use NumPy -------------------------------------------------------------------------


def numpy_sine(read=np.asarray):
    """sin(x), with a vjp that computes cos(x) in NumPy."""

    @pb.custom_vjp
    def f(x):
        return pb.tensor(np.sin(read(x)))

    f.defvjp(lambda x: (f(x), read(x)), lambda kept, g: (g * np.cos(kept),))
    return f


def numpy_cosine():
    """cos(x), with a jvp that computes -sin(x) in NumPy."""

    @pb.custom_jvp
    def f(x):
        return pb.tensor(np.cos(np.asarray(x)))

    @f.defjvp
    def rule(primals, tangents):
        return f(*primals), tangents[0] * -np.sin(primals[0].numpy())

    return f


@pytest.mark.parametrize("read", [np.asarray, lambda x: x.numpy(), lambda x: np.array(x.tolist())])
def test_a_rule_may_use_numpy_at_first_order(read):
    f, x = numpy_sine(read), pb.tensor(X)
    close(pb.grad(lambda x: f(x * 2).sum())(x), 2 * np.cos(2 * X))
    close(pb.vjp(f, x)[1](pb.ones_like(x))[0], np.cos(X))
    close(pb.jacrev(f)(x), np.diag(np.cos(X)))
    w = pb.tensor(X, requires_grad=True)
    f(w * 2).sum().backward()
    close(w.grad, 2 * np.cos(2 * X))


def test_a_jvp_may_use_numpy_at_first_order_in_both_modes():
    f, x = numpy_cosine(), pb.tensor(X)
    close(pb.jvp(f, (x,), (pb.ones_like(x),))[1], -np.sin(X))
    close(pb.jacfwd(f)(x), np.diag(-np.sin(X)))
    close(pb.grad(lambda x: f(x * 2).sum())(x), -2 * np.sin(2 * X))


@pytest.mark.parametrize("make", [numpy_sine, numpy_cosine])
@pytest.mark.parametrize(
    "second",
    [
        lambda f, x: pb.grad(lambda x: pb.grad(lambda x: f(x).sum())(x).sum())(x),
        lambda f, x: pb.hessian(lambda x: f(x).sum())(x),
        lambda f, x: pb.hvp(lambda x: f(x).sum(), (x,), (x,)),
        lambda f, x: pb.jacrev(pb.grad(lambda x: f(x).sum()))(x),
        lambda f, x: pb.vjp(pb.grad(lambda x: f(x).sum()), x),
        lambda f, x: pb.linearize(pb.grad(lambda x: f(x).sum()), x),
        lambda f, x: pb.backward_on_trace(pb.trace(pb.grad(lambda x: f(x).sum()), x)),
    ],
)
def test_numpy_in_a_rule_is_refused_at_second_order(make, second):
    with pytest.raises(GradientCut, match="detach"):
        second(make(), pb.tensor(X))


def test_the_gradient_of_a_numpy_rule_warns_where_backward_may_follow():
    f, w = numpy_sine(), pb.tensor(X, requires_grad=True)
    with pytest.warns(GradientCutWarning, match="detach"):
        pb.grad(lambda x: f(x * w).sum())(pb.tensor(X))


def test_what_bwd_returns_is_checked_at_its_line():
    at = line(2)
    with told(ArgumentError, ValueError, "f: bwd", "tuple of 2 cotangents", "got Tensor", at=at):
        with_bwd(lambda kept, g: g)()
    at = line(2)
    with told(ArgumentError, ValueError, "tuple of 2 cotangents", "got 1", at=at):
        with_bwd(lambda kept, g: (g,))()
    at = line(2)
    with told(ArgumentError, ValueError, "argument 1", "tree like the argument", at=at):
        with_bwd(lambda kept, g: (g, (g, g)))()
    at = line(2)
    with told(GradientVerification, ValueError, "argument 0 must be f64[3], got f64[]", at=at):
        with_bwd(lambda kept, g: (g.sum(), {"a": g}))()
    at = line(2)
    with told(GradientVerification, ValueError, "argument 1 must be f64[3], got f32", at=at):
        with_bwd(lambda kept, g: (g, {"a": g.astype("float32")}))()
    at = line(2)
    with told(ArgumentError, ValueError, "fwd must return a pair", at=at):
        with_bwd(lambda kept, g: (g, None), lambda x, y: x)()
    at = line(2)
    with told(GradientVerification, ValueError, "fwd's result must be f64[3]", at=at):
        with_bwd(lambda kept, g: (g, None), lambda x, y: (x.sum(), None))()


def test_what_a_jvp_returns_is_checked_at_its_line():
    def with_rule(rule):
        f = pb.custom_jvp(lambda x: x * 2.0)
        f.defjvp(rule)
        x = pb.tensor(X)
        return lambda: pb.jvp(f, (x,), (x,))

    at = line(2)
    with told(ArgumentError, ValueError, "must return a pair (result, tangent)", at=at):
        with_rule(lambda p, t: t[0])()
    at = line(2)
    with told(GradientVerification, ValueError, "tangent must be f64[3], got f64[]", at=at):
        with_rule(lambda p, t: (p[0], t[0].sum()))()


def test_a_jvp_that_is_not_linear_has_no_transpose():
    f = pb.custom_jvp(lambda x: x * 2.0)
    at = line(1)
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0] * tangents[0]))
    with told(GradientVerification, ValueError, "linear in the tangents", at=at):
        pb.grad(lambda x: f(x).sum())(pb.tensor(X))


def test_calls_that_do_not_fit_the_signature():
    with told(ArgumentError, TypeError, "f: missing a required argument"):
        sine()(pb.tensor(X))
    at = line(2)
    with told(ArgumentError, TypeError, "has no argument 'z'", at=at):
        pb.custom_vjp(lambda x: x, nondiff_argnames="z")


def test_the_rule_of_a_result_that_is_not_used_does_not_run(monkeypatch):
    f = sine()
    calls = count_calls(monkeypatch, f, "bwd")
    x = pb.tensor(X)
    close(pb.grad(lambda x: (x * 2.0 + 0.0 * pb.stop_gradient(f(x, x))).sum())(x), [2.0] * 3)
    assert calls == []
