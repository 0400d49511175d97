"""Donation: results reuse the buffers of arguments, unless they are visible elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import line, told

import pullback as pb
from pullback.errors import DonatedError

N = 1000
ONES = np.ones(N, np.float32)


def made(value: float) -> Any:
    """Return a tensor that a program computed: the engine owns its memory."""
    return double(pb.tensor(np.full(N, value / 2, np.float32)))


@pb.compile
def double(x):
    return x * 2


@pb.compile(donate_argnums=0)
def step(w, g):
    return w - g, (w * g).sum()


def place(x: Any) -> int:
    """Return the address of a tensor's buffer."""
    pb.evaluate(x)
    return x._node.value.unsafe_buffer_pointer()


def test_a_donated_buffer_is_reused_in_place():
    w, g = made(3.0), pb.tensor(ONES)
    where = place(w)
    for k in range(5):
        w, s = step(w, g)
        assert place(w) == where
        assert (w[0].item(), s.item()) == (2.0 - k, N * (3.0 - k))


def test_a_tree_of_parameters_is_reused_in_place():
    params = {f"p{i}": made(float(i)) for i in range(20)}
    before = {place(p) for p in params.values()}
    update = pb.compile(lambda ps, k: {n: p + k for n, p in ps.items()}, donate_argnums=0)
    for _ in range(3):
        params = update(params, 1.0)
    assert {place(p) for p in params.values()} == before
    assert [p[0].item() for p in params.values()] == [i + 3.0 for i in range(20)]


def test_reading_a_donated_tensor_names_the_line_of_the_call():
    w = made(3.0)
    step(w, pb.tensor(ONES))
    at = line(-1)
    for read in (w.numpy, lambda: (w + 1).tolist(), lambda: step(w, w), lambda: double(w),
                 lambda: pb.grad(lambda v: (v * v).sum())(w).numpy()):  # fmt: skip
        with told(
            DonatedError, RuntimeError, "donated to step", "what the function returned", at=at
        ):
            read()
    assert w.shape == (N,) and w.dtype == pb.float32
    w.assign(ONES)  # the handle may stand for something else
    assert w[0].item() == 1.0


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_a_donated_tensor_cannot_be_used_on_any_engine(engine):
    with pb.config(engine=engine):
        w = made(1.0)
        assert step(w, pb.tensor(ONES))[0][0].item() == 0.0
        with pytest.raises(DonatedError):
            w.numpy()


def test_a_numpy_view_of_the_buffer_keeps_its_values():
    w, g = made(3.0), pb.tensor(ONES)
    view = w.numpy()
    part = np.asarray(w)[10:20]
    new, _ = step(w, g)
    assert new[0].item() == 2.0
    assert (view == 3.0).all() and (part == 3.0).all()


