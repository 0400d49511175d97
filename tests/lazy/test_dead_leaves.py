"""Memory of leaves that nothing can read any more is reused; everything that can be read stays."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.lazy import donors, launch

N = 2048
ONES = np.ones(N, np.float32)
Read = Callable[[], Any]


@pytest.fixture(autouse=True)
def small_values_are_donated(monkeypatch):
    monkeypatch.setattr(donors, "LEAST", 0)
    launch.state.forget()
    yield
    launch.state.forget()


def made(value: float, dtype: Any = "f32") -> Any:
    """Return a tensor that a program computed: the engine owns its memory."""
    return pb.evaluate(pb.tensor(np.full(N, value / 2, np.float32)).astype(dtype) * 2)


def place(x: Any) -> int:
    """Return the address of a tensor's buffer."""
    return pb.evaluate(x)._node.value.unsafe_buffer_pointer()


def kept_handle(w):
    return w.numpy


def kept_list(w):
    held = [w]
    return lambda: held[0].numpy()


def kept_tuple_of_dict(w):
    held = ({"w": w},)
    return lambda: held[0]["w"].numpy()


def kept_closure(w):
    return lambda: (w + 0).numpy()


def kept_default(w):
    def read(x=w):
        return x.numpy()

    return read


def kept_partial(w):
    return functools.partial(np.asarray, w)


def kept_generator(w):
    def values(x):
        yield
        yield x.numpy()

    running = values(w)
    next(running)
    return lambda: next(running)


def kept_traceback(w):
    def fail(x):
        raise ValueError("with a frame")

    try:
        fail(w)
    except ValueError as error:
        found = error
    return lambda: found.__traceback__.tb_next.tb_frame.f_locals["x"].numpy()


def kept_cycle(w):
    cycle: list = [w]
    cycle.append(cycle)
    return lambda: cycle[1][0].numpy()


def kept_second_handle(w):
    return pb.tensor(w).numpy


def kept_detached(w):
    return w.detach().numpy


def kept_evaluated_alias(w):
    alias = pb.evaluate(w.detach())
    return alias.numpy


def kept_numpy_view(w):
    view = w.numpy()
    return lambda: view


def kept_part_of_a_view(w):
    part = np.asarray(w)[5:7][:1]
    return lambda: part


def kept_memoryview(w):
    view = memoryview(np.asarray(w))
    return lambda: np.asarray(view)


def kept_dlpack(w):
    array = np.from_dlpack(w)
    return lambda: array


def kept_capsule(w):
    class Exporter:
        capsule = w.__dlpack__(max_version=(1, 0))

        def __dlpack__(self, **options: Any) -> Any:
            return self.capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    exporter = Exporter()
    return lambda: np.from_dlpack(exporter)


def kept_pending(w):
    later = w * 1
    return later.numpy


def kept_by_pending_chain(w):
    later = pb.sin(w * 0) + w
    return later.numpy


def kept_by_two_results(w):
    first, second = pb.split(w, 2)
    return lambda: np.concatenate([first.numpy(), second.numpy()])


def kept_unrelated_pending(w):
    later = pb.stack([w, w])[0]
    return later.numpy


def kept_vjp(w):
    _, pull = pb.vjp(lambda x: x * x / 2, w)
    return lambda: pull(pb.tensor(ONES))[0].numpy()


def kept_evaluated_vjp(w):
    y, pull = pb.vjp(lambda x: x * x / 2, w)
    pb.evaluate(y)
    del y
    return lambda: pull(pb.tensor(ONES))[0].numpy()


def kept_linearize(w):
    _, push = pb.linearize(lambda x: x * x / 2, w)
    return lambda: push(pb.tensor(ONES)).numpy()


def kept_tape(w):
    x = pb.tensor(ONES, requires_grad=True)
    y = pb.evaluate((x * w).sum())

    def read():
        y.backward()
        return x.grad.numpy()

    return read


def kept_pending_tape(w):
    x = pb.tensor(ONES, requires_grad=True)
    y = (x * w).sum()

    def read():
        y.backward()
        return x.grad.numpy()

    return read


def kept_captured(w):
    f = pb.compile(lambda x: x * w)
    f(pb.tensor(ONES)).numpy()
    return lambda: f(pb.tensor(ONES)).numpy()


