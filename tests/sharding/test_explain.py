"""explain_sharding: what is sent, and for which line, also in loops and branches."""

from __future__ import annotations

import numpy as np
import pytest
from devices import on_meshes
from helpers import line, told

import pullback as pb
from pullback.errors import IndexOutOfRange

MESH = pb.DeviceMesh((2, 2), ("dp", "tp"))
X = np.arange(24, dtype=np.float32).reshape(6, 4)


@pytest.fixture(autouse=True)
def simulated():
    with pb.config(engine="reference"):
        yield


def put(array, *spec):
    return pb.tensor(array).shard(MESH, pb.P(*spec))


def explained(f, *args):
    return [
        (e.op, str(e.where), e.why, e.of) for e in pb.debug.explain_sharding(f)(*args).exchanges
    ]


def recurrent(x, up, down):
    def cell(h, _):
        return pb.tanh(h @ up @ down), None

    return pb.scan(cell, x, None, length=3)[0]


def the_same_elsewhere(x, up, down):
    def cell(h, _):
        return pb.tanh(h @ up @ down), None

    return pb.scan(cell, x, None, length=3)[0]


def test_a_collective_in_a_loop_names_the_line_in_its_body():
    """Also if the same loop was explained before, for other lines."""
    args = put(X, "dp"), put(np.ones((4, 8), "f"), None, "tp"), put(np.ones((8, 4), "f"), "tp")
    for f in (recurrent, the_same_elsewhere):
        where = f"test_explain.py:{f.__code__.co_firstlineno + 2}"
        assert explained(f, *args) == [("tanh", where, "the sum over tp", f"matmul ({where})")]


def test_collectives_of_conditions_and_branches_have_reasons():
    def settle(x):
        return pb.while_loop(lambda s: s.sum() < 100, lambda s: s + s.mean(), x)

    def nested(x):
        def most(x):
            return pb.scan(lambda c, _: (c + x.max(0), None), pb.zeros((4,)), None, length=2)[0]

        return pb.cond(x[0, 0] < 1, lambda x: x.sum(0), most, x)

    x = put(X, "dp")
    assert [(op, of[:3]) for op, _, _, of in explained(settle, x)] == [
        ("less", "sum"), ("div", "sum"), ("less", "sum"),
    ]  # fmt: skip
    assert [(op, why) for op, _, why, _ in explained(nested, x)][1:] == [
        ("cond", "the sum over dp"), ("scan", "the max over dp"),
    ]  # fmt: skip


def test_a_collective_that_the_user_wrote_says_so():
    def total(x):
        f = pb.shard_map(lambda p: pb.psum(p.sum(), "dp"), MESH, pb.P("dp"), pb.P())
        return f(x)

    found = pb.debug.explain_sharding(total)(put(X, "dp"))
    assert explained(total, put(X, "dp")) == [("psum", line(-4), "", "")]
    assert str(found).endswith("is part of a shard_map")


def test_sums_in_a_loop_go_in_one_bucket():
    """Training steps inside a scan: one all_reduce for all gradients and the loss per iteration."""

    def train(params, x):
        def step(p, _):
            loss = pb.value_and_grad(lambda p: ((pb.tanh(x @ p[0]) @ p[1]) ** 2).mean())
            value, grads = loss(p)
            return [a - 0.1 * g for a, g in zip(p, grads, strict=True)], value

        return pb.scan(step, params, None, length=5)

    whole = [pb.ones((4, 8)), pb.ones((8, 4))]
    params = [w.shard(MESH, pb.P()) for w in whole]
    (sums,) = pb.debug.explain_sharding(train)(params, put(X, "dp")).exchanges
    assert len(sums.types) == 3 and sums.rounds == 5
    got, want = train(params, put(X, "dp")), train(whole, pb.tensor(X))
    for a, b in zip((*got[0], got[1]), (*want[0], want[1]), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


def test_a_scan_of_several_steps_gathers_once():
    x = put(X, "dp")
    assert len(explained(lambda x: pb.cumlogsumexp(x, 0), x)) == 1
    want = pb.cumlogsumexp(pb.tensor(X), 0).numpy()
    np.testing.assert_allclose(pb.cumlogsumexp(x, 0).numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("engine", ["reference", "xla"])
@on_meshes
def test_a_failed_check_names_its_line(engine):
    """Indices are checked inside loops, branches, compiled functions and shard_maps."""
    x, i = put(X, "dp"), pb.tensor(2)
    inner, called = pb.compile(lambda x, i: x[i]), line()
    split = pb.shard_map(lambda p, i: p[i], MESH, (pb.P("dp"), pb.P()), pb.P("dp"))
    mapped = line(-1)
    cases = [
        (lambda i: (x * 2)[i] + 1, X[2] * 2 + 1, line()),
        (lambda i: pb.scan(lambda h, _: (h, h[i]), x, None, length=2)[1], X[[2, 2]], line()),
        (lambda i: pb.while_loop(lambda h: h[i].sum() < 40, lambda h: h + 9, x), X + 9, line()),
        (lambda i: pb.cond(x.sum() < 1e9, lambda h: h[i], lambda h: h[0], x), X[2], line()),
        (lambda i: pb.checkpoint(lambda h: h[i])(x), X[2], line()),
        (lambda i: pb.grad(lambda h: inner(h, i).sum())(x), np.eye(6)[:, [2] * 4], called),
        (lambda i: split(x, i), X[[2, 5]].ravel(), mapped),
    ]
    for f, want, where in cases:
        np.testing.assert_array_equal(f(i).numpy(), want)
        with told(IndexOutOfRange, IndexError, "index", "out of range", at=where):
            f(pb.tensor(7)).numpy()