def test_host_memory_is_never_written_to():
    for offset in range(2):
        raw = np.ones(N + 64, np.float32)
        start = (-raw.ctypes.data // 4) % 16 + offset  # aligned, so that it is used without a copy
        data = raw[start : start + N]
        w = pb.tensor(data)
        seen = w.numpy()  # the tensor's own array
        new, _ = step(w, pb.tensor(ONES))
        assert new[0].item() == 0.0
        assert (seen == 1.0).all() and (data == 1.0).all()


def test_dlpack_consumers_keep_their_values(on_cpu):
    w = made(3.0)
    array = np.from_dlpack(w)
    step(w, pb.tensor(ONES))[0].numpy()
    assert (array == 3.0).all()


def test_another_tensor_keeps_the_value():
    w = made(3.0)
    other, alias = pb.tensor(w), w.detach()
    copied = pb.compile(lambda x: x)(w)
    new, _ = step(w, pb.tensor(ONES))
    assert new[0].item() == 2.0
    for kept in (other, alias, copied):
        assert kept[0].item() == 3.0
    with pytest.raises(DonatedError):
        w.numpy()


def test_pending_readers_are_computed_first():
    w = made(3.0)
    before = place(w)
    later = w * 10
    new, _ = step(w, pb.tensor(ONES))
    assert place(new) == before  # the reader was computed, so nobody else needs it
    assert later[0].item() == 30.0


def test_a_pullback_that_remembers_it_keeps_the_value():
    w = made(3.0)
    y, pull = pb.vjp(lambda v: v * v, w)
    y.numpy()
    step(w, pb.tensor(ONES))[0].numpy()
    assert pull(pb.tensor(ONES))[0][0].item() == 6.0


def test_the_same_tensor_passed_twice_is_copied():
    w = made(3.0)
    new, s = step(w, w)
    assert (new[0].item(), s.item()) == (0.0, 9.0 * N)
    both = pb.compile(lambda a, b: (a + 1, b + 2), donate_argnums=(0, 1))
    w = made(1.0)
    a, b = both(w, w)
    assert (a[0].item(), b[0].item()) == (2.0, 3.0)
    assert place(a) != place(b)


def test_a_tensor_both_captured_and_donated_is_copied():
    w = made(3.0)
    f = pb.compile(lambda v: v + w, donate_argnums=0)
    assert f(w)[0].item() == 6.0
    with pytest.raises(DonatedError):
        f(made(1.0))
    w = made(2.0)
    assert f(made(1.0))[0].item() == 3.0


def test_a_donated_input_can_be_a_result():
    f = pb.compile(lambda a, b: (a, a + b), donate_argnums=0)
    w = made(3.0)
    before = place(w)
    same, total = f(w, pb.tensor(ONES))
    assert place(same) == before
    assert (same[0].item(), total[0].item()) == (3.0, 4.0)
    with pytest.raises(DonatedError):
        w.numpy()


def test_pending_numpy_and_number_arguments_may_be_donated():
    w = made(1.0) * 3
    assert step(w, pb.tensor(ONES))[0][0].item() == 2.0
    data = ONES.copy()
    assert step(data, pb.tensor(ONES))[0][0].item() == 0.0
    assert (data == 1.0).all()
    assert pb.compile(lambda k, x: x * k, donate_argnums=0)(2.0, pb.tensor(ONES))[0].item() == 2.0


def test_donation_by_keyword():
    w = made(3.0)
    before = place(w)
    new, _ = step(w=w, g=pb.tensor(ONES))
    assert place(new) == before


def test_under_a_derivative_nothing_is_donated():
    w = made(3.0)
    g = pb.grad(lambda w: step(w, w)[1])(w)
    assert g[0].item() == 6.0
    assert w[0].item() == 3.0
    inner = pb.compile(lambda w: step(w, w)[1])
    assert inner(w).item() == 9.0 * N
    assert w[0].item() == 3.0


def test_a_training_loop_that_donates_agrees_with_one_that_does_not():
    def update(params, state, x):
        grads = pb.grad(lambda p: ((x @ p["w"] + p["b"]) ** 2).mean())(params)
        return rule.update(grads, state, params)

    rule = pb.optim.adam(0.1)
    x = pb.tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
    results = []
    for options in ({}, {"donate_argnums": (0, 1)}):
        params = {"w": pb.tensor([1.0, 2.0, 3.0]), "b": pb.tensor(0.5)}
        state = rule.init(params)
        compiled = pb.compile(update, **options)
        for _ in range(10):
            params, state = compiled(params, state, x)
        results.append(params)
    assert results[0]["w"].tolist() == results[1]["w"].tolist()
    assert results[0]["b"].item() == results[1]["b"].item()


def test_a_long_program_in_pieces_may_overwrite_its_inputs():
    def deep(params, x):
        for w in params:
            h = x
            for _ in range(10):
                h = pb.sin(h @ w) + pb.cos(h) * 0.5
            x = h + x
        return [w + x.mean() for w in params], x

    rng = np.random.default_rng(0)
    data = [rng.normal(size=(8, 8)).astype(np.float32) / 3 for _ in range(8)]
    x = pb.tensor(rng.normal(size=(4, 8)).astype(np.float32))
    wanted, _ = deep([pb.tensor(w) for w in data], x)
    params = [double(pb.tensor(w / 2)) for w in data]
    got, _ = pb.compile(deep, donate_argnums=0)(params, x)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(DonatedError):
        params[0].numpy()


def test_results_take_the_memory_of_the_arguments_they_are_computed_from():
    """Results come in another order than arguments of the same type."""

    @pb.compile(donate_argnums=(0, 1, 2))
    def move(mean, square, p, g):
        mean = mean * 0.5 + g
        square = square * 0.25 + g * g
        return p - mean / square, mean, square

    mean, square, p, g = (made(float(i)) for i in (2, 4, 8, 1))
    places = [place(x) for x in (p, mean, square)]
    for _ in range(3):
        p, mean, square = move(mean, square, p, g)
        assert [place(x) for x in (p, mean, square)] == places
    assert mean[0].item() == 2.0


def test_arguments_that_are_read_before_they_are_overwritten():
    """Region analysis of copies: whatever reads an argument sees its old value."""

    def update(ps, x):
        y = x
        for p in ps:
            y = pb.tanh(y @ p)
        new = [p - 0.1 * (q.T @ y) for p, q in zip(ps, [*ps[1:], ps[0]], strict=True)]
        return [*new[1:], new[0]], y.sum()

    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(8, 8)).astype(np.float32) for _ in range(4)]
    kept, given = [[pb.tensor(a) for a in arrays[:3]] for _ in range(2)]
    x, plain = pb.tensor(arrays[3]), pb.compile(update)
    donating = pb.compile(update, donate_argnums=0)
    for _ in range(4):
        (kept, want), (given, got) = plain(kept, x), donating(given, x)
        assert got.item() == want.item()
        for a, b in zip(kept, given, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
