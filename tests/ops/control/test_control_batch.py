"""Conditionals and loops under vmap, and run-time checks inside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import line

import pullback as pb
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.errors import ArgumentError, IndexOutOfRange
from pullback.graph.op_table import TABLE
from pullback.testing import graph_of

XS = np.sin(np.arange(12.0)).reshape(4, 3)
TABLE5 = np.arange(5.0) + 1


@pytest.fixture(params=["xla", "reference"], autouse=True)
def _engine(request: Any) -> Any:
    with pb.config(engine=request.param), pb.default_dtype("float64"):
        yield


def agrees(f: Callable, *args: Any, in_axes: Any = 0) -> None:
    """Compare vmap with a loop over the examples, also for derivatives, in either order."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    size = next(len(x) for x, a in zip(args, axes) if a is not None)
    args = tuple(map(pb.tensor, args))

    def rows(g: Callable) -> Any:
        made = []
        for i in range(size):
            made.append(g(*[x[i] if a is not None else x for x, a in zip(args, axes)]))
        return [np.stack([y.numpy() for y in ys]) for ys in zip(*map(pb.tree.leaves, made))]

    compare(pb.vmap(f, in_axes)(*args), rows(f))
    chosen = tuple(i for i, x in enumerate(args) if x.dtype.is_inexact)
    if not chosen:
        return
    total = lambda *xs: sum(y.sum() for y in pb.tree.leaves(f(*xs)))  # noqa: E731
    gradient = pb.grad(total, chosen)
    compare(pb.vmap(gradient, in_axes)(*args), rows(gradient))
    whole = pb.grad(
        lambda *xs: sum(y.sum() for y in pb.tree.leaves(pb.vmap(f, in_axes)(*xs))), chosen
    )
    want = [g if axes[i] is not None else g.sum(0) for i, g in zip(chosen, rows(gradient))]
    compare(whole(*args), want)


def compare(got: Any, want: Any) -> None:
    for a, b in zip(pb.tree.leaves(pb.evaluate(got)), want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-10, atol=1e-12)


# -- loops --------------------------------------------------------------------------------------


def cell(h: Any, xs: Any, w: Any) -> Any:
    return pb.scan(lambda h, x: (pb.tanh(h * w + x), h * x), h, xs)


BATCHED = np.stack([XS, XS[::-1] * 2])
STATES = np.array([[0.1, 0.2, 0.3], [1.0, -1.0, 0.5]])


@pytest.mark.parametrize("in_axes", [(0, 0, 0), (0, None, None), (None, 0, None), (None, None, 0)])
def test_scan_with_every_combination_of_mapped_operands(in_axes):
    whole = (STATES, BATCHED, STATES + 1)
    agrees(cell, *[x if a == 0 else x[0] for x, a in zip(whole, in_axes)], in_axes=in_axes)


def test_a_state_that_becomes_mapped_in_later_iterations():
    def f(x: Any) -> Any:
        step = lambda s, _: ((s[1], s[2], s[2] * x), s[0])  # noqa: E731
        return pb.scan(step, (1.0, 2.0, 3.0), length=4)

    agrees(f, np.array([0.5, -2.0]))


def test_nested_scans_reversed_and_unrolled():
    def f(xs: Any, w: Any) -> Any:
        def outer(c: Any, x: Any) -> Any:
            return pb.scan(lambda d, y: (pb.sin(d * w) + y, d), c, x, reverse=True)

        return pb.scan(outer, w, xs, unroll=3)

    agrees(f, BATCHED, np.array([0.3, 0.9]))


def test_vmap_twice_and_out_axes():
    f = lambda x: pb.scan(lambda c, y: (c + y, c * y), 0.0, x)[1]  # noqa: E731
    x = pb.tensor(np.arange(24.0).reshape(2, 3, 4))
    both = pb.vmap(pb.vmap(f), out_axes=1)(x).numpy()
    for i in range(2):
        for j in range(3):
            np.testing.assert_allclose(both[j, i], f(x[i, j]).numpy())


