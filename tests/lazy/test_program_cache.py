"""Programs in memory: bounded in bytes, freed when evicted, and loaded again from disk."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from counters import counting
from helpers import count_calls, told
from long import many_shapes
from paths import PYTHONPATH

import pullback as pb
from pullback.engines import reference
from pullback.engines.engine_registry import registered_engine
from pullback.errors import ArgumentError, EngineError
from pullback.lazy import cache, settings
from pullback.lazy.launch import state

pytestmark = pytest.mark.usefixtures("cold_disk")


@pytest.fixture(autouse=True)
def _empty():
    pb.clear_cache()
    yield
    pb.clear_cache()


def shape(n: int) -> None:
    """Run a program that is different for each n."""
    x = pb.tensor(np.arange(n, dtype=np.float32))
    np.testing.assert_array_equal((x * 2 + 1).numpy(), 2 * np.arange(n) + 1)


def program_size() -> int:
    shape(1)
    size = pb.cache_info().memory_bytes
    pb.clear_cache()
    return size


def live_executables() -> int:
    gc.collect()
    return len(registered_engine("xla").client._client.live_executables())


def test_programs_stay_within_the_bound():
    bound = program_size() * 4
    with pb.config(cache_bytes=bound):
        for n in range(1, 31):
            shape(n)
            assert pb.cache_info().memory_bytes <= bound
    info = pb.cache_info()
    assert 2 <= info.programs <= 4 and len(state.cache.entries) == info.programs


def test_an_evicted_program_is_freed():
    before = live_executables()
    with pb.config(cache_bytes=1):
        shape(2)
        (program,) = state.cache._programs
        assert live_executables() == before + 1
        gone = weakref.ref(program), weakref.ref(program.executable)
        del program
        shape(3)
        assert live_executables() == before + 1, "the last one stays, the previous one is freed"
        assert [ref() for ref in gone] == [None, None]


def test_an_evicted_program_is_in_no_cycle():
    with pb.config(cache_bytes=1):
        shape(2)
        gone = weakref.ref(next(iter(state.cache._programs)).executable)
        gc.disable()
        try:
            shape(3)
            assert gone() is None
        finally:
            gc.enable()


def test_the_least_recently_used_program_is_evicted_first():
    with pb.config(cache_bytes=program_size() * 7 // 2):
        for n in (2, 3, 4):
            shape(n)
        with counting() as counts:
            shape(2)
            shape(5)  # evicts 3
            shape(2)
            shape(4)
            assert (counts.hits, counts.misses) == (3, 1)
            shape(3)
            assert counts.misses == 2


def test_an_evicted_program_is_loaded_from_disk():
    with pb.config(cache_bytes=1):
        shape(2)
        shape(3)
        with counting() as counts:
            shape(2)
            assert (counts.misses, counts.compiles) == (1, 0)
        info = pb.cache_info()
        assert info.causes[-1].kind == "evicted" and info.disk_hits == 1


def test_programs_of_one_structure_are_counted_separately():
    """Keeping a value needs another program of the same structure."""

    def f(keep: bool) -> Any:
        h = pb.exp(pb.tensor([1.0, 2.0]))
        y = h + 1
        kept = h if keep else None
        del h
        y.numpy()
        return kept

    with pb.config(cache_bytes=1):
        f(False)
        for _ in range(3):
            f(True)
        info = pb.cache_info()
        assert info.programs == 1 and info.memory_bytes == next(iter(state.cache._programs)).nbytes
        assert len(state.cache.entries) == 1


def test_memory_is_returned_from_time_to_time(monkeypatch):
    calls = count_calls(monkeypatch, registered_engine("xla"), "give_back")
    size = program_size()
    monkeypatch.setattr(cache, "_TRIM_BYTES", 5 * size)
    with pb.config(cache_bytes=size):
        for n in range(1, 21):
            shape(n)
    assert 2 <= len(calls) <= 4


def test_programs_that_fail_to_compile_leave_no_entries(monkeypatch):
    def fail(self: Any, graph: Any, **options: Any) -> None:
        raise EngineError("not today")

    monkeypatch.setattr(reference.ReferenceEngine, "compile", fail)
    monkeypatch.setattr(cache, "MOST_PROGRAMS", 5)
    with pb.config(engine="reference"):
        for n in range(1, 40):
            with pytest.raises(EngineError, match="not today"):
                shape(n)
    assert len(state.cache.entries) <= 10 and pb.cache_info().programs == 0


def test_threads_that_evict_each_others_programs():
    """A program may be evicted after it was found and before it runs."""
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            with pb.config(cache_bytes=1):
                for n in rng.integers(1, 5, 40):
                    shape(int(n))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failed == [] and pb.cache_info().programs == 1


def test_a_program_found_and_then_evicted_still_runs():
    x = pb.tensor([1.0, 2.0])
    (x * 2).numpy()
    y = x * 2
    launch = _prepared(y)
    with pb.config(cache_bytes=1):
        shape(7)
    assert pb.cache_info().programs == 1
    launch.run()
    assert y.tolist() == [2.0, 4.0]


def _prepared(y: Any) -> Any:
    from pullback.lazy.collect import collect_pending_ancestors
    from pullback.lazy.launch import _prepare_launch

    return _prepare_launch(collect_pending_ancestors([y._node]), [y._node], [y._node])


def test_a_program_compiled_while_the_cache_is_cleared():
    """Its entry may hold programs that are not in the new cache."""

    class Program:
        origin, nbytes = "compiler", 100

    old = cache.Cache()
    entry = old.add(("key",))
    old.store(entry, (0,), Program(), 1000)
    new = cache.Cache()
    new.store(entry, (1,), Program(), 1000)
    assert (new.compiles, new.nbytes, new.entries) == (1, 0, {})
    fresh = old.add(("another key",))
    new.store(fresh, (0,), Program(), 1000)
    assert new.nbytes == 100 and new.entries == {("another key",): fresh}
    new.hit(fresh, (0,))


# -- settings -------------------------------------------------------------------------------------


def test_the_bound_is_a_setting(monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE_MEMORY", "3M")
    assert settings._settings_from_environment().cache_bytes == 3 * 2**20
    with pb.config(cache_bytes="1.5 GiB"):
        assert settings.current().cache_bytes == 3 * 2**29
    assert settings.current().cache_bytes == 512 * 2**20


@pytest.mark.parametrize("value", ["much", -1, True, None, float("nan")])
def test_an_invalid_bound_is_refused(value):
    with told(ArgumentError, ValueError, "config:", "cache_bytes", repr(value)):
        pb.config(cache_bytes=value)


# -- resident memory ------------------------------------------------------------------------------


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_resident_memory_stays_within_the_bound(tmp_path):
    """In a separate process; `make long` runs 1,000 shapes."""
    code = (
        "import json; from long import many_shapes\n"
        "print(json.dumps(many_shapes.run(60, 4 * 2**20)))"
    )
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "PULLBACK_CACHE_DIR": str(tmp_path)}
    environment["PULLBACK_PLATFORM"] = "cpu"  # where the size of programs was measured
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    report = json.loads(out.stdout)
    assert many_shapes.problems(report) == []
    assert report["programs"] < 10


# -- positions ------------------------------------------------------------------------------------

ROWS = np.arange(60.0, dtype=np.float32).reshape(12, 5)


def _gradient(x, i):
    return pb.grad(lambda v: (v[i] ** 2).sum() + v[3, 1])(x)


def _written(x, i):
    y = x + 0
    y[i] = 7.0
    y[i, 2] += 1
    return y


POSITIONS = {
    "row": lambda x, i: x[i],
    "element": lambda x, i: x[i, i % 5],
    "block": lambda x, i: x[i : i + 2, 1:3] * 2,
    "gradient": _gradient,
    "written": _written,
    "added": lambda x, i: x.at[i].add(1.0),
    "mapped": lambda x, i: pb.vmap(lambda row: row[i % 4] * 2)(x),
    "two": lambda x, i: x[i] - x[i + 1] * x[0],
    "tangent": lambda x, i: pb.jvp(lambda v: v[i] * v[i], (x,), (x,))[1],
    "Hessian": lambda x, i: pb.hessian(lambda v: (v[i] * v[0, 0]).sum())(x),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_a_program_serves_every_position(name):
    """The first position has its own program; the others share a second one."""
    f, x = POSITIONS[name], pb.tensor(ROWS)
    with pb.config(engine="reference"):
        wanted = [f(pb.tensor(ROWS), i).numpy() for i in range(10)]
    with counting() as counts:
        for i, want in enumerate(wanted):
            np.testing.assert_allclose(f(x, i).numpy(), want, rtol=1e-6)
        assert counts.compiles == 2
    cause = pb.cache_info().causes[-1]
    assert cause.kind == "static" and cause.before != cause.after
    with pb.no_recompile():
        f(x, 5).numpy()


def test_positions_in_an_unrolled_loop_are_constants():
    """They are the same at every step, so that making them inputs would gain nothing."""
    x = pb.tensor(ROWS)
    with counting() as counts:
        for _ in range(4):
            state = pb.zeros(5)
            for t in range(6):
                state = pb.tanh(x[t] * 0.01 + state)
            state.numpy()
        assert counts.compiles == 1


def test_blocks_of_other_sizes_or_steps_need_other_programs():
    x = pb.tensor(ROWS)
    for _ in range(2):
        for i in range(1, 5):
            np.testing.assert_array_equal(x[i : 2 * i].numpy(), ROWS[i : 2 * i])
            np.testing.assert_array_equal(x[i::3].numpy(), ROWS[i::3])
            np.testing.assert_array_equal(x[::-1][i].numpy(), ROWS[::-1][i])
