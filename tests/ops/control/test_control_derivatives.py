"""Derivatives of conditionals and loops: both modes, any order, nested, and NaN-safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import UnsupportedOp
from pullback.ops.prelude import ones, zeros
from pullback.transforms.reverse import gradients

XS = np.sin(np.arange(12.0)).reshape(4, 3)


@pytest.fixture(autouse=True)
def _double() -> Any:
    with pb.default_dtype("float64"):
        yield


def slope(f: Callable, x: Any, t: Any, eps: float = 1e-5) -> np.ndarray:
    """Return the central difference of `f` at `x` in direction `t`."""
    x, t = np.asarray(x), np.asarray(t)
    up, down = f(pb.tensor(x + eps * t)), f(pb.tensor(x - eps * t))
    return (up.numpy() - down.numpy()) / (2 * eps)


def check(f: Callable, x: Any, order: int = 3) -> None:
    """Compare derivatives of `f`, up to an order, with central differences and forward mode."""
    x = np.asarray(x, float)
    t = np.cos(np.arange(x.size) + 1.0).reshape(x.shape)
    gradient = pb.grad(f)
    np.testing.assert_allclose(
        (gradient(pb.tensor(x)).numpy() * t).sum(), slope(f, x, t), rtol=1e-6, atol=1e-7
    )
    pushed = pb.jvp(f, (pb.tensor(x),), (pb.tensor(t),))[1]
    np.testing.assert_allclose(pushed.numpy(), slope(f, x, t), rtol=1e-6, atol=1e-7)
    if order > 1:
        forward = pb.jvp(gradient, (pb.tensor(x),), (pb.tensor(t),))[1]
        np.testing.assert_allclose(forward.numpy(), slope(gradient, x, t), rtol=1e-5, atol=1e-6)
        check(lambda x: (gradient(x) * pb.tensor(t)).sum(), x, order - 1)


# -- functions to differentiate -----------------------------------------------------------------


def rnn(w: Any) -> Any:
    """The result depends on the state, the rows and the captured weight."""
    h, ys = pb.scan(lambda h, x: (pb.tanh(h * w + x), h * x), pb.ones(3) * w, pb.tensor(XS))
    return (ys * ys).sum() + h.sum()


def matrices(w: Any) -> Any:
    """Products, which are kept, not recomputed."""
    a = pb.tensor(np.cos(np.arange(9.0)).reshape(3, 3))

    def step(m: Any, x: Any) -> Any:
        m = pb.sin(m @ (a * w)) + x
        return m, pb.sum(m @ m)

    return pb.scan(step, a, pb.tensor(XS))[1].sum()


def reverse(w: Any) -> Any:
    xs = pb.tensor(XS) * w
    return pb.scan(lambda h, x: (pb.sin(h) * x, None), w, xs, reverse=True, unroll=3)[0].sum()


def indexed(w: Any) -> Any:
    """A counter in the state indexes a captured table."""
    table = w * pb.tensor([1.0, 2.0, 3.0])
    step = lambda i, s: pb.sin(s) * table[i] + table[2 - i]  # noqa: E731
    return pb.fori_loop(0, 3, step, w.sum())


def nested(w: Any) -> Any:
    def outer(c: Any, x: Any) -> Any:
        d, ys = pb.scan(lambda d, y: (pb.tanh(d * w.sum()) + y, d * d), c.sum(), x)
        return c * 0.5 + pb.sin(d), ys

    c, ys = pb.scan(outer, w * 1, pb.tensor(XS))
    return ys.sum() + c.sum()


def chosen(w: Any) -> Any:
    """Iterations take different branches, which keep different values."""

    def step(c: Any, x: Any) -> Any:
        big = x.sum() > 0
        y = pb.cond(big, lambda c: pb.sin(c @ (c * w)) * x, lambda c: pb.exp(c * w) - x, c)
        k = pb.cond(big, lambda: 0, lambda: 2)
        return y * 0.3, pb.switch(k, [lambda: (y * y).sum(), lambda: 0.0, lambda: w.sum()])

    c, ys = pb.scan(step, pb.ones(3) * w, pb.tensor(XS))
    return c.sum() + (ys * ys).sum()


def scan_in_branch(w: Any) -> Any:
    run = lambda w: pb.scan(lambda s, x: (pb.sin(s * w) + x, None), w, pb.tensor(XS))[0]  # noqa: E731
    return pb.cond(w.sum() > 0, run, lambda w: w, w).sum()


def passed_on(w: Any) -> Any:
    """States that swap places, one that nothing depends on, rows that are unused."""
    step = lambda s, x: ((s[1], s[0] * w, s[2] + 1.0), (s[0], 2.0))  # noqa: E731
    (a, b, _), (ys, _) = pb.scan(step, (w, w * w, 0.0), pb.tensor(XS))
    return (a * b).sum() + ys.sum()


def mapped(w: Any) -> Any:
    return (pb.map(lambda x: pb.tanh(x @ w) ** 2, pb.tensor(XS)) ** 2).sum()


def newton(w: Any) -> Any:
    """A derivative inside the body of a loop that is differentiated."""
    f = lambda x: x * x * x - w.sum() - 3.0  # noqa: E731
    return pb.fori_loop(0, 5, lambda i, x: x - f(x) / pb.grad(f)(x), 1.0)


FUNCTIONS = [rnn, matrices, reverse, indexed, nested, chosen, scan_in_branch, passed_on, mapped,
             newton]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS)
def test_both_modes_to_third_order(f):
    with pb.config(engine="reference"):
        check(f, [0.4, 0.7, -0.2])


@pytest.mark.parametrize("f", FUNCTIONS)
def test_xla_agrees_at_second_order(f):
    w, t = pb.tensor([0.4, 0.7, -0.2]), pb.tensor([1.0, -0.5, 2.0])
    forward = lambda: pb.jvp(pb.value_and_grad(f), (w,), (t,))  # noqa: E731
    reverse = lambda: pb.grad(lambda w: (pb.grad(f)(w) * t).sum())(w)  # noqa: E731
    got = pb.tree.leaves((forward(), reverse()))
    pb.evaluate(got)
    with pb.config(engine="reference"):
        want = pb.tree.leaves((forward(), reverse()))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_backward_reaches_leaves_through_bodies(f):
    w = pb.tensor([0.4, 0.7, -0.2], requires_grad=True)
    f(w).backward()
    np.testing.assert_allclose(w.grad.numpy(), pb.grad(f)(w).numpy(), rtol=1e-12)


# -- which values have a derivative -------------------------------------------------------------


def test_gradients_of_the_initial_state_the_rows_and_a_captured_tensor():
    xs, c, w = pb.tensor(XS), pb.ones(3), pb.tensor([0.5, 2.0, -1.0])

    def f(c: Any, xs: Any, w: Any) -> Any:
        return pb.scan(lambda c, x: (c * w + x * x, None), c, xs)[0].sum()

    def loop(c: Any, xs: Any, w: Any) -> Any:
        for i in range(4):
            c = c * w + xs[i] * xs[i]
        return c.sum()

    for got, want in zip(pb.grad(f, (0, 1, 2))(c, xs, w), pb.grad(loop, (0, 1, 2))(c, xs, w)):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)


def test_a_tensor_that_is_used_twice_gets_both_gradients():
    x = pb.tensor([1.0, 2.0, 3.0])
    f = lambda x: pb.scan(lambda c, y: (c + y * x.sum(), None), x[0], x)[0]  # noqa: E731
    total = 6.0
    np.testing.assert_allclose(pb.grad(f)(x).numpy(), np.array([1.0, 0, 0]) + 2 * total)


def test_a_state_that_matters_only_in_the_first_iterations():
    xs = pb.tensor([1.0, 2.0, 3.0])
    once = lambda c: pb.scan(lambda c, x: (x, c * c), c, xs)[1].sum()  # noqa: E731
    twice = lambda c: pb.scan(lambda s, x: ((s[1], x), s[0] * s[1]), (2.0, c), xs)[1].sum()  # noqa: E731
    assert pb.grad(once)(5.0).item() == 10.0
    assert pb.grad(twice)(5.0).item() == 3.0
    check(once, 5.0, order=2)
    check(twice, 5.0, order=2)


def test_a_cotangent_of_zeros_is_not_cached_for_all_values():
    """Gradients are cached by ops and types: rules must not depend on a cotangent's value."""
    f = lambda x: pb.scan(lambda c, y: (c * y, c), 1.0, x)[1]  # noqa: E731
    ys, pull = pb.vjp(f, pb.tensor([2.0, 3.0, 5.0]))
    for number, want in ((0.0, [0.0, 0.0, 0.0]), (1.0, [4.0, 2.0, 0.0])):
        seed = pb.broadcast_to(pb.tensor(number), ys.shape)
        assert pull(seed)[0].tolist() == want
    y = pb.scan(lambda c, y: (c * y, c), 1.0, pb.asarray([2.0, 3.0]))[1]._node
    x = y.inputs[0].inputs[1]
    assert gradients([y], [zeros(y.type)], [x]) != [None]
    assert gradients([y], [ones(y.type)], [x]) != [None]