def test_each_example_of_a_while_loop_ends_separately():
    def f(n: Any, x: Any) -> Any:
        step = lambda s: (s[0] + 1, s[1] * x + 1.0)  # noqa: E731
        return pb.while_loop(lambda s: s[0] < n, step, (0, 1.0))[1]

    n, x = pb.tensor([3, 0, 5]), pb.tensor([2.0, 3.0, 0.5])
    got = pb.vmap(f)(n, x)
    np.testing.assert_allclose(got.numpy(), [15.0, 1.0, 1.96875])
    ones = pb.ones(3)
    pushed = pb.jvp(lambda x: pb.vmap(f)(n, x), (x,), (ones,))[1]
    np.testing.assert_allclose(pushed.numpy(), [17.0, 0.0, 3.5625])
    inside = pb.vmap(lambda n, x: pb.jvp(lambda x: f(n, x), (x,), (1.0,))[1])(n, x)
    np.testing.assert_allclose(inside.numpy(), pushed.numpy())
    same = pb.vmap(lambda x: f(pb.tensor(2), x))(x)  # all end at the same time
    np.testing.assert_allclose(same.numpy(), [7.0, 13.0, 1.75])


def test_bounds_that_differ_between_examples():
    f = lambda lo, hi: pb.fori_loop(lo, hi, lambda i, s: s * 10 + i, 0)  # noqa: E731
    assert pb.vmap(f)(pb.tensor([1, 4, 0]), pb.tensor([4, 4, 2])).tolist() == [123, 0, 1]


# -- conditionals -------------------------------------------------------------------------------


def pick(p: Any, x: Any, w: Any) -> Any:
    return pb.cond(p, lambda x: (pb.sin(x) @ w, x), lambda x: (x.sum(), w * 2), x)


def test_one_predicate_for_all_examples():
    agrees(lambda x, w: pick(pb.tensor(True), x, w), STATES, STATES[0], in_axes=(0, None))
    agrees(lambda x, w: pick(w.sum() < 0, x, w), STATES, STATES[0], in_axes=(0, None))


@pytest.mark.parametrize("in_axes", [(0, 0, 0), (0, 0, None), (0, None, None), (0, None, 0)])
def test_a_predicate_for_each_example(in_axes):
    whole = (np.array([True, False]), STATES, STATES + 1)
    agrees(pick, *[x if a == 0 else x[0] for x, a in zip(whole, in_axes)], in_axes=in_axes)


