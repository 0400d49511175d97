"""Roots of derivatives: what is computed before one begins, and what stays pending."""

from __future__ import annotations

import numpy as np
import pytest
from counters import counting

import pullback as pb
from pullback.errors import IndexOutOfRange

X = np.array([1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def deferred():
    with pb.config(eager=False, verify_shapes=False):
        yield


def is_pending(x):
    return x._node.value is None


def branching(x):
    total = (x * x).sum()
    return total if total > 0 else -total


@pytest.mark.parametrize(
    "derivative",
    [
        lambda x: pb.grad(branching)(x),
        lambda x: pb.value_and_grad(branching)(x),
        lambda x: pb.vjp(branching, x)[1](pb.tensor(1.0, pb.float64)),
        lambda x: pb.jvp(branching, (x,), (x,)),
        lambda x: pb.linearize(branching, x),
        lambda x: pb.jacrev(branching)(x),
        lambda x: pb.jacfwd(branching)(x),
        lambda x: pb.hvp(branching, (x,), (x,)),
        lambda x: pb.trace(branching, x),
    ],
)
def test_a_read_inside_computes_no_unrelated_work(derivative):
    x, other = pb.tensor(X), pb.tensor(X)
    unread = [pb.hessian(lambda x: pb.sin(x).prod())(x), pb.exp(other), x + 1]
    with counting() as counts:
        found = derivative(x)
    assert counts.programs == 1 and all(map(is_pending, unread))
    assert found is not None and unread[2].tolist() == [2.0, 3.0, 4.0]
    assert unread[0].shape == (3, 3) and unread[0][0, 0].item() < 0


def test_arguments_are_computed_with_what_shares_their_work():
    x = pb.tensor(X)
    shared = pb.sinh(x)  # no other test has cached a program without the sibling
    argument, sibling, unrelated = shared + 1, shared * 2, pb.cos(pb.tensor(X))
    with counting() as counts:
        g = pb.grad(lambda tree: (tree["a"] ** 2).sum())({"a": argument})
    assert counts.programs == 1 and not is_pending(argument) and not is_pending(sibling)
    assert is_pending(unrelated) and is_pending(g["a"])
    np.testing.assert_allclose(g["a"].numpy(), 2 * (np.sinh(X) + 1))


@pytest.mark.parametrize("reads", [False, True])
def test_a_captured_tensor_is_computed_at_its_first_use(reads):
    w, scale = pb.tensor(X), pb.tensor(1.0, pb.float64)

    def loss(w):
        y = (pb.sin(w) * scale).sum()
        return y * 2 if reads and y > 1e9 else y

    compiled = []
    for _ in range(5):
        scale = scale * 0.5 + 1.0  # pending when the derivative begins, and not its argument
        with counting() as counts:
            w = w - 0.1 * pb.grad(loss)(w)
        compiled.append(counts.compiles)
        assert not is_pending(scale)
    assert not any(compiled[2:])
    expected, s = X, 1.0
    for _ in range(5):
        s = s * 0.5 + 1.0
        expected = expected - 0.1 * np.cos(expected) * s
    np.testing.assert_allclose(w.numpy(), expected)


def test_a_captured_tensor_is_computed_through_loops_and_results():
    w, a, b = pb.tensor(X), pb.tensor(X) * 2, pb.tensor(X) + 1

    def loss(w):
        rows = pb.vmap(lambda e: e * a.sum())(w)
        return (
            rows.sum()
            + pb.top_k(b * w, 2).values.sum()
            + pb.scan(lambda c, e: (c + e, e), 0.0, a)[0]
        )

    expected = pb.grad(loss)(w)
    assert not is_pending(a) and not is_pending(b)
    assert np.isfinite(expected.numpy()).all()


def test_a_loop_that_keeps_gradients_runs_one_program_a_step():
    w, total = pb.tensor(X), 0.0
    counted = []
    for i in range(6):
        with counting() as counts:
            total = total + pb.grad(lambda w, i=i: (pb.sin(w) * float(i)).sum())(w)
        counted.append((counts.programs, counts.compiles))
    assert counted[3:] == [(1, 0)] * 3
    np.testing.assert_allclose(total.numpy(), np.cos(X) * 15)


def test_a_pending_parameter_of_backward_submits_only_its_own_work():
    w, unrelated = pb.tensor(X, requires_grad=True), pb.exp(pb.tensor(X))
    for _ in range(2):
        (w * w).sum().backward()
        with pb.no_grad():
            w.assign(w - 0.1 * w.grad)
        w.zero_grad()
    assert is_pending(unrelated)
    np.testing.assert_allclose(w.numpy(), 0.64 * X)


def test_a_failure_among_the_roots_is_raised_when_it_is_read():
    bad = pb.tensor(X)[pb.tensor([5])]
    g = pb.grad(lambda x: (x * 2).sum())(bad)
    assert g.tolist() == [2.0]
    with pytest.raises(IndexOutOfRange):
        bad.numpy()


def test_pending_work_is_put_back_after_an_error():
    x, unread = pb.tensor(X), pb.exp(pb.tensor(X))

    def fails(x):
        raise KeyError("stopped")

    with pytest.raises(KeyError):
        pb.grad(fails)(x)
    later = unread + 1
    pb.evaluate(later)
    assert not is_pending(unread)
