"""Threads record, differentiate and evaluate concurrently, with the bits of serial runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from counters import counting

import pullback as pb
from pullback.errors import PullbackError
from pullback.graph.types import Type
from pullback.lazy.record import apply
from pullback.ops.prelude import Op

THREADS = 8


class NoLowering(Op, abstract=True):
    """An op that no engine can run, not in the table."""

    name: ClassVar[str] = "NoLowering"
    differentiable: ClassVar[bool] = False

    def infer(self, x: Type) -> Type:
        return x


def together(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """Run `work(i)` in threads that start at the same time; raise the error of one."""
    start = threading.Barrier(count)
    results: list[Any] = [None] * count
    errors: list[BaseException | None] = [None] * count

    def run(i: int) -> None:
        start.wait()
        try:
            results[i] = work(i)
        except BaseException as error:
            errors[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=120)
        assert not t.is_alive(), "a thread hangs"
    for error in errors:
        if error is not None:
            raise error
    return results


def data(i: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(i).normal(size=shape)


def model(params: Any, x: Any, depth: int) -> Any:
    for _ in range(1 + depth):
        x = pb.tanh(x @ params["w"] + params["b"])
    return (x * x).mean()


def train(i: int) -> list[bytes]:
    """Train a small model for a few steps; its depth depends on `i`."""
    params = {"w": pb.tensor(data(i, 4, 4)), "b": pb.tensor(data(i + 50, 4))}
    x = pb.tensor(data(i + 99, 6, 4))
    read = []
    for step in range(6):
        loss, grads = pb.value_and_grad(model)(params, x, i % 3)
        params = pb.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        if step % 2:
            read.append(loss.numpy().tobytes())
    return [*read, *[p.numpy().tobytes() for p in params.values()]]


def train_imperative(i: int) -> list[bytes]:
    w = pb.tensor(data(i, 4, 4), requires_grad=True)
    optimizer = pb.optim.Adam([w], learning_rate=0.05)
    read = []
    for _ in range(4):
        loss = ((pb.sin(w) @ w) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        read.append(loss.numpy().tobytes())
    return [*read, w.numpy().tobytes()]


def higher(i: int) -> list[bytes]:
    x = pb.tensor(data(i, 3))
    h = pb.hessian(lambda a: (pb.exp(a) * pb.sin(a)).sum() * (i + 1))(x)
    y, t = pb.jvp(lambda a: pb.cumulative_sum(a * a), (x,), (x,))
    return [h.numpy().tobytes(), y.numpy().tobytes(), t.numpy().tobytes()]


@pytest.mark.parametrize("engine", ["xla", "reference"])
@pytest.mark.parametrize("work", [train, train_imperative, higher])
def test_threads_get_the_bits_of_serial_runs(work, engine):
    def inside(i: int) -> Any:
        with pb.config(engine=engine):
            return work(i)

    serial = [inside(i) for i in range(THREADS)]
    pb.clear_cache()
    assert together(inside) == serial
    assert together(inside) == serial, "with a warm cache"


def test_the_same_new_program_compiles_once():
    pb.clear_cache()
    xs = [pb.tensor(data(i, 5)) for i in range(THREADS)]

    def work(i: int) -> np.ndarray:
        x = xs[i]
        return (pb.exp(x) * pb.sin(x) + 7.0 / (x * x + 1)).sum().numpy()

    with counting() as counts:
        got = together(work)
        assert counts.compiles == 1
        assert counts.programs == THREADS
    for i, y in enumerate(got):
        x = data(i, 5)
        np.testing.assert_allclose(y, (np.exp(x) * np.sin(x) + 7 / (x * x + 1)).sum())


def test_a_training_loop_in_every_thread_compiles_once():
    pb.clear_cache()

    def work(i: int) -> None:
        params = {"w": pb.tensor(data(i, 4, 4)), "b": pb.tensor(data(i, 4))}
        x = pb.tensor(data(i, 6, 4))
        for _ in range(5):
            loss, grads = pb.value_and_grad(model)(params, x, 1)
            params = pb.tree.map(lambda p, g: p - 0.1 * g, params, grads)
            loss.item()

    with counting() as counts:
        together(work)
        assert counts.compiles == 1
        assert counts.programs == 5 * THREADS


def test_a_tensor_recorded_in_one_thread_is_evaluated_in_another():
    made: list[Any] = [None]

    def record(i: int) -> None:
        x = pb.tensor(data(1, 4))
        made[0] = pb.exp(x) + 1

    together(record, 1)
    with counting() as counts:
        np.testing.assert_allclose(made[0].numpy(), np.exp(data(1, 4)) + 1)
        assert counts.programs == 1


def test_one_pending_tensor_read_by_all_threads_runs_once():
    x = pb.tensor(data(2, 4))
    y = pb.exp(x) * 3
    with counting() as counts:
        got = together(lambda i: y.numpy().tobytes())
        assert counts.programs == 1
    assert set(got) == {(y).numpy().tobytes()}
    np.testing.assert_allclose(y.numpy(), np.exp(data(2, 4)) * 3)


def test_threads_build_on_each_others_pending_tensors():
    x = pb.tensor(data(3, 4))
    shared = pb.sin(x) * 2
    got = together(lambda i: (shared * (i + 1.0) + pb.exp(shared)).numpy())
    want = np.sin(data(3, 4)) * 2
    for i, y in enumerate(got):
        np.testing.assert_allclose(y, want * (i + 1) + np.exp(want))


def test_gradients_of_a_function_recorded_in_another_thread():
    x = pb.tensor(data(4, 4))
    y, pull = pb.vjp(lambda a: pb.exp(a) * a, x)
    got = together(lambda i: pull(pb.tensor(np.full(4, i + 1.0)))[0].numpy())
    want = np.exp(data(4, 4)) * (1 + data(4, 4))
    for i, g in enumerate(got):
        np.testing.assert_allclose(g, want * (i + 1))
    np.testing.assert_allclose(y.numpy(), np.exp(data(4, 4)) * data(4, 4))


def test_a_failure_in_one_thread_does_not_affect_others():
    x = pb.tensor(data(5, 4))
    shared = pb.exp(x) + 1

    def work(i: int) -> Any:
        if i % 2:
            with pytest.raises(PullbackError):
                apply(NoLowering(), shared * i).numpy()
            return None
        return (shared * (i + 1.0)).numpy()

    got = together(work)
    for i in range(0, THREADS, 2):
        np.testing.assert_allclose(got[i], (np.exp(data(5, 4)) + 1) * (i + 1))
    np.testing.assert_allclose(shared.numpy(), np.exp(data(5, 4)) + 1)


def test_an_index_error_in_one_thread_does_not_affect_others():
    table = pb.tensor(data(6, 5))

    def work(i: int) -> Any:
        index = pb.tensor(np.array([0, 7 if i == 3 else 2]))
        picked = table[index] * 2
        if i == 3:
            with pytest.raises(IndexError):
                picked.numpy()
            return None
        return picked.numpy()

    got = together(work)
    for i, y in enumerate(got):
        if i != 3:
            np.testing.assert_allclose(y, data(6, 5)[[0, 2]] * 2)


def test_many_rounds_do_not_deadlock():
    """Threads read, in different orders, tensors that depend on each other."""
    x = pb.tensor(data(7, 3))
    chain = [x * 1.5]
    for _ in range(15):
        chain.append(pb.sin(chain[-1]) + x)

    def work(i: int) -> list[bytes]:
        order = np.random.default_rng(i).permutation(len(chain))
        read = {int(k): chain[k].numpy().tobytes() for k in order}
        return [read[k] for k in range(len(chain))]

    got = together(work)
    assert all(g == got[0] for g in got)
