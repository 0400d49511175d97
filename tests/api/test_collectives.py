"""Collectives along the named axis of a vmap: values, derivatives, nesting, names."""

from __future__ import annotations

import numpy as np
import pytest
from exchanges import EXCHANGES, PARTS, check_exact, joined, of_every_type
from helpers import told
from rows import RNG, V, W, X, looped, loss, same

import pullback as pb
from pullback.errors import ArgumentError, AxisError, DTypeError, ShapeError
from pullback.graph.dtypes import float64
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.lazy.record import record_several
from pullback.ops.collective.all_reduce import PSum
from pullback.ops.sources import placeholder
from pullback.ops.wrap.call import Call

pytestmark = pytest.mark.usefixtures("engine")


def along(f, *args, **kwargs):
    return pb.vmap(f, axis_name="i", **kwargs)(*args)


def test_sums_means_and_extremes_over_the_examples():
    x = pb.tensor(X)
    for collective, want in (
        (pb.psum, X.sum(0)), (pb.pmean, X.mean(0)), (pb.pmax, X.max(0)), (pb.pmin, X.min(0)),
    ):  # fmt: skip
        same(along(lambda x, c=collective: c(x, "i"), x), np.stack([want] * 4))
        same(along(lambda x, c=collective: c(x, "i"), x, out_axes=None), want)
        same(along(lambda x, c=collective: x - c(x, "i"), x), X - want)


def test_values_that_all_examples_share():
    w = pb.tensor(W)
    x = pb.tensor(V)
    made = along(
        lambda x: (pb.psum(w, "i"), pb.pmean(w, "i"), pb.pmax(w, "i"), pb.psum(1, "i")),
        x, out_axes=None,
    )  # fmt: skip
    for got, want in zip(made, (4 * W, W, W, 4), strict=True):
        same(got, want)
    same(along(lambda x: pb.all_gather(w, "i"), x, out_axes=None), np.stack([W] * 4))
    same(along(lambda x: pb.ppermute(w, "i", [(0, 1)]), x), np.stack([0 * W, W, 0 * W, 0 * W]))


def test_trees_and_dtypes():
    tree = {"a": pb.tensor(X), "b": (pb.tensor([1, 2, 3, 4]), pb.tensor([True, False, True, True]))}
    got = along(lambda t: pb.psum(t, "i"), tree, out_axes=None)
    same(got["a"], X.sum(0))
    assert (got["b"][0].item(), got["b"][0].dtype) == (10, pb.int64)
    assert (got["b"][1].item(), got["b"][1].dtype) == (3, pb.int64)
    mean = along(lambda t: pb.pmean(t, "i"), tree, out_axes=None)
    assert (mean["b"][0].item(), mean["b"][1].item()) == (2.5, 0.75)
    small = along(lambda x: pb.psum(x, "i"), pb.tensor([100, 100], dtype=pb.int8), out_axes=None)
    assert (small.item(), small.dtype) == (200, pb.int64)
    # the sum of these does not fit into f16, the mean does
    large = along(lambda x: pb.pmean(x, "i"), pb.tensor([6e4, 6e4], dtype=pb.float16))
    assert large.dtype is pb.float16
    same(large, np.full(2, 6e4, np.float16))
    assert along(lambda x: pb.pmax(x, "i"), tree["b"][1], out_axes=None).item() is True
    with told(DTypeError, TypeError, "pmax", "complex64"):
        along(lambda x: pb.pmax(x, "i"), pb.tensor([1j, 2j]))


def test_all_gather_stacks_or_concatenates():
    x = pb.tensor(X)
    for axis in (0, 1, -1):
        got = along(lambda x, a=axis: pb.all_gather(x, "i", axis=a), x, out_axes=None)
        same(got, np.stack(list(X), axis))
    same(along(lambda x: pb.all_gather(x, "i", tiled=True), x, out_axes=None), X.reshape(-1))
    matrices = RNG.standard_normal((4, 2, 3))
    for axis in (0, 1, -1, -2):
        got = along(
            lambda x, a=axis: pb.all_gather(x, "i", axis=a, tiled=True),
            pb.tensor(matrices), out_axes=None,
        )  # fmt: skip
        same(got, np.concatenate(list(matrices), axis))
    got = along(lambda x: pb.all_gather(x, "i") @ x, x)
    same(got, np.stack([X @ row for row in X]))
    with told(AxisError, IndexError, "all_gather", "axis 2"):
        along(lambda x: pb.all_gather(x, "i", axis=2), x)
    with told(AxisError, IndexError, "all_gather", "axis 1"):
        along(lambda x: pb.all_gather(x, "i", axis=1, tiled=True), x)