def test_integers_and_bools_in_the_state_are_constants():
    def step(s: Any, x: Any) -> Any:
        n, seen, c = s
        return (n + 1, seen | (x > 0), c * x + n), (n, seen)

    f = lambda x: pb.scan(step, (0, pb.tensor(False), 1.0), x)[0][2]  # noqa: E731
    check(f, [0.5, -1.5, 2.0], order=2)


def test_a_scan_of_length_zero_has_the_derivative_of_its_initial_state():
    f = lambda w: pb.scan(lambda s, _: (s * w * 3.0, s), w * w, length=0)[0].sum()  # noqa: E731
    np.testing.assert_allclose(pb.grad(f)(pb.tensor([1.0, 2.0])).numpy(), [2.0, 4.0])


def test_a_detached_state_passes_no_gradient():
    step = lambda s, x: (pb.stop_gradient(s) * x, None)  # noqa: E731
    g = pb.grad(lambda xs: pb.scan(step, 1.0, xs)[0])(pb.tensor([2.0, 3.0, 5.0]))
    assert g.tolist() == [0.0, 0.0, 6.0]


def test_complex_states():
    w = pb.tensor(np.array([0.3 + 0.4j, -0.2 + 0.9j]))

    def f(w: Any) -> Any:
        return pb.abs(pb.scan(lambda z, _: (z * z + w, None), w, length=4)[0]).sum()

    def loop(w: Any) -> Any:
        z = w
        for _ in range(4):
            z = z * z + w
        return pb.abs(z).sum()

    np.testing.assert_allclose(pb.grad(f)(w).numpy(), pb.grad(loop)(w).numpy(), rtol=1e-12)


