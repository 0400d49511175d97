"""Handles, copies and constants: what is part of a derivative, and what a value keeps."""

from __future__ import annotations

import copy
import operator
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from helpers import line

import pullback as pb
from pullback.errors import ArgumentError, IndexOutOfRange, TraceError


def leaf(value: Any) -> pb.Tensor:
    return pb.tensor(value, requires_grad=True)


# -- copies of a value keep its checks ------------------------------------------------------------


def bad_read() -> pb.Tensor:
    y = pb.tensor([1.0, 2.0])[pb.tensor([5])]
    pb.evaluate(y)
    return y


@pytest.mark.parametrize(
    "copied",
    [
        lambda y: y.detach(),
        lambda y: pb.stop_gradient(y) * 1,
        lambda y: pb.tensor(y),
        lambda y: pb.grad(lambda z: (z * z).sum())(y),
    ],
)
def test_a_copy_of_a_bad_value_raises(copied):
    with pytest.raises(IndexOutOfRange):
        copied(bad_read()).numpy()


def test_a_leaf_that_was_assigned_a_bad_value_raises():
    w = leaf([1.0, 2.0])
    with pb.no_grad():
        w.assign(w[pb.tensor([5, 1])])
    with pytest.raises(IndexOutOfRange):
        (w * 1).numpy()


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_a_cached_program_names_the_line_of_this_run(engine):
    x = pb.tensor([1.0, 2.0])
    with pb.config(engine=engine):
        for index in (7, 8):
            y = x[pb.tensor([index])]
            here = line(-1)
            with pytest.raises(IndexOutOfRange, match=here.replace(".", r"\.")):
                y.numpy()


# -- leaves ---------------------------------------------------------------------------------------


def test_a_pending_leaf_keeps_its_value_in_a_trace():
    w = leaf(1.0)
    with pb.no_grad():
        w.assign(w * 2)
    pb.eval_shape(lambda x: x * w, pb.tensor(1.0))
    assert w.item() == 2.0


def test_a_leaf_can_be_assigned_in_another_thread():
    w = leaf(1.0)

    def assign() -> None:
        with pb.no_grad():
            w.assign(w * 2)

    worker = threading.Thread(target=assign)
    worker.start()
    worker.join()
    (w * w).backward()
    assert w.grad.item() == 4.0


def test_a_copied_leaf_has_its_own_gradient():
    w = leaf([1.0, 2.0])
    for made in (copy.deepcopy(w), copy.copy(w), pickle.loads(pickle.dumps(w))):
        (made * 3).sum().backward()
        assert made.grad.tolist() == [3.0, 3.0] and w.grad is None
        assert made.tolist() == [1.0, 2.0] and made.requires_grad
    plain = pb.tensor([1, 2]) * 2
    assert pickle.loads(pickle.dumps(plain)).tolist() == copy.deepcopy(plain).tolist() == [2, 4]


def test_a_tensor_can_be_assigned_a_value_computed_from_it():
    a = leaf(1.0)
    b = a * 2
    a.requires_grad = False
    a.assign(b)
    assert a.item() == 2.0
    assert not a.requires_grad


@pytest.mark.parametrize("read", [False, True])
def test_a_tensor_whose_leaf_is_gone_is_no_leaf(read):
    y = leaf(2.0) ** 2
    if read:
        assert y.item() == 4.0
    z = y + pb.tensor(1.0)
    for computed in (y, z, copy.copy(z)):
        assert computed.requires_grad and not computed.is_leaf
        with pytest.raises(ArgumentError, match="only leaves keep a gradient"):
            _ = computed.grad
        with pytest.raises(ArgumentError, match=f"no longer exist .{line(1)}"):
            computed.backward()
    assert not z.detach().requires_grad and pb.grad(lambda t: t * t)(z).item() == 10.0
    w = leaf(3.0)
    (y * w).backward()  # the gradient of a leaf that exists is right
    assert w.grad.item() == 4.0


def test_marks_of_leaves_that_are_gone_do_not_grow():
    total = pb.tensor(0.0)
    for i in range(20):
        total = total + leaf(float(i)) * 2
        assert len(total._node.tokens) <= 2
    assert total.item() == 380.0 and len(total._node.tokens) == 1


def test_a_leaf_that_was_released_leaves_no_trace():
    a = leaf(1.0)
    b = a * 2
    a.requires_grad = False
    del a
    assert b.is_leaf and not b.requires_grad


@pytest.mark.parametrize("used", [False, True])
def test_an_assigned_leaf_is_differentiated_whether_or_not_it_was_used_since(used):
    w, c = leaf(1.0), pb.tensor(0.0)
    with pb.no_grad():
        w.assign(2.0)
    if used:
        _ = w * 1
    c.assign(w)
    (c * c).backward()
    assert w.grad.item() == 4.0
    pb.tensor(w).backward()
    assert w.grad.item() == 5.0


def test_grad_can_only_be_set_to_a_tensor_of_the_type_of_the_leaf():
    w = leaf([1.0])
    with pytest.raises(ArgumentError, match=r"f32\[1\].*f32\[2,1\]"):
        w.grad = pb.tensor([[1.0], [1.0]])


def test_requires_grad_inside_a_derivative_is_refused():
    def f(x: pb.Tensor) -> pb.Tensor:
        u = x * 2
        u.requires_grad = True
        return u * u

    with pytest.raises(ArgumentError, match="detach"):
        pb.grad(f)(2.0)


