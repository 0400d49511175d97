"""Scoped keys: deterministic, and refused where they would repeat."""

from __future__ import annotations

import threading

import pytest

import pullback as pb
from pullback.errors import ArgumentError, DTypeError

F = pb.nn.functional
KEY = pb.random.key(3)


def model(x, p=0.5):
    return F.dropout(F.dropout(x, p) + 1, p)


def run(key, x):
    with pb.nn.rng(key):
        return model(x)


@pytest.fixture(autouse=True)
def _reference():
    with pb.config(engine="reference"):
        yield


def test_a_scope_gives_different_keys_in_order():
    x = pb.ones((4, 8))
    assert run(KEY, x).tolist() == run(KEY, x).tolist() != run(pb.random.key(4), x).tolist()
    with pb.nn.rng(KEY):
        outer = pb.nn.next_key().tolist()
        with pb.nn.rng(KEY):  # a stream of its own
            assert pb.nn.next_key().tolist() == outer
        assert pb.nn.next_key().tolist() != outer
    with pb.nn.rng(KEY) as scope, scope:
        assert pb.nn.next_key().tolist() == outer


def test_transforms_inside_and_outside():
    x = pb.ones((3, 8))
    wanted = pb.grad(lambda x: run(KEY, x).sum())(x).tolist()
    with pb.nn.rng(KEY):
        assert pb.grad(lambda x: model(x).sum())(x).tolist() == wanted
    for scoped in (run, pb.compile(run), pb.checkpoint(run)):
        assert scoped(KEY, x).tolist() == run(KEY, x).tolist()
        other = pb.random.key(9)
        assert scoped(other, x).tolist() == run(other, x).tolist() != run(KEY, x).tolist()
    keys = pb.random.split(KEY, 3)
    rows = pb.vmap(run)(keys, x)
    assert rows.tolist() == [run(k, row).tolist() for k, row in zip(keys, x)]
    with pb.nn.rng(KEY):  # all examples share a mask, unless their keys are mapped
        shared = pb.vmap(model)(x)
    assert shared[0].tolist() == shared[1].tolist()
    compiled = pb.compile(lambda key, x: pb.vmap(lambda row: run(key, row))(x))
    assert compiled(KEY, x)[0].tolist() == compiled(KEY, x)[1].tolist()


def test_scan_with_a_key_for_each_step():
    def step(total, key):
        with pb.nn.rng(key):
            y = F.dropout(pb.ones(4))
        return total + y, y

    keys = pb.random.split(KEY, 5)
    total, ys = pb.scan(step, pb.zeros(4), keys)
    wanted = [step(pb.zeros(4), k)[1].tolist() for k in keys]
    assert ys.tolist() == wanted and total.tolist() == ys.sum(0).tolist()


@pytest.mark.parametrize("traced", [
    lambda x: pb.compile(model)(x),
    lambda x: pb.scan(lambda c, _: (model(c), None), x, length=3),
    lambda x: pb.fori_loop(0, 3, lambda i, c: model(c), x),
])  # fmt: skip
def test_a_scope_around_a_program_that_runs_again_is_refused(traced):
    with pb.nn.rng(KEY), pytest.raises(ArgumentError, match="is outside of a function") as raised:
        traced(pb.ones(4))
    assert "inside it" in str(raised.value)


def test_without_a_scope():
    x = pb.ones((3, 8))
    pb.nn.seed(5)
    first, second = F.dropout(x), F.dropout(x)
    pb.nn.seed(5)
    assert F.dropout(x).tolist() == first.tolist() != second.tolist()
    with pytest.raises(ArgumentError, match=r"dropout: there is no key[\s\S]*with pb.nn.rng"):
        pb.vmap(F.dropout)(x)
    assert F.dropout(pb.ones(3), training=False).tolist() == [1.0] * 3
    assert F.dropout(pb.ones(3), 0.0).tolist() == [1.0] * 3
    with pytest.raises(DTypeError, match=r"nn.rng: key must be u32\[2\]"):
        pb.nn.rng(pb.ones(2))
    found = []
    with pb.nn.rng(KEY):  # a stream belongs to its thread
        thread = threading.Thread(target=lambda: found.append(pb.nn.next_key().tolist()))
        thread.start()
        thread.join()
        assert found[0] != pb.nn.next_key().tolist()


def test_what_dropout_leaves():
    x = pb.ones((50, 40, 5), dtype="f64")
    y = F.dropout(x, 0.3, key=KEY).numpy()
    assert set(y.ravel().round(9)) == {0.0, round(1 / 0.7, 9)} and abs(y.mean() - 1) < 0.03
    assert not F.dropout(x, 1.0, key=KEY).numpy().any()
    z = F.feature_dropout(x, 0.5, key=KEY).numpy()
    assert (z == z[:, :1]).all() and 0 < z[:, 0].mean() < 2
    z = F.feature_dropout(x, 0.5, key=KEY, layout="NCHW").numpy()
    assert (z == z[:, :, :1]).all() and len(set(z[:, :, 0].ravel())) == 2
    normal = pb.random.normal(pb.random.key(5), (100, 100))
    kept = F.alpha_dropout(normal, 0.2, key=KEY).numpy()
    assert abs(kept.mean()) < 0.05 and abs(kept.std() - 1) < 0.05
    whole = F.feature_alpha_dropout(x, 0.5, key=KEY).numpy()
    assert (whole == whole[:, :1]).all()
    slope = pb.grad(lambda x: F.dropout(x, 0.3, key=KEY).sum())(x).numpy()
    assert (slope == y).all()
    with pytest.raises(ArgumentError, match="p must be a probability"):
        F.dropout(x, 1.5, key=KEY)


def test_other_random_functions():
    with pb.nn.rng(KEY):
        soft = F.gumbel_softmax(pb.zeros((6, 4)), 0.5)
        hard = F.gumbel_softmax(pb.zeros((6, 4)), hard=True, axis=0)
        leaky = F.rrelu(-pb.ones(100), training=True)
    assert abs(soft.numpy().sum(-1) - 1).max() < 1e-5 and hard.numpy().sum(0).tolist() == [1] * 4
    assert -1 / 3 <= leaky.min().item() < leaky.max().item() <= -1 / 8
    slope = pb.grad(lambda x: (F.gumbel_softmax(x, hard=True, key=KEY) * pb.arange(4.0)).sum())
    assert slope(pb.zeros(4)).numpy().any()
    q = pb.ones((1, 4, 8))
    dropped = F.scaled_dot_product_attention(q, q, q, dropout_p=0.5, dropout_key=KEY)
    assert dropped.numpy().std() > 0