def test_axis_index():
    x = pb.tensor(X)
    got = along(lambda x: pb.axis_index("i"), x)
    assert got.tolist() == [0, 1, 2, 3]
    assert got.dtype is pb.int64
    same(along(lambda x: x[pb.axis_index("i") % 3], x), X[range(4), [0, 1, 2, 0]])
    assert pb.vmap(lambda: pb.axis_index("i"), axis_size=3, axis_name="i")().tolist() == [0, 1, 2]


def test_ppermute():
    x = pb.tensor(X)
    ring = [(i, (i + 1) % 4) for i in range(4)]
    same(along(lambda x: pb.ppermute(x, "i", ring), x), np.roll(X, 1, 0))
    some = along(lambda x: pb.ppermute(x, "i", [(0, 3), (2, 0)]), x)
    same(some, np.stack([X[2], 0 * X[0], 0 * X[0], X[0]]))
    same(along(lambda x: pb.ppermute(x, "i", []), x), 0 * X)
    for pairs in ([(0, 1), (0, 2)], [(0, 1), (2, 1)], [(0, 4)], [(-1, 0)]):
        with told(ArgumentError, ValueError, "ppermute", "below 4"):
            along(lambda x, p=pairs: pb.ppermute(x, "i", p), x)


# Each with the same computation on all examples at once, as the expected result.
COLLECTIVES = {
    "psum": (lambda x: x * pb.psum(x * x, "i"), lambda x: x * (x * x).sum(axis=0)),
    "pmean": (lambda x: pb.sin(x - pb.pmean(x, "i")), lambda x: pb.sin(x - x.mean(axis=0))),
    "pmax": (lambda x: x * pb.pmax(x, "i"), lambda x: x * x.max(axis=0)),
    "pmin": (lambda x: x / pb.pmin(x, "i"), lambda x: x / x.min(axis=0)),
    "softmax": (
        lambda x: pb.exp(x - pb.pmax(x, "i")) / pb.psum(pb.exp(x - pb.pmax(x, "i")), "i"),
        lambda x: pb.softmax(x, axis=0),
    ),
    "all_gather": (
        lambda x: pb.all_gather(x, "i").T @ pb.all_gather(x, "i") @ x,
        lambda x: x @ (x.T @ x),
    ),
    "tiled": (
        lambda x: (pb.all_gather(x, "i", tiled=True) ** 3).sum() * x,
        lambda x: (x**3).sum() * x,
    ),
    "ppermute": (
        lambda x: x * pb.ppermute(x * x, "i", [(0, 1), (1, 2), (3, 0)]),
        lambda x: x * pb.stack([x[3] ** 2, x[0] ** 2, x[1] ** 2, x[2] * 0.0]),
    ),
    "axis_index": (
        lambda x: x * x * pb.axis_index("i"),
        lambda x: x * x * pb.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=pb.float64),
    ),
    "psum of a psum": (
        lambda x: pb.psum(x * pb.psum(x, "i"), "i") * x,
        lambda x: (x * x.sum(axis=0)).sum(axis=0) * x,
    ),
    "reduce_scatter": (
        lambda x: x * pb.reduce_scatter(pb.concat([x, x[:1] ** 2]), "i") ** 2,
        lambda x: x * pb.concat([x, x[:, :1] ** 2], axis=1).sum(axis=0)[:, None] ** 2,
    ),
    "all_to_all": (
        lambda x: x * pb.all_to_all(pb.concat([x, x[:1] ** 2]) ** 3, "i", 0, 0)[:3],
        lambda x: x * (pb.concat([x, x[:, :1] ** 2], axis=1) ** 3).T[:, :3],
    ),
    "pvary": (lambda x: x * pb.pvary(pb.psum(x**2, "i"), "i"), lambda x: x * (x**2).sum(axis=0)),
    "shared result": (lambda x: pb.psum(x**3, "i"), lambda x: (x**3).sum(axis=0)),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_derivatives_of_collectives(name):
    one, all_at_once = COLLECTIVES[name]
    x, c = pb.tensor(X), pb.tensor(X[::-1].copy())
    mapped = pb.vmap(one, axis_name="i")
    shared = name == "shared result"  # the same for all examples: it is repeated, and c with it
    f = (lambda x: (mapped(x)[0] * c[0]).sum()) if shared else (lambda x: (mapped(x) * c).sum())

    def g(x):
        return (all_at_once(x) * (c[0] if shared else c)).sum()

    same(f(x), g(x))
    want = pb.grad(g)(x)
    same(pb.grad(f)(x), want)

    # taken inside, the gradient is that of the sum over all examples, shared values counted once
    def part(x, c):
        return (one(x) * c).sum()

    if shared:
        inside = pb.vmap(pb.grad(part), in_axes=(0, None), axis_name="i")(x, c[0])
    else:
        inside = pb.vmap(pb.grad(part), axis_name="i")(x, c)
    same(inside, want)
    t = pb.tensor(RNG.standard_normal(X.shape))
    same(pb.jvp(f, (x,), (t,))[1], pb.jvp(g, (x,), (t,))[1])
    pushed = pb.vmap(lambda x, t: pb.jvp(one, (x,), (t,))[1], axis_name="i")(x, t)
    same(pushed, pb.jvp(mapped, (x,), (t,))[1])
    if not shared:
        same(pushed, pb.jvp(all_at_once, (x,), (t,))[1])
    same(pb.hvp(f, (x,), (t,))[0], pb.hvp(g, (x,), (t,))[0])
    twice = pb.grad(lambda x: (pb.grad(g)(x) * t).sum())(x)
    same(pb.grad(lambda x: (pb.grad(f)(x) * t).sum())(x), twice)
    if not shared:

        def second(x, c, t):
            return (pb.grad(part)(x, c) * t).sum()

        same(pb.vmap(pb.grad(second), axis_name="i")(x, c, t), twice)


