"""Gradients with respect to intermediate values (T24), and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from counters import live_nodes
from helpers import told

import pullback as pb
from pullback.errors import (
    ArgumentError,
    GradientCut,
    GraphConsumed,
    NonDifferentiableInput,
    TraceError,
    UnsupportedShape,
)

X = np.array([0.5, 1.0, -2.0])


def f64(value, **options) -> pb.Tensor:
    return pb.tensor(np.array(value, np.float64), **options)


def inner(x):
    """A function of the gradients by an intermediate value and by the argument."""
    h = pb.sin(x)
    y = (h * h * x).sum()
    by_h, by_x = pb.gradients(y, [h, x])
    return (by_h * by_x).sum()


def by_hand(x):
    h = pb.sin(x)
    return (2 * h * x * (2 * h * x * pb.cos(x) + h * h)).sum()


def same(got, want) -> None:
    got, want = pb.tree.leaves(got), pb.tree.leaves(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


AROUND = {
    "grad": pb.grad,
    "value_and_grad": pb.value_and_grad,
    "second order": lambda f: pb.grad(lambda x: (pb.grad(f)(x) ** 2).sum()),
    "jvp": lambda f: lambda x: pb.jvp(f, (x,), (x,)),
    "hessian": pb.hessian,
    "trace": lambda f: lambda x: pb.trace(f, x).replay(x + 1),
    "backward_on_trace": lambda f: lambda x: pb.backward_on_trace(pb.trace(f, x))[x],
    "compile": pb.compile,
    "grad of compile": lambda f: pb.grad(pb.compile(f)),
    "compile of grad": lambda f: pb.compile(pb.grad(f)),
    "vmap": lambda f: lambda x: pb.vmap(f)(pb.stack([x, x * 2])),
    "vmap of grad": lambda f: lambda x: pb.vmap(pb.grad(f))(pb.stack([x, x * 2])),
    "grad of checkpoint": lambda f: pb.grad(pb.checkpoint(f)),
    "scan": lambda f: pb.grad(
        lambda x: pb.scan(lambda c, k: (c + f(x * k), None), f64(0.0), f64([1.0, 2.0]))[0]
    ),
    "cond": lambda f: pb.grad(lambda x: pb.cond(x[0] > 0, f, lambda x: x.sum(), x)),
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_T24_inside_every_transform(around):
    same(around(inner)(f64(X)), around(by_hand)(f64(X)))


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_T24_a_target_does_not_cut_the_graph(engine):
    with pb.config(engine=engine):
        x = f64(X, requires_grad=True)
        h = pb.sin(x)
        y = (h * h * x).sum()
        y.item()  # a value that is known has its history too
        both = pb.gradients(y, [h, x])
        np.testing.assert_allclose(both[0].numpy(), 2 * np.sin(X) * X)
        alone = pb.gradients(y, x)
        assert alone.tolist() == both[1].tolist()
        y.backward()
        np.testing.assert_allclose(x.grad.numpy(), alone.numpy())


def test_T24_above_leaves_the_result_can_be_differentiated():
    x = f64(X, requires_grad=True)
    h = x * x
    (by_h,) = pb.gradients((h**3).sum(), [h])
    (by_h**2).sum().backward()  # (3 x^4)^2
    np.testing.assert_allclose(x.grad.numpy(), 72 * X**7)
    y = (x * x).sum()
    with pb.no_grad():
        assert not pb.gradients(y, x).requires_grad
    assert pb.gradients(y, x).requires_grad


def test_T24_trees_of_targets_and_outputs():
    x = f64(X, requires_grad=True)
    h = {"a": x * 2, "deep": (x * 3, pb.arange(3), "text", None)}
    ys = {"p": h["a"] * h["a"], "q": h["deep"][0].sum()}
    seeds = {"p": f64([1.0, 0.0, 2.0]), "q": 5.0}
    found = pb.gradients(ys, h, seeds)
    np.testing.assert_allclose(found["a"].numpy(), [4 * X[0], 0, 8 * X[2]])
    assert found["deep"][0].tolist() == [5.0] * 3 and found["deep"][1:] == (None, None, None)
    pair = pb.gradients([x.sum(), (2 * x).sum()], (x, h["a"]))  # of the sum of the outputs
    assert type(pair) is tuple and pair[0].tolist() == [3.0] * 3


def test_T24_targets_that_are_not_reached_get_zeros():
    x = f64(X, requires_grad=True)
    h, other = x * 2, (x * 3).astype("float32")
    found = pb.gradients(h.sum(), [other, h, h])
    assert found[0].tolist() == [0.0] * 3 and found[0].dtype is other.dtype
    assert found[1].tolist() == found[2].tolist() == [1.0] * 3
    assert pb.grad(lambda x: pb.gradients(f64(1.0), x).sum() + x.sum())(f64(X)).tolist() == [1] * 3


def test_T24_complex_values_and_results_of_one_op():
    def f(x):
        z = x + 1j * x * x
        y = (z * z.conj()).real.sum()
        return pb.gradients(y, z).imag.sum()

    np.testing.assert_allclose(pb.grad(f)(f64(X)).numpy(), 4 * X)
    x = f64(X, requires_grad=True)
    values, _ = pb.top_k(x * 3, 2)
    by_values, by_x = pb.gradients((values**2).sum(), [values, x])
    np.testing.assert_allclose(by_values.numpy(), 6 * X[[1, 0]])
    np.testing.assert_allclose(by_x.numpy(), 18 * X * [1, 1, 0])


def test_T24_the_values_of_a_leaf_when_the_outputs_were_computed():
    x = f64(X, requires_grad=True)
    y = (x * x).sum()
    with pb.no_grad():
        x.assign(x + 100)
    both = y + (x * x).sum()
    np.testing.assert_allclose(pb.gradients(y, x).numpy(), 2 * X)
    np.testing.assert_allclose(pb.gradients(both, x).numpy(), 2 * X + 2 * (X + 100))


def test_T24_an_outer_value_inside_vmap_has_a_gradient_for_each_example():
    w = f64(X, requires_grad=True)
    h = w * w
    found = pb.vmap(lambda a: pb.gradients((h * a).sum(), w))(f64([1.0, 2.0]))
    np.testing.assert_allclose(found.numpy(), [2 * X, 4 * X])


def test_T24_a_training_loop_runs_one_program():
    w = f64([1.0, 2.0], requires_grad=True)

    def step():
        h = w * w
        g = pb.gradients((h * h).sum(), w)
        with pb.no_grad():
            w.assign(w - 0.01 * g)

    for _ in range(3):
        step()
    w.numpy()
    before = pb.cache_info().misses
    for _ in range(5):
        step()
    w.numpy()
    assert pb.cache_info().misses - before <= 1  # the loop of five is one program


def test_T24_a_training_loop_keeps_no_history():
    w, momentum = f64([1.0, 2.0], requires_grad=True), f64([0.0, 0.0])
    counts = []
    for i in range(40):
        h = w * w
        g = pb.gradients((h * h).sum(), w)
        with pb.no_grad():
            momentum = 0.9 * momentum + g
            w.assign(w - 0.001 * momentum)
        if i % 10 == 9:
            pb.evaluate(w, momentum)
            counts.append(live_nodes())
    assert counts[-1] <= counts[1]


def test_T24_on_a_mesh_gradients_have_the_layout_of_their_targets():
    mesh = pb.DeviceMesh(2, "d")

    def f(x):
        h = pb.sin(x)
        return pb.gradients((h * h * x).sum(), [h, x])

    with pb.config(engine="reference"):  # whose devices are simulated
        x = f64([0.5, 1.0, -2.0, 3.0])
        found = pb.vjp(f, x.shard(mesh, pb.P("d")))[0]
        assert all(g.sharding.spec == pb.P("d") for g in found)
        same(found, pb.vjp(f, x)[0])

        def local(x):
            return pb.gradients(pb.psum((x * x).sum(), "d"), x)

        mapped = pb.shard_map(local, mesh, pb.P("d"), pb.P("d"))(x)
        assert mapped.tolist() == (2 * x).tolist()


# -- what is refused ------------------------------------------------------------------------------


def test_values_whose_history_is_not_kept():
    x = f64(X)
    h = x * x
    with told(ArgumentError, ValueError, "history of targets[0]", "requires_grad=True", "pb.grad"):
        pb.gradients((h * h).sum(), [h])
    with told(ArgumentError, ValueError, "history of the target"):  # an outer constant
        pb.grad(lambda y: pb.gradients((h * y).sum(), h).sum())(x)
    with told(ArgumentError, ValueError, "do not depend on a tensor with requires_grad=True"):
        pb.gradients((h * h).sum(), [f64(X, requires_grad=True)])


def test_leaves_that_are_gone_and_graphs_that_are_consumed():
    def lost():
        x = f64(X, requires_grad=True)
        h = x * 2
        return h, h.sum()

    h, y = lost()
    with told(ArgumentError, ValueError, "no longer exist", "Keep a reference"):
        pb.gradients(y, h)
    x = f64(X, requires_grad=True)
    h = x * 2
    y = h.sum()
    y.backward()
    for target in (h, x):
        with told(GraphConsumed, RuntimeError, "already consumed", "run the forward again"):
            pb.gradients(y, target)


def test_targets_and_outputs_of_the_wrong_kind():
    x = f64(X, requires_grad=True)
    for target, shown in ([pb.arange(3)], "i64[3] at targets[0]"), ({"a": 1.0}, "targets['a']"):
        with told(NonDifferentiableInput, TypeError, "a float or complex tensor", shown):
            pb.gradients(x.sum(), target)
    with told(UnsupportedShape, ValueError, "must be a scalar, got f64[3]", "seeds"):
        pb.gradients(x * x, x)
    with told(NonDifferentiableInput, TypeError, "must be a real float", "seeds"):
        pb.gradients((x * 1j).sum(), x)
    with told(ArgumentError, ValueError, "shapes must agree"):
        pb.gradients(x * x, x, f64([1.0, 2.0]))
    with told(ArgumentError, TypeError, "outputs must be tensors or numbers, got str"):
        pb.gradients("x", x)


def test_a_cut_in_a_trace_is_refused():
    with told(GradientCut, TypeError, "gradients: the function read f64[3]"):
        pb.trace(lambda x: pb.gradients((x * x.numpy()).sum(), x), f64(X))


def test_a_target_that_was_used_outside_of_a_compiled_function():
    w = f64(X, requires_grad=True)
    h = w * w
    assert pb.compile(lambda a: pb.gradients((h * a).sum(), h))(f64(2.0)).tolist() == [2.0] * 3
    with told(TraceError, RuntimeError, "outside of the function", "Pass the target"):
        pb.compile(lambda a: pb.gradients((h * a).sum(), w))(f64(2.0))


# -- traces ---------------------------------------------------------------------------------------


def test_gradients_of_a_trace_are_in_the_order_of_its_inputs():
    x, n = f64(X), pb.arange(3)
    trace = pb.trace(lambda a, t, n: a * a * t["b"] * n, x, {"b": x}, n)
    first, second, third = trace.gradients()
    np.testing.assert_allclose(first.numpy(), 2 * X * X * np.arange(3))
    np.testing.assert_allclose(second.numpy(), X * X * np.arange(3))
    assert third is None and trace.names == ["a", "t['b']", "n"]
    total = pb.backward_on_trace(trace)[x]
    np.testing.assert_allclose(total.numpy(), first.numpy() + second.numpy())
    seeded = trace.gradients(f64([0.0, 0.0, 1.0]))
    np.testing.assert_allclose(seeded[1].numpy(), [0, 0, 2 * X[2] ** 2])
    unused = pb.trace(lambda a, b: a * 2, x, x).gradients()
    assert unused[1].tolist() == [0.0] * 3