@pytest.mark.parametrize("batched", [False, True])
def test_the_other_branch_leaks_no_nan(batched):
    def f(x: Any) -> Any:
        one = lambda x: pb.cond(x > 0, lambda x: pb.log(x) * pb.sqrt(x), lambda x: x * 3, x)  # noqa: E731
        two = lambda x: pb.cond(x < 10, pb.exp, lambda x: x, x)  # noqa: E731
        if batched:
            return pb.vmap(one)(x).sum() + pb.vmap(two)(x).sum()
        return pb.map(one, x).sum() + pb.map(two, x).sum()

    x = pb.tensor([-1.0, 0.0, 1000.0])
    want = [3 + np.exp(-1), 3 + 1, 1 + (np.log(1000) / 2 + 1) / np.sqrt(1000)]
    np.testing.assert_allclose(pb.grad(f)(x).numpy(), want, rtol=1e-12)
    assert np.isfinite(pb.jacfwd(pb.grad(f))(x).numpy()).all()
    t = pb.jvp(f, (x,), (pb.ones(3),))[1]
    np.testing.assert_allclose(t.numpy(), sum(want), rtol=1e-12)


# -- while --------------------------------------------------------------------------------------


def root(a: Any) -> Any:
    """Compute a square root by Newton's method."""
    step = lambda x: x - (x * x - a) / (2 * x)  # noqa: E731
    return pb.while_loop(lambda x: pb.abs(x * x - a) > 1e-13, step, 1.0)


def test_while_has_forward_derivatives_of_any_order():
    a = pb.tensor(2.0)
    first = lambda a: pb.jvp(root, (a,), (1.0,))[1]  # noqa: E731
    np.testing.assert_allclose(first(a).numpy(), 0.5 / np.sqrt(2), rtol=1e-9)
    second = pb.jvp(first, (a,), (1.0,))[1]
    np.testing.assert_allclose(second.numpy(), -0.25 * 2**-1.5, rtol=1e-6)


def test_the_error_for_reverse_mode_of_while_names_alternatives():
    with told(UnsupportedOp, TypeError, "while_loop", "pb.scan", "pb.fori_loop", "custom_vjp",
              at=f"test_control_derivatives.py:{root.__code__.co_firstlineno + 3}"):  # fmt: skip
        pb.grad(root)(2.0)
    f = lambda x: pb.fori_loop(0, pb.tensor(3), lambda i, s: s * i, x)  # noqa: E731
    with told(UnsupportedOp, TypeError, "while_loop",
              at=f"test_control_derivatives.py:{f.__code__.co_firstlineno}"):  # fmt: skip
        pb.grad(f)(2.0)


def test_reverse_mode_ignores_a_while_loop_without_derivative():
    def f(x: Any) -> Any:
        n, y = pb.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 2.0), (0, 1.0))
        return x * n * y

    assert pb.grad(f)(2.0).item() == 64.0