def test_switch_and_cond_inside_scan():
    def f(k: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            y = pb.switch((k + pb.astype(c > 0, "int64")) % 3, [pb.sin, pb.exp, lambda c: c * c], c)
            return pb.cond(x.sum() > 0, lambda: y - x.sum(), lambda: y * 0.5), y

        return pb.scan(step, 0.3, xs)

    agrees(f, np.array([0, 1, 2]), np.stack([XS, -XS, XS[::-1]]))


def test_no_examples():
    f = lambda p, x: pb.cond(p, pb.sin, lambda x: x[pb.argmax(x)] + x, x)  # noqa: E731
    assert pb.vmap(f)(pb.tensor(np.zeros(0, bool)), pb.zeros((0, 3))).numpy().shape == (0, 3)
    n = pb.vmap(lambda n: pb.while_loop(lambda i: i < n, lambda i: i + 1, 0))
    assert n(pb.tensor(np.zeros(0, np.int64))).tolist() == []


# -- checks -------------------------------------------------------------------------------------


def far(i: int) -> Any:
    """Return an index that is known only when the program runs."""
    return pb.tensor(i) * 1


def raises_at(place: str) -> Any:
    return pytest.raises(IndexOutOfRange, match=place.replace(".", r"\."))


def test_a_check_in_a_scan_names_the_line_inside_it():
    table = pb.tensor(TABLE5)

    def step(c: Any, i: Any) -> Any:
        return c + table[i], c

    good, _ = pb.scan(step, 0.0, pb.tensor([0, 4, 2]))
    assert good.item() == 9.0
    for rows in ([0, 7, 2], [7, 0, 0], [0, 0, -6]):
        bad, ys = pb.scan(step, 0.0, pb.tensor(rows))
        with raises_at(f"test_control_batch.py:{step.__code__.co_firstlineno + 1}"):
            bad.item()
        with pytest.raises(IndexOutOfRange):
            ys.numpy()


def test_a_check_in_a_branch_fails_only_if_the_branch_runs():
    table = pb.tensor(TABLE5)
    f = lambda p, i: pb.cond(p, lambda: table[i], lambda: -table[i - 9])  # noqa: E731
    assert f(pb.tensor(False), far(9)).item() == -1.0
    assert f(pb.tensor(True), far(4)).item() == 5.0
    for p, i in ((True, 9), (False, 3)):
        with raises_at(line(-4)):
            f(pb.tensor(p), far(i)).item()
    k = lambda j, i: pb.switch(j, [lambda: 0.0, lambda: table[i], lambda: 1.0])  # noqa: E731
    assert k(far(0), far(9)).item() == 0.0
    with pytest.raises(IndexOutOfRange):
        k(far(1), far(9)).item()


def test_a_loop_ends_when_a_check_fails():
    table = pb.tensor(TABLE5)
    for body in (lambda i: i + 1, lambda i: i + pb.astype(table[i] * 0, "int64") + 1):
        with pytest.raises(IndexOutOfRange, match=r"test_control_batch\.py"):
            pb.while_loop(lambda i: table[i] > 0, body, 0).item()
    found = pb.while_loop(lambda i: table[i] < 4, lambda i: i + 1, 0)
    assert found.item() == 3


def test_a_check_in_nested_regions():
    table = pb.tensor(TABLE5)

    def step(c: Any, i: Any) -> Any:
        inner = lambda d: pb.fori_loop(0, pb.tensor(2), lambda k, s: s + table[i + k], d)  # noqa: E731
        return pb.cond(i < 10, inner, lambda d: d, c), None

    assert pb.scan(step, 0.0, pb.tensor([0, 3, 50]))[0].item() == 12.0
    with raises_at(f"test_control_batch.py:{step.__code__.co_firstlineno + 1}"):
        pb.scan(step, 0.0, pb.tensor([0, 4]))[0].item()


def test_the_same_body_at_another_line_reports_its_own_line():
    table = pb.tensor(TABLE5)
    first, there = pb.scan(lambda c, i: (c + table[i], None), 0.0, pb.tensor([7]))[0], line()
    second, here = pb.scan(lambda c, i: (c + table[i], None), 0.0, pb.tensor([8]))[0], line()
    for value, place in ((first, there), (second, here)):
        with raises_at(place):
            value.item()


def test_examples_that_do_not_take_a_branch_do_not_fail_in_it():
    table = pb.tensor(TABLE5)
    f = lambda i, table: pb.cond(i < 5, lambda: table[i], lambda: -1.0)  # noqa: E731
    i = pb.tensor([1, 9, 4, -3 + 70])
    assert pb.vmap(f, (0, None))(i, table).tolist() == [2.0, -1.0, 5.0, -1.0]
    none = pb.vmap(f, (0, None))(i + 20, table)  # no example takes the branch: it does not run
    assert none.tolist() == [-1.0] * 4
    with pytest.raises(IndexOutOfRange):
        pb.vmap(f, (0, None))(pb.tensor([1, -9]), table).numpy()
    g = pb.grad(lambda t: pb.vmap(f, (0, None))(i, t).sum())(table)
    assert g.tolist() == [0.0, 1.0, 0.0, 0.0, 1.0]
    each = pb.vmap(pb.grad(f, 1), (0, None))(i, table)
    np.testing.assert_array_equal(each.numpy(), np.eye(5)[[1, 1, 4, 1]] * [[1], [0], [1], [0]])


def test_finished_examples_do_not_fail_in_later_iterations():
    table = pb.tensor(TABLE5)

    def f(n: Any) -> Any:
        step = lambda s: (s[0] + 1, s[1] + table[s[0]])  # noqa: E731
        return pb.while_loop(lambda s: s[0] < n, step, (0, 0.0))[1]

    assert pb.vmap(f)(pb.tensor([2, 5, 0])).tolist() == [3.0, 15.0, 0.0]
    with pytest.raises(IndexOutOfRange):
        pb.vmap(f)(pb.tensor([2, 6])).numpy()


def test_an_endless_loop_in_a_branch_that_some_examples_take():
    def halve(x: Any) -> Any:
        """End only for positive numbers."""
        return pb.while_loop(lambda x: x != 1, lambda x: pb.where(x > 1, x // 2, x), x)

    f = pb.vmap(lambda x: pb.cond(x > 0, halve, lambda x: x, x))
    assert f(pb.tensor([9, -5, 4])).tolist() == [1, -5, 1]
    assert f(pb.tensor([-9, -5, 0])).tolist() == [-9, -5, 0]


def test_an_index_without_a_branch_among_the_examples():
    f = pb.vmap(lambda k: pb.switch(k, [lambda: 1.0, lambda: 2.0]))
    assert f(pb.tensor([1, 0])).tolist() == [2.0, 1.0]
    with pytest.raises(IndexOutOfRange, match=r"switch: .* less than 2"):
        f(pb.tensor([1, 2])).numpy()


def test_ops_with_checks_are_marked_fallible():
    """Batching of branches relies on the flag."""
    for name, cls in TABLE.items():
        for op, arrays in cls.samples():
            builder = Builder()
            build_xla_module(graph_of(op, [np.asarray(a) for a in arrays]), builder)
            assert op.fallible or not builder.checks, name


# -- named axes ---------------------------------------------------------------------------------


def test_collectives_in_the_body_of_a_scan():
    def f(x: Any) -> Any:
        step = lambda c, y: (c + y / pb.psum(y, "i"), pb.pmean(c, "i"))  # noqa: E731
        return pb.scan(step, 0.0, x)

    x = np.abs(XS) + 1
    c, means = pb.vmap(f, axis_name="i", out_axes=(0, 0))(pb.tensor(x))
    share = x / x.sum(0)
    np.testing.assert_allclose(c.numpy(), share.sum(1))
    before = np.cumsum(share, 1) - share
    np.testing.assert_allclose(means.numpy(), np.tile(before.mean(0), (4, 1)))


def test_a_body_may_vary_along_axes_on_which_no_operand_does():
    index = lambda c, _: (c * 2 + pb.axis_index("i"), pb.axis_index("i"))  # noqa: E731
    f = lambda x: pb.scan(index, 1, length=3)  # noqa: E731
    c, ys = pb.vmap(f, axis_name="i")(pb.zeros(3))
    assert c.tolist() == [8, 15, 22]
    assert ys.tolist() == [[0] * 3, [1] * 3, [2] * 3]
    g = lambda x: pb.cond(pb.axis_index("i") > 0, lambda: x, lambda: -x)  # noqa: E731
    assert pb.vmap(g, axis_name="i")(pb.ones(3)).tolist() == [-1.0, 1.0, 1.0]


def test_gradients_through_collectives_in_a_scan():
    def loss(w: Any, xs: Any) -> Any:
        def one(x: Any) -> Any:
            step = lambda c, y: (pb.sin(c * w + y) - pb.pmean(c, "i"), None)  # noqa: E731
            return pb.scan(step, w, x)[0]

        return (pb.vmap(one, axis_name="i")(xs) ** 2).sum()

    def loop(w: Any, xs: Any) -> Any:
        c = pb.ones(4) * w
        for t in range(3):
            c = pb.sin(c * w + xs[:, t]) - c.mean()
        return (c**2).sum()

    w, xs = pb.tensor(0.7), pb.tensor(XS)
    for got, want in zip(pb.grad(loss, (0, 1))(w, xs), pb.grad(loop, (0, 1))(w, xs)):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10)


def test_examples_on_different_paths_cannot_communicate():
    f = lambda x: pb.cond(x > 0, lambda: pb.psum(x, "i"), lambda: x)  # noqa: E731
    with pytest.raises(ArgumentError, match="communicates along axis 'i'"):
        pb.vmap(f, axis_name="i")(pb.tensor([1.0, -1.0]))
    g = lambda x: pb.while_loop(lambda y: y < 9, lambda y: y + pb.psum(y, "i"), x)  # noqa: E731
    with pytest.raises(ArgumentError, match="communicates along axis 'i'"):
        pb.vmap(g, axis_name="i")(pb.tensor([1.0, 2.0]))
