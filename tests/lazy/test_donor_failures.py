"""Runs that fail or are interrupted: leaves that they would have overwritten are not lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.xla.executable import Executable
from pullback.errors import EngineError, OutOfMemory
from pullback.lazy import donors, launch
from pullback.lazy.donors import InterruptsHeldForDonors

N = 2048


@pytest.fixture(autouse=True)
def small_values_are_donated(monkeypatch):
    monkeypatch.setattr(donors, "LEAST", 0)
    launch.state.forget()
    yield
    launch.state.forget()


def place(x: Any) -> int:
    return pb.evaluate(x)._node.value.unsafe_buffer_pointer()


def updated(k: float = 1) -> Any:
    """Return a pending update of a leaf that nothing else refers to."""
    w = pb.evaluate(pb.tensor(np.full(N, 3.0, np.float32)) * 1)
    return w - k


class FailOnce:
    """Lets the next run raise an error, before the program starts or when it has started."""

    def __init__(self, monkeypatch: Any, error: BaseException, after: bool = False) -> None:
        self.error, self.after, self.calls = error, after, 0
        self.run = Executable.run
        fails = self

        def run(executable: Executable, args: list) -> Any:
            fails.calls += 1
            if fails.calls > 1:
                return fails.run(executable, args)
            if after:
                fails.run(executable, args)
            raise fails.error

        monkeypatch.setattr(Executable, "run", run)


@pytest.mark.parametrize("error", [EngineError("not now"), KeyboardInterrupt(), ValueError()])
def test_a_run_that_fails_before_it_starts_gives_the_leaf_back(monkeypatch, error):
    new = updated()
    failing = FailOnce(monkeypatch, error)
    with pytest.raises(type(error)):
        new.numpy()
    assert failing.calls == 1
    assert (new.numpy() == 2.0).all()  # the second attempt


def test_lack_of_memory_is_retried_with_what_is_required(monkeypatch):
    w = pb.evaluate(pb.tensor(np.full(N, 3.0, np.float32)) * 1)
    new, other = w - 1, w * 2
    del w
    FailOnce(monkeypatch, OutOfMemory("too much"))
    assert (new.numpy() == 2.0).all()
    assert (other.numpy() == 6.0).all()


def test_a_program_that_does_not_compile_gives_the_leaf_back(monkeypatch):
    new = updated()
    with monkeypatch.context() as patched:
        engine = launch.engine_for(pb.lazy.settings.current(), None)
        patched.setattr(type(engine), "compile", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            new.numpy()
    assert (new.numpy() == 2.0).all()


def test_a_leaf_that_was_lost_says_so(monkeypatch):
    new = updated()
    FailOnce(monkeypatch, EngineError("while it ran"), after=True)
    with pytest.raises(EngineError, match="while it ran"):
        new.numpy()
    with pytest.raises(EngineError, match="given up for a program that failed"):
        new.numpy()


def test_ctrl_c_while_a_program_runs_loses_nothing(monkeypatch):
    new = updated()
    real = Executable.run

    def run(executable: Executable, args: list) -> Any:
        found = real(executable, args)
        signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(Executable, "run", run)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        new.numpy()
    monkeypatch.setattr(Executable, "run", real)
    assert signal.getsignal(signal.SIGINT) is handler
    assert (new.numpy() == 2.0).all()


def test_held_interrupts_keep_other_handlers():
    calls: list = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append("user"))
    try:
        with InterruptsHeldForDonors():
            signal.raise_signal(signal.SIGINT)
            assert not calls
        assert calls == ["user"]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with InterruptsHeldForDonors():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_overwrite_without_holding_interrupts():
    found: list = []
    new = updated()
    thread = threading.Thread(target=lambda: found.append(new.numpy()))
    thread.start()
    thread.join()
    assert (found[0] == 2.0).all()


LIMITED = """
import resource
import numpy as np
import pullback as pb

w = pb.evaluate(pb.tensor(np.ones(2_000_000, np.float32)) * 2)
new = w + 1
del w
many = pb.tensor(np.arange(600, dtype=np.float32))
large = pb.sort(pb.sin(new[None, :] * many[:, None]), axis=0)
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    print(pb.wait(new, large) is None)
except pb.errors.OutOfMemory as error:
    print("too little")
del large
print(new[0].item(), new.sum().item())
"""


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_a_program_that_lacks_memory_leaves_its_donors():
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["too", "little", "3.0", "6000000.0"], done.stderr[-2000:]


def random_session(seed: int, steps: int = 60) -> None:
    """Make, drop, share and read values at random; compare all of them with NumPy's."""
    rng = np.random.default_rng(seed)
    mine: list = [pb.tensor(rng.normal(size=(8, 256)).astype(np.float32)) for _ in range(6)]
    known: list = [x.numpy().astype(np.float64) for x in mine]
    views: list = []
    for _ in range(steps):
        i, j, k = rng.integers(0, len(mine), 3)
        a, b = mine[i], mine[j]
        x, y = known[i], known[j]
        kind = rng.integers(0, 12)
        if kind == 0:
            new, value = a + b, x + y
        elif kind == 1:
            new, value = a * b / 4, x * y / 4
        elif kind == 2:
            new, value = pb.tanh(a), np.tanh(x)
        elif kind == 3:
            new, value = a.detach(), x
        elif kind == 4:
            new, value = pb.flip(a, 0), x[::-1]
        elif kind == 5:
            new, value = pb.where(a > b, a, b), np.maximum(x, y)
        elif kind == 6:
            new, value = pb.concat([a[:4], b[4:]]), np.concatenate([x[:4], y[4:]])
        elif kind == 7:
            new, value = pb.grad(lambda v, b=b: (v * b).sum())(a), y
        elif kind == 8:
            new, value = pb.compile(lambda v, b: v - b / 2)(a, b), x - y / 2
        elif kind == 9:
            new, value = a.at[2].set(b[3]), np.concatenate([x[:2], y[3:4], x[3:]])
        elif kind == 10:
            new, value = pb.tensor(b), y
        else:
            views.append((pb.evaluate(b).numpy(), y))
            continue
        mine[k], known[k] = new, value
        del a, b, new
        if rng.random() < 0.3:
            pb.evaluate(mine[int(rng.integers(0, 6))])
        if rng.random() < 0.2:
            views = views[1:]
        if rng.random() < 0.1:
            np.testing.assert_allclose(mine[k].numpy(), known[k], rtol=1e-3, atol=1e-4)
    for tensor, value in zip(mine, known, strict=True):
        np.testing.assert_allclose(tensor.numpy(), value, rtol=1e-3, atol=1e-4)
    for view, value in views:
        np.testing.assert_allclose(view, value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_random_sessions_agree_with_numpy(seed):
    random_session(seed)