def kept_compiled_identity(w):
    same = pb.compile(lambda x: (x, x + 1))(w)[0]
    return same.numpy


def kept_checkpoint(w):
    y, pull = pb.vjp(pb.checkpoint(lambda x: pb.sin(x) * w + x * w), pb.tensor(0 * ONES))
    pb.evaluate(y)
    return lambda: pull(pb.tensor(ONES / 2))[0].numpy()


def kept_pending_gradient(w):
    g = pb.grad(lambda x: (x * x).sum() / 2)(w)
    return g.numpy


def kept_vmapped(w):
    later = pb.vmap(lambda i: w * i)(pb.tensor([1.0, 2.0]))
    return lambda: later[0].numpy()


def kept_scan(w):
    later = pb.scan(lambda c, x: (c + w * x, c), pb.zeros(N), pb.tensor([0.5, 0.5]))[0]
    return later.numpy


def kept_thread(w):
    waiting, found = threading.Event(), []

    def hold(x):
        waiting.wait()
        found.append(x.numpy())

    thread = threading.Thread(target=hold, args=(w,))
    thread.start()

    def read():
        waiting.set()
        thread.join()
        return found[0]

    return read


def kept_pending_thread(w):
    recorded, waiting, found = threading.Event(), threading.Event(), []

    def hold(box):
        later = box.pop() * 1
        recorded.set()
        waiting.wait()
        found.append(later.numpy())

    thread = threading.Thread(target=hold, args=([w],))
    thread.start()
    recorded.wait()

    def read():
        waiting.set()
        thread.join()
        return found[0]

    return read