@pytest.mark.parametrize("name", EXCHANGES)
def test_every_dtype(name):
    one, _, kinds = EXCHANGES[name]
    arrays = of_every_type(kinds)
    made = along(lambda xs: [one(x) for x in xs], [pb.tensor(a) for a in arrays])
    check_exact(name, arrays, made)


@pytest.mark.parametrize("name", EXCHANGES)
def test_collectives_in_nested_vmaps(name):
    one, by_numpy, _ = EXCHANGES[name]
    data = np.stack([PARTS, PARTS[::-1], PARTS + 1, -PARTS])
    want = np.stack([joined(by_numpy, x, 3) for x in data])
    along_i = pb.vmap(one, axis_name="i")
    same(pb.vmap(along_i)(pb.tensor(data)), want)
    same(pb.vmap(pb.vmap(one), axis_name="i", in_axes=1, out_axes=1)(pb.tensor(data)), want)
    shared = pb.vmap(lambda x, y: one(x) + y.sum(), in_axes=(None, 0), axis_name="i")
    y = pb.tensor(np.arange(3.0))
    got = shared(pb.tensor(PARTS[0]), y).numpy()
    repeated = joined(by_numpy, np.stack([PARTS[0]] * 3), 3)
    same(got, repeated + np.arange(3.0).reshape(3, *[1] * (repeated.ndim - 1)))


def test_parts_that_do_not_fit():
    x = pb.tensor(PARTS[:, :5])
    for call in (
        lambda x: pb.reduce_scatter(x, "i"), lambda x: pb.all_to_all(x, "i", 0, 1),
    ):  # fmt: skip
        with told(ShapeError, ValueError, "dimension 0 must divide into 3 parts", "f64[5,2]"):
            along(call, x)
    for call in (
        lambda x: pb.reduce_scatter(x, "i", axis=2), lambda x: pb.all_to_all(x, "i", 0, 2),
        lambda x: pb.all_to_all(x, "i", 2, 0),
    ):  # fmt: skip
        with told(AxisError, IndexError, "axis 2", "f64[5,2]"):
            along(call, x)
    with told(ArgumentError, ValueError, "one name"):
        along(lambda x: pb.all_to_all(x, ("i",), 0, 0), x)
    assert pb.psum_scatter is pb.reduce_scatter
    assert along(lambda x: pb.axis_size("i") + 0 * x[0, 0], x).tolist() == [3.0, 3.0, 3.0]


def test_ties_share_the_gradient_of_an_extreme():
    x = pb.tensor([2.0, 5.0, 5.0, 1.0])
    same(pb.grad(lambda x: along(lambda x: pb.pmax(x, "i"), x, out_axes=None))(x), [0, 0.5, 0.5, 0])
    x = pb.tensor([2.0, np.nan, 5.0])
    got = pb.grad(lambda x: along(lambda x: pb.pmax(x, "i"), x, out_axes=None))(x)
    same(got, pb.grad(lambda x: x.max())(x))