# -- constants ------------------------------------------------------------------------------------


def test_a_detached_value_is_not_part_of_the_graph():
    w, v = leaf(2.0), leaf(3.0)
    h = w * 1.0
    (v * h.detach()).backward()
    h.backward()
    assert (v.grad.item(), w.grad.item()) == (2.0, 1.0)
    assert not (w * 2).detach().requires_grad


def test_a_consumed_loss_can_be_detached():
    w = leaf(2.0)
    loss = w * w
    loss.backward()
    (loss.detach() * w).backward()
    assert w.grad.item() == 8.0


def test_a_sum_of_detached_losses_keeps_no_history():
    w, total = leaf(1.0), pb.tensor(0.0)
    counts = []
    for _ in range(12):
        total = total + (w * w).detach()
        total.numpy()
        counts.append(pb.engine_info().live_nodes)
    assert counts[-1] == counts[3]


def test_a_gradient_taken_in_no_grad_is_a_constant():
    def f(x: pb.Tensor) -> pb.Tensor:
        with pb.no_grad():
            g = pb.grad(lambda z: z * z)(x)
        return g * x

    assert pb.grad(f)(2.0).item() == 4.0
    w = leaf(2.0)
    with pb.no_grad():
        value, g = pb.value_and_grad(lambda z: z * z)(w)
    assert not value.requires_grad and not g.requires_grad


def test_scopes_can_be_entered_twice():
    scope = pb.no_grad()
    w = leaf(1.0)
    with scope:
        with scope:
            pass
        assert not (w * 2).requires_grad
    assert (w * 2).requires_grad


# -- results and traces ---------------------------------------------------------------------------


def test_changing_a_result_in_place_does_not_change_its_derivative():
    y, pull = pb.vjp(lambda x: x * x, pb.tensor(3.0))
    y *= 2
    assert pull(1.0)[0].item() == 6.0
    y, push = pb.linearize(lambda x: x * x, pb.tensor(3.0))
    y += 1
    assert push(1.0).item() == 6.0


def test_a_trace_replays_what_no_grad_recorded():
    kept = []

    def f(x: pb.Tensor) -> pb.Tensor:
        with pb.no_grad():
            c = x * 2
        kept.append(c)
        return x + c

    trace = pb.trace(f, pb.tensor(1.0))
    kept[0].item()
    assert trace.replay(5.0).item() == 15.0


def test_a_trace_that_branched_in_no_grad_is_refused():
    def f(x: pb.Tensor) -> pb.Tensor:
        with pb.no_grad():
            positive = bool(x > 0)
        return x * 2 if positive else x

    with pytest.raises(TraceError):
        pb.trace(f, pb.tensor(1.0)).replay(-1.0)


def test_a_trace_whose_output_was_read_can_be_replayed():
    trace = pb.trace(lambda x: x * x, pb.tensor(2.0))
    assert trace.outputs[0].item() == 4.0
    assert trace.replay(3.0).item() == 9.0


def test_a_tensor_given_twice_gets_the_sum_of_its_gradients():
    x = pb.tensor(3.0)
    assert pb.backward_on_trace(pb.trace(lambda a, b: a * a * b, x, x))[x].item() == 27.0


def test_a_gradient_through_many_pieces_of_ops_with_several_results():
    def f(x: pb.Tensor) -> pb.Tensor:
        for _ in range(150):
            values, _ = pb.top_k(x, 4)
            x = values * 0.51 + x * 0.5
            x = x + pb.sin(x) * 0.1
        return x.sum()

    x = pb.tensor(np.array([0.4, 0.1, 0.3, 0.2]))
    found = pb.grad(f)(x).numpy()
    with pb.config(engine="reference"):
        np.testing.assert_allclose(found, pb.grad(f)(x).numpy(), rtol=1e-9)


def test_small_regressions():
    exact = pb.tensor([123456789]) / np.array([1.0])
    assert exact.tolist() == [123456789.0]
    assert repr(pb.eval_shape(lambda: pb.zeros((3,)))) == "f32[3]"
    assert pb.jacrev(lambda x: x * 2)(pb.tensor(np.zeros(0))).dtype is pb.float64
    y = pb.tensor(1.0)
    z = +y
    z += 1
    assert (y.item(), z.item()) == (1.0, 2.0)


def test_integers_that_do_not_fit_are_refused():
    for make in (lambda: pb.tensor(2**70), lambda: pb.tensor([1, 2**70]), lambda: pb.tensor(2**63)):
        with pytest.raises(TypeError, match=r"does not fit into i64 \(test_handles"):
            make()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "uint64"])
def test_comparisons_with_integers_that_the_dtype_cannot_hold(dtype):
    """As in NumPy, `uint8 == 300` is False, also in a compiled function."""
    data = np.array([0, 44, 100], dtype)
    x = pb.tensor(data)
    names = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
             "gt": "greater", "ge": "greater_equal"}  # fmt: skip
    for short, name in names.items():
        compare = getattr(operator, short)
        compiled = pb.compile(compare)
        for k in (300, -1, 44, 2**70, -(2**70)):
            want = compare(data, k)
            np.testing.assert_array_equal(compare(x, k).numpy(), want)
            np.testing.assert_array_equal(getattr(pb, name)(x, k).numpy(), want)
            np.testing.assert_array_equal(getattr(pb, name)(k, x).numpy(), compare(k, data))
            if abs(k) < 2**63:
                np.testing.assert_array_equal(compiled(x, k).numpy(), want)
