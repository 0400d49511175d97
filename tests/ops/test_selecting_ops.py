"""What a selecting function did not choose leaves no trace, not even of an infinite cotangent.

The Jacobian of such a function at a point holds zeros. A cotangent or tangent that is infinite in
one element must reach the elements with a nonzero entry and no other: NaN there would be 0 * inf.
"""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

INF = float("inf")


@pytest.fixture(params=["xla", "reference"], autouse=True)
def _engine(request):
    with pb.config(engine=request.param), np.errstate(all="ignore"):
        yield


OTHER = np.array([0.0, 2.0, 1.0, -3.0])
MATRIX = (2, 2)
SELECTING = {
    "maximum": lambda x: pb.maximum(x, OTHER),
    "minimum": lambda x: pb.minimum(OTHER, x),
    "relu": pb.relu,
    "abs": pb.abs,
    "copysign": lambda x: pb.copysign(x, OTHER),
    "clip": lambda x: pb.clip(x, -1.0, 1.5),
    "clip from below": lambda x: pb.clip(x, 0.5),
    "clip between operands": lambda x: pb.clip(x[:2], x[2:], OTHER[:2]),
    "where": lambda x: pb.where(OTHER > 0.5, x, 0.0),
    "max": pb.max,
    "min of rows": lambda x: pb.min(x.reshape(MATRIX), axis=1),
    "norm of order inf": lambda x: pb.norm(x, ord=INF),
    "sort": pb.sort,
    "descending sort": lambda x: pb.sort(x, descending=True),
    "top_k": lambda x: pb.top_k(x, 2)[0],
    "cummax": pb.cummax,
    "cummin": lambda x: pb.cummin(x.reshape(MATRIX), axis=1),
    "max_pool": lambda x: pb.max_pool(x.reshape((1, 1, 4)), 2, 1),
    "take": lambda x: pb.take(x, pb.tensor([2, 0, 2])),
    "take_along_axis": lambda x: pb.take_along_axis(x, pb.tensor([3, 1]), axis=0),
    "slice": lambda x: x[1:3],
    "index": lambda x: x[pb.tensor([0, 3])],
    "dynamic_slice": lambda x: pb.dynamic_slice(x, [pb.tensor(1)], [2]),
    "scatter max": lambda x: pb.tensor(OTHER).at[pb.tensor([0, 0, 2, 2])].max(x),
    "scatter min": lambda x: x.at[pb.tensor([1, 3])].min(0.0),
    "scatter set": lambda x: x.at[1].set(0.0),
    "tril": lambda x: pb.tril(x.reshape(MATRIX)),
    "diagonal": lambda x: pb.diagonal(x.reshape(MATRIX)),
    "pad": lambda x: pb.pad(x, ((1, 2),)),
    "roll": lambda x: pb.roll(x, 1),
    "repeat": lambda x: pb.repeat(x, 2),
    "concat": lambda x: pb.concat([x[2:], x[:1]]),
    "cond": lambda x: pb.cond(x.sum() > 0, lambda x: x[:2], lambda x: x[2:], x),
    "mapped cond": lambda x: pb.vmap(
        lambda x: pb.cond(x > 0, lambda x: x, lambda x: 0.0 * pb.ones_like(x), x)
    )(x),
    "scan": lambda x: pb.scan(lambda c, v: (pb.maximum(c, v),) * 2, x[0], x)[1],
    "cumulative_sum": pb.cumulative_sum,
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTING)
def test_an_infinite_cotangent_reaches_only_what_was_chosen(name):
    f = SELECTING[name]
    x = pb.tensor([-1.0, 2.0, 0.0, 3.0], dtype="float64")
    jacobian = pb.jacrev(f)(x).numpy().reshape(-1, 4)
    np.testing.assert_array_equal(pb.jacfwd(f)(x).numpy().reshape(-1, 4), jacobian)
    y, pull = pb.vjp(f, x)
    for i, row in enumerate(jacobian):
        g = np.zeros(y.shape)
        g.reshape(-1)[i] = INF
        want = np.where(row == 0, 0.0, INF * row)
        np.testing.assert_array_equal(pull(pb.tensor(g))[0].numpy(), want, err_msg=f"output {i}")


@pytest.mark.parametrize("name", SELECTING)
def test_an_infinite_tangent_reaches_only_what_chose_it(name):
    f = SELECTING[name]
    x = pb.tensor([-1.0, 2.0, 0.0, 3.0], dtype="float64")
    jacobian = pb.jacfwd(f)(x).numpy().reshape(-1, 4)
    for i, column in enumerate(jacobian.T):
        t = pb.tensor(np.where(np.arange(4) == i, INF, 0.0))
        got = pb.jvp(f, (x,), (t,))[1].numpy().reshape(-1)
        np.testing.assert_array_equal(got, np.where(column == 0, 0.0, INF * column))


@pytest.mark.parametrize("name", SELECTING)
def test_it_holds_for_the_derivative_of_the_derivative(name):
    """The pullback is linear in its cotangent: its own pullback is the pushforward."""
    f = SELECTING[name]
    x = pb.tensor([-1.0, 2.0, 0.0, 3.0], dtype="float64")
    y, _ = pb.vjp(f, x)
    ones = pb.ones_like(y)
    _, pull_back = pb.vjp(lambda g: pb.vjp(f, x)[1](g)[0], ones)
    for i in range(4):
        t = pb.tensor(np.where(np.arange(4) == i, INF, 0.0))
        want = pb.jvp(f, (x,), (t,))[1].numpy()
        np.testing.assert_array_equal(pull_back(t)[0].numpy(), want)


BEHIND = {
    "sqrt of maximum": (lambda x: pb.sqrt(pb.maximum(x, 0.0)), -1.0),
    "log of maximum": (lambda x: pb.log(pb.maximum(x, 0.0)), -1.0),
    "cbrt of minimum": (lambda x: pb.cbrt(pb.minimum(x, 0.0)), 1.0),
    "sqrt of clip": (lambda x: pb.sqrt(pb.clip(x, 0.0, 1.0)), -1.0),
    "sqrt of relu": (lambda x: pb.sqrt(pb.relu(x)), -1.0),
    "reciprocal of max": (lambda x: 1.0 / pb.max(pb.stack([x, pb.zeros_like(x)])), -1.0),
    "sqrt of exp": (lambda x: pb.sqrt(pb.exp(x)), -1000.0),
}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", BEHIND)
def test_a_singular_function_of_a_constant_branch(name, wrapped):
    f, at = BEHIND[name]
    g = pb.compile(lambda x: pb.vmap(pb.checkpoint(f))(x[None])[0]) if wrapped else f
    x = pb.tensor(at, dtype="float64")
    one = pb.ones_like(x)
    first = [pb.grad(g), lambda x: pb.jvp(g, (x,), (one,))[1]]
    second = [pb.grad(d) for d in first] + [
        lambda x, d=d: pb.jvp(d, (x,), (one,))[1] for d in first
    ]
    assert [d(x).item() for d in first + second] == [0.0] * 6