def test_a_gradient_of_a_shared_value_is_the_total():
    """The examples along a named axis are parts of one computation."""
    x, w = pb.tensor(X), pb.tensor(W)
    total = pb.grad(lambda w: looped(lambda x: loss(x, w), x).sum())(w)
    inside = along(lambda x, w: pb.grad(loss, 1)(x, w), x, w, in_axes=(0, None), out_axes=None)
    same(inside, total)
    own = along(lambda x, w: pb.grad(loss, 1)(x, w), x, pb.stack([w] * 4))
    same(own, pb.vmap(pb.grad(loss, 1), in_axes=(0, None))(x, w))
    mean = along(
        lambda x, w: pb.grad(lambda w: pb.pmean(loss(x, w), "i"))(w),
        x, w, in_axes=(0, None), out_axes=None,
    )  # fmt: skip
    same(mean, total / 4)


def ruled(f):
    """The function, with its gradient as a custom rule."""
    made = pb.custom_vjp(f)
    made.defvjp(lambda *xs: (made(*xs), xs), lambda xs, g: pb.vjp(f, *xs)[1](g))
    return made


WRAPPED = {
    "compile": pb.compile,
    "checkpoint": pb.checkpoint,
    "custom_vjp": ruled,
    "scan": lambda f: lambda x, w: pb.scan(lambda s, _: (s, f(x, w)), 0.0, length=1)[1][0],
    "state": lambda f: lambda x, w: pb.scan(lambda s, _: (s * 0 + f(x, w), None), 0.0, length=2)[0],
    "cond": lambda f: lambda x, w: pb.cond(pb.psum(x, "i").sum() < 1e9, f, lambda x, w: w[0], x, w),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_gradient_does_not_depend_on_wrappers_around_the_function(name):
    """A value that all examples share is shared inside a wrapper too, and counts once."""

    def shared(x, w):
        return (pb.psum(x * w, "i") ** 2).sum() + (w**3).sum()

    def own(x, w):
        return (x * w).sum() * pb.psum((x * w).sum(), "i")

    x, w = pb.tensor(X), pb.tensor(W[:, 0])
    for f in (shared, own):
        wrapped = WRAPPED[name](f)
        for argument in (0, 1):
            for use in (lambda g: g, lambda g, f=f: lambda x, w: g(x, w) * f(x, w)):
                made = [pb.grad(use(g), argument) for g in (wrapped, f)]
                got, want = (along(g, x, w, in_axes=(0, None)) for g in made)
                same(got, want)


def test_nested_named_axes():
    data = RNG.standard_normal((2, 3, 4))
    x = pb.tensor(data)

    def both(f, **kwargs):
        return pb.vmap(pb.vmap(f, axis_name="j", **kwargs), axis_name="i", **kwargs)(x)

    same(both(lambda x: pb.psum(x, ("i", "j")), out_axes=None), data.sum((0, 1)))
    same(both(lambda x: pb.psum(x, ("j", "i")), out_axes=None), data.sum((0, 1)))
    same(both(lambda x: pb.pmean(x, ("j", "i")), out_axes=None), data.mean((0, 1)))
    same(both(lambda x: pb.pmax(x, ("i", "j")), out_axes=None), data.max((0, 1)))
    same(both(lambda x: x - pb.psum(x, "i")), data - data.sum(0))
    same(both(lambda x: x - pb.psum(x, "j")), data - data.sum(1, keepdims=True))
    same(both(lambda x: x * pb.psum(pb.psum(x, "j"), "i")), data * data.sum((0, 1)))
    index = both(lambda x: pb.axis_index("i") * 10 + pb.axis_index("j"))
    assert index.tolist() == [[0, 1, 2], [10, 11, 12]]
    gathered = both(lambda x: pb.all_gather(pb.all_gather(x, "j"), "i"), out_axes=None)
    same(gathered, data)
    gathered = both(lambda x: pb.all_gather(pb.all_gather(x, "i"), "j", axis=2), out_axes=None)
    same(gathered, data.transpose(0, 2, 1))
    swap = both(lambda x: pb.ppermute(x, "i", [(0, 1), (1, 0)]))
    same(swap, data[::-1])


def test_gradients_over_nested_named_axes():
    data = RNG.standard_normal((2, 3, 4))
    x, c = pb.tensor(data), pb.tensor(data[::-1].copy())

    def one(x):
        return x * pb.psum(x**2, "j") + pb.psum(x, "i") * pb.pmean(x, ("i", "j"))

    def whole(x):
        return x * (x**2).sum(axis=1, keepdims=True) + x.sum(axis=0, keepdims=True) * x.mean(
            axis=(0, 1), keepdims=True
        )

    mapped = pb.vmap(pb.vmap(one, axis_name="j"), axis_name="i")
    want = pb.grad(lambda x: (whole(x) * c).sum())(x)
    same(pb.grad(lambda x: (mapped(x) * c).sum())(x), want)

    def part(x, c):
        return (one(x) * c).sum()

    inside = pb.vmap(pb.vmap(pb.grad(part), axis_name="j"), axis_name="i")(x, c)
    same(inside, want)
    # the axes in the other order, and a gradient between the two
    turned = pb.vmap(pb.vmap(pb.grad(part), axis_name="i"), in_axes=1, out_axes=1, axis_name="j")
    same(turned(x, c), want)
    between = pb.vmap(
        pb.grad(lambda x, c: pb.vmap(part, axis_name="j")(x, c).sum()), axis_name="i"
    )(x, c)
    same(between, want)


def test_an_unnamed_axis_beside_a_named_one():
    data = RNG.standard_normal((2, 4, 3))
    x = pb.tensor(data)

    def inner(x):
        return pb.vmap(lambda x: x - pb.pmean(x, "i"), axis_name="i")(x)

    same(pb.vmap(inner)(x), data - data.mean(1, keepdims=True))
    outer = pb.vmap(pb.vmap(lambda x: x - pb.pmean(x, "i")), axis_name="i")
    same(outer(x), data - data.mean(0))
    gather = pb.vmap(pb.vmap(lambda x: pb.all_gather(x, "i", axis=1)), axis_name="i", out_axes=None)
    same(gather(x), data.transpose(1, 2, 0))


def test_names_that_are_unbound_or_bound_twice():
    x = pb.tensor(V)
    for call in (
        lambda x: pb.psum(x, "j"), lambda x: pb.pmean(x, ("i", "j")), lambda x: pb.pmax(x, "j"),
        lambda x: pb.pmin(x, "j"), lambda x: pb.all_gather(x, "j"),
        lambda x: pb.axis_index("j"), lambda x: pb.ppermute(x, "j", []),
        lambda x: pb.axis_size("j"), lambda x: pb.pvary(x, "j"),
        lambda x: pb.reduce_scatter(x, "j"), lambda x: pb.all_to_all(x, "j", 0, 0),
    ):  # fmt: skip
        with told(ArgumentError, ValueError, "no axis named 'j'", "'i'", "axis_name"):
            along(call, x)
        with told(ArgumentError, ValueError, "bound axes: none"):
            call(x)
    # the name is free again after the call, and after one that failed
    with told(ArgumentError, ValueError, "bound axes: none"):
        pb.psum(x, "i")
    with told(ArgumentError, ValueError, "'i' is already bound"):
        along(lambda x: along(lambda y: y, pb.tensor(V)) * x, x)
    with told(ArgumentError, ValueError, "names an axis twice"):
        along(lambda x: pb.psum(x, ("i", "i")), x)
    with told(ArgumentError, ValueError, "one name"):
        along(lambda x: pb.all_gather(x, ("i",)), x)
    with told(ArgumentError, ValueError, "axis_name must be a string", "3"):
        pb.vmap(lambda x: x, axis_name=3)
    with told(ArgumentError, ValueError, "out_axes is None"):
        along(lambda x: x - pb.psum(x, "i"), x, out_axes=None)


def test_a_called_program_may_contain_collectives():
    def program(f, *shapes):
        inputs = [
            placeholder(f"x{k}", Type(s, float64, None, ("i",))) for k, s in enumerate(shapes)
        ]
        return Call("f", Graph(inputs, (f(*inputs),)))

    total = program(lambda x: PSum(("i",))(x * x), (3,))

    def f(x):
        return x * record_several(total, (x._node,))[0]

    def plain(x):
        return x * (x * x).sum(axis=0)

    x = pb.tensor(X)
    same(along(f, x), plain(x))
    same(pb.grad(lambda x: along(f, x).sum())(x), pb.grad(lambda x: plain(x).sum())(x))
    inside = along(pb.grad(lambda x: f(x).sum()), x)
    same(inside, pb.grad(lambda x: plain(x).sum())(x))
    # nothing is mapped, but the program names the axis
    w = pb.tensor(W[:, 0])
    shared = along(lambda x: record_several(total, (w._node,))[0], x, out_axes=None)
    same(shared, 4 * W[:, 0] ** 2)
    inside = along(
        lambda x: pb.grad(lambda w: record_several(total, (w._node,))[0].sum())(w),
        x, out_axes=None,
    )  # fmt: skip
    same(inside, 8 * W[:, 0])