def kept_iterator(w):
    rows = iter(w.reshape(2, N // 2))
    return lambda: next(rows).numpy()


def kept_leaf_that_requires_a_gradient(w):
    w.requires_grad = True
    y = (w * w).sum() / 2

    def read():
        y.backward()
        return w.grad.numpy()

    return read


KEEPERS = [f for name, f in sorted(globals().items()) if name.startswith("kept_")]


@pytest.mark.parametrize("warm", [False, True], ids=["first", "donating"])
@pytest.mark.parametrize("keep", KEEPERS, ids=lambda f: f.__name__)
def test_what_can_be_read_keeps_its_value(keep, warm, request):
    if keep in (kept_dlpack, kept_capsule):
        request.getfixturevalue("on_cpu")  # NumPy takes no memory of other devices
    if warm:  # the program that overwrites exists
        w = made(5.0)
        before = place(w)
        w = w - 1
        assert place(w) == before
    w = made(3.0)
    read = keep(w)
    new = w.detach() - 1
    del w
    assert (new.numpy() == 2.0).all()
    assert (read() == 3.0).all()
    assert (new.numpy() == 2.0).all()


@pytest.mark.usefixtures("on_cpu")  # elsewhere NumPy's array is a copy
@pytest.mark.parametrize("dtype", ["f64", "f32", "i32", "complex64", "bf16", "f16"])
def test_views_of_all_dtypes_keep_their_values(dtype):
    w = made(4.0, dtype)
    w = w - 1
    pb.evaluate(w)
    view = w.numpy()
    before = place(w)
    w = w - 1
    assert place(w) != before
    assert (view.astype(np.complex64) == 3.0).all()
    assert (w.numpy().astype(np.complex64) == 2.0).all()
    before = place(w)
    w = w - 1
    assert place(w) == before and w[0].item() == 1.0


def test_a_dead_leaf_is_overwritten():
    w = made(3.0)
    before = place(w)
    for k in range(5):
        w = w - 1
        assert place(w) == before
        assert w[0].item() == 2.0 - k


def test_a_leaf_that_a_keeper_gave_up_is_overwritten():
    w = made(3.0)
    view, later, held = w.numpy(), w * 2, [w]
    y, pull = pb.vjp(lambda x: x * x, w)
    pb.evaluate(later)
    before = place(w)
    del view, held, pull, y
    w = w - 1
    assert place(w) == before


def test_a_pending_value_that_dies_keeps_nothing():
    w = made(3.0)
    before = place(w)
    never = pb.sin(w * 2)
    new = w - 1
    del w, never
    assert place(new) == before


def test_host_memory_is_never_overwritten():
    for offset in range(2):
        raw = np.ones(N + 64, np.float32)
        start = (-raw.ctypes.data // 4) % 16 + offset  # aligned, so that it is used without a copy
        data = raw[start : start + N]
        for share in (pb.tensor, lambda x: pb.asarray(x, copy=False), pb.from_dlpack,
                      lambda x: pb.from_dlpack(x, copy=False)):  # fmt: skip
            w = share(data)
            w = w - 1
            assert w[0].item() == 0.0
            w = w - 1
            assert w[0].item() == -1.0
            assert (raw == 1.0).all()


def test_two_results_with_the_same_value_are_distinct():
    x = made(3.0)
    a, b = pb.evaluate(x * 2, x + x)
    c, d = pb.evaluate(x * 2, x * 2)
    same, twice = pb.compile(lambda x: (x * 2, x * 2))(x)
    for one, other in ((a, b), (c, d), (same, twice)):
        held = [other]
        del other
        one = one - 1
        assert one[0].item() == 5.0 and held[0][0].item() == 6.0


def test_shards_keep_their_values():
    mesh = pb.DeviceMesh(1, "d")
    w = pb.evaluate(pb.shard(pb.tensor(3 * ONES), mesh, pb.P("d")) * 1)
    parts = [s.data for s in w.shards()]
    w = w - 1
    assert w[0].item() == 2.0
    assert all((p == 3.0).all() for p in parts)


def test_a_training_loop_compiles_once_and_updates_in_place():
    def loss(params, x):
        return pb.tanh(x @ params["w"] + params["b"]).mean()

    def train(params, state, steps):  # the caller holds the first parameters
        for _ in range(steps):
            value, grads = pb.value_and_grad(loss)(params, x)
            params, state = rule.update(grads, state, params)
            float(value)
            places.append([place(p) for p in pb.tree.leaves((params, state)) if p.size > 1])
        return params

    x = pb.tensor(np.ones((2, 4), np.float32))
    for rule in (pb.optim.sgd(0.1), pb.optim.adam(0.1), pb.optim.adamw(0.1)):
        places: list = []
        first = {"w": pb.tensor(np.ones((4, N), np.float32)), "b": pb.tensor(ONES)}
        state = rule.init(first)
        train(first, state, 1)
        compiled = pb.cache_info().misses
        train(first, state, 6)
        assert pb.cache_info().misses == compiled
        assert all(found == places[1] for found in places[2:])
        assert (first["w"].numpy() == 1.0).all() and (first["b"].numpy() == 1.0).all()


def test_backward_updates_in_place():
    w = pb.evaluate(pb.tensor(ONES) * 2)
    w.requires_grad = True
    places = []
    for _ in range(4):
        (w * w).sum().backward()
        with pb.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        places.append(place(w))
    assert len(set(places[1:])) == 1
    assert w[0].item() == pytest.approx(2 * 0.8**4)


def test_however_handles_come_and_go_there_are_two_programs():
    rng, history = np.random.default_rng(0), []
    big = pb.evaluate(pb.tensor(np.zeros(2**20, np.float32)) * 1)
    for k in range(60):
        history[:] = [big] if k > 40 or rng.random() < 0.5 else []
        big = big + 1
        assert big[0].item() == k + 1.0
        assert all(x[0].item() == k for x in history)
    programs = [c for c in pb.cache_info().causes if c.kind in ("first", "donation", "structure")]
    assert len([c for c in programs if c.kind == "donation"]) == 1


def test_a_loop_that_holds_everything_gets_a_program_that_copies_nothing():
    values = [pb.evaluate(pb.tensor(np.zeros(2**20, np.float32)) * 1)]
    values.append(values.pop() + 1)  # the program that overwrites comes first
    pb.evaluate(values)
    for _ in range(12):
        values.append(values[-1] + 1)
        pb.evaluate(values)
        del values[:-3]
    kinds = [c.kind for c in pb.cache_info().causes]
    assert kinds.count("donation") == 1
    assert [v[0].item() for v in values] == [11.0, 12.0, 13.0]


def test_a_program_that_becomes_worth_it_is_compiled():
    x = pb.evaluate(pb.tensor(np.zeros(2**20, np.float32)) * 1)
    held = [x]
    x = x + 1
    pb.evaluate(x)
    places = []
    for _ in range(12):
        x = x + 1
        places.append(place(x))
    assert [c.kind for c in pb.cache_info().causes].count("donation") == 1
    assert len(set(places[-4:])) == 1
    assert x[0].item() == 13.0 and held[0][0].item() == 0.0
    with pb.no_recompile():
        x = x + 1
        pb.evaluate(x)


def test_no_recompile_never_compiles_for_donation():
    x = pb.evaluate(pb.tensor(np.zeros(2**20, np.float32)) * 1)
    held = [x]
    x = pb.evaluate(x + 1)
    with pb.no_recompile():
        for _ in range(12):
            x = x + 1
            pb.evaluate(x)
    assert x[0].item() == 13.0 and held[0][0].item() == 0.0


def test_small_values_are_left_alone(monkeypatch):
    monkeypatch.undo()
    for size in (8, N):
        x = pb.evaluate(pb.tensor(np.zeros(size, np.float32)) * 1)
        x = x + 1
        before = place(x)
        held = [x]
        x = x + 1
        assert place(x) != before
        del held
    assert all(not v.donated for e in launch.state.cache.entries.values() for v in e.variants)


def test_values_are_right_in_every_mode():
    for options in ({"check_nan": True}, {"eager": True}, {"engine": "reference"},
                    {"kernels": False}, {"verify_shapes": True}):  # fmt: skip
        w = made(3.0)
        w = w - 1
        pb.evaluate(w)  # outside, with a program that overwrites
        with pb.config(**options):
            w = w - 1
            assert w[0].item() == 1.0
            held = [w]
            w = w - 1
            assert (w[0].item(), held[0][0].item()) == (0.0, 1.0)
        w = w - 1
        assert w[0].item() == -1.0


def test_nan_is_found_after_an_update_in_place():
    w = made(3.0)
    w = w - 1
    pb.evaluate(w)
    with pb.config(check_nan=True):
        w = pb.log(w - 5) - 1
        with pytest.raises(FloatingPointError, match="2048 of 2048 elements are NaN"):
            w.numpy()


def test_long_work_is_cut_into_pieces_that_overwrite_correctly():
    w, x = made(0.0), np.zeros(N, np.float32)
    for k in range(25_000):
        w = w + 1 if k % 2 else w * 1
        x = x + 1 if k % 2 else x * 1
    assert (w.numpy() == x).all()


def test_a_sequence_of_equal_layers_overwrites_correctly():
    def deep(params, x):
        for w in params:
            h = x
            for _ in range(10):
                h = pb.sin(h @ w) + pb.cos(h) * 0.5
            x = h + x
        return x.mean()

    rng = np.random.default_rng(0)
    data = [rng.normal(size=(32, 64, 64)).astype(np.float32)[0] / 8 for _ in range(8)]
    x = pb.tensor(rng.normal(size=(4, 64)).astype(np.float32))
    results = []
    for hold in (True, False):
        params, held = [pb.tensor(w) for w in data], []
        for _ in range(3):
            grads = pb.grad(deep)(params, x)
            held += [params] if hold else []
            params = [p - 0.1 * g for p, g in zip(params, grads, strict=True)]
            pb.evaluate(params)
        results.append([p.numpy() for p in params])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_threads_that_share_and_drop_values():
    start = [made(float(k)) for k in range(8)]
    failed: list = []

    def work(seed):
        rng = np.random.default_rng(seed)
        mine, known = start[:], [float(k) for k in range(8)]
        for _ in range(100):
            i, j, k = rng.integers(0, 8, 3)
            if rng.random() < 0.5:
                mine[i], known[i] = (mine[i] + mine[j]) / 2, (known[i] + known[j]) / 2
            else:
                mine[i], known[i] = mine[j] - 1, known[j] - 1
            if rng.random() < 0.5 and not np.allclose(mine[k].numpy(), known[k], rtol=1e-5):
                failed.append((seed, known[k], mine[k].numpy()))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    assert [x[0].item() for x in start] == list(range(8))
