"""Checkpoints: written by a thread, complete or absent, and resumed bit for bit."""

from __future__ import annotations

import errno
import gc
import logging
import os
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, DamagedFile, FileError, MissingFile
from pullback.io import Checkpointer, checkpointer


def test_the_last_and_the_best_are_kept(tmp_path):
    with Checkpointer(tmp_path / "run", keep=2, every=2, best=2, mode="max") as c:
        assert c.steps() == [] and c.latest() is None and c.best() is None
        kept = [c.save(k, {"k": k}, metric=m) for k, m in enumerate([1, 9, 5, 9, 2, 9, 3, 9, 1])]
    assert kept == [k % 2 == 0 for k in range(9)]
    assert c.steps() == [2, 6, 8] and c.latest() == 8 and c.best() == 2
    assert c.restore() == {"k": 8} and c.restore(step=2) == {"k": 2}
    again = Checkpointer(tmp_path / "run", best=1, mode="min")
    assert again.best() == 8 and "steps=[2, 6, 8]" in repr(again)
    assert sorted(os.listdir(tmp_path / "run")) == [f"step-{k:010}.safetensors" for k in (2, 6, 8)]


def test_metrics_and_forced_saves(tmp_path):
    with Checkpointer(tmp_path, keep=None, every=100) as c:
        assert c.save(0, 0, metric=pb.tensor(2.5)) and c.save(100, 1, metric=float("nan"))
        assert not c.save(101, 2) and c.save(101, 2, metric=np.float32(1.5), force=True)
    assert c.steps() == [0, 100, 101] and c.best() == 101
    for bad in ("high", pb.ones(2), 1j):
        with pytest.raises(ArgumentError, match="metric must be"):
            Checkpointer(tmp_path).save(200, 1, metric=bad)


def test_values_are_those_at_the_call(tmp_path, monkeypatch):
    """The file is written after in-place changes and after a donation: it has the old values."""
    go, real = threading.Event(), checkpointer.save_snapshot

    def late(*args):
        assert go.wait(30)
        real(*args)

    monkeypatch.setattr(checkpointer, "save_snapshot", late)
    w, array = pb.tensor(np.arange(4.0)), np.zeros(3)
    step = pb.compile(lambda w: w * 2, donate_argnums=0)
    donated = pb.tensor(np.arange(1000.0)) + 0
    with Checkpointer(tmp_path) as c:
        c.save(1, {"w": w, "donated": donated, "array": array, "list": [1]})
        w += 5
        array += 7
        moved = step(donated)
        pb.wait(moved, w)
        go.set()
    found = c.restore()
    assert found["w"].tolist() == [0, 1, 2, 3] and found["array"].tolist() == [0, 0, 0]
    assert found["donated"].tolist() == list(range(1000)) and moved[1].item() == 2


OPT = pb.optim.adam(0.05)


@pb.compile
def train_step(params, moments, key, batch):
    """Adam on a loss with noise."""
    key, sub = pb.random.split(key)

    def loss(p):
        hidden = pb.tanh(batch @ p["w"] + 0.1 * pb.random.normal(sub, (4, 3)))
        return ((hidden - 0.5) ** 2).mean() + (p["b"] ** 2).sum()

    value, grads = pb.value_and_grad(loss)(params)
    params, moments = OPT.update(grads, moments, params)
    return params, moments, key, value


def train(state, data, steps, checkpoints=None):
    """Steps over batches that begin at a position in the data."""
    for _ in range(steps):
        at = state["position"]
        batch = pb.tensor(data[at : at + 4])
        params, moments, key, value = train_step(
            state["params"], state["moments"], state["key"], batch
        )
        state = {
            "params": params, "moments": moments, "key": key, "position": (at + 4) % len(data),
            "step": state["step"] + 1, "best": min(state["best"], value.item()),
        }  # fmt: skip
        if checkpoints is not None:
            checkpoints.save(state["step"], state)
    return state


def start():
    params = {"w": pb.tensor(np.ones((5, 3), np.float32)), "b": pb.ones(2)}
    return {
        "params": params, "moments": OPT.init(params), "key": pb.random.key(3),
        "position": 0, "step": 0, "best": float("inf"),
    }  # fmt: skip


def bits(state):
    return [x.numpy().tobytes() if isinstance(x, pb.Tensor) else x for x in pb.tree.leaves(state)]


def test_a_run_resumes_bit_for_bit(tmp_path):
    data = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    with Checkpointer(tmp_path, every=3) as c:
        whole = train(start(), data, 14, c)
    assert c.steps() == [6, 9, 12]
    for like in (start(), None):
        resumed = Checkpointer(tmp_path).restore(like=like, step=9)
        assert type(resumed["moments"]) is pb.optim.OptimizerState and resumed["position"] == 16
        assert bits(train(resumed, data, 5)) == bits(whole)


def test_errors_of_the_thread_are_raised_by_the_next_call(tmp_path, monkeypatch, caplog):
    c = Checkpointer(tmp_path)
    c.save(1, 1)
    c.wait()

    def full(*_):
        raise OSError(errno.ENOSPC, "")

    for act in (c.wait, lambda: c.save(3, 3), c.restore, c.close):
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", full)
            c.save(2, 2)
            c._writer._thread.join()
        with pytest.raises(FileError, match=r"step 2 was not written.*No space left") as error:
            act()
        assert "Free some space" in str(error.value)
        assert Checkpointer(tmp_path).restore() == 1 and len(os.listdir(tmp_path)) == 1
    with pytest.raises(ArgumentError, match="closed"):
        c.save(4, 4)

    def interrupted():
        with Checkpointer(tmp_path) as other:
            other.save(2, 2)
            raise KeyError("the user's error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(KeyError) as raised:
            interrupted()
    assert "step 2 was not written" in raised.value.__notes__[0]
    forgotten = Checkpointer(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        forgotten.save(2, 2)
        forgotten._writer._thread.join()
    gc.collect()
    with caplog.at_level(logging.ERROR, "pullback.io"):
        del forgotten
    assert "step 2 was not written" in caplog.text


def test_incomplete_checkpoints_are_ignored_and_removed(tmp_path):
    with Checkpointer(tmp_path) as c:
        c.save(5, 5)
    left = [
        ".step-0000000006.safetensors.4194999-00000000.tmp",
        "step-0000000006.safetensors.0a1b2c3d.1-of-2",
        "step-0000000005.safetensors.0a1b2c3d.0-of-2",
        "step-0000000007.safetensors.0a1b2c3d.1-of-2.failed",
    ]
    for name in [*left, "notes.txt", "step-7.safetensors"]:
        (tmp_path / name).write_bytes(b"")
    reader = Checkpointer(tmp_path)
    assert reader.steps() == [5] and reader.restore() == 5
    assert all((tmp_path / name).exists() for name in left)  # a reader removes nothing
    with Checkpointer(tmp_path) as c:
        c.save(8, 8)
    names = {"notes.txt", "step-7.safetensors"} | {f"step-{k:010}.safetensors" for k in (5, 8)}
    assert set(os.listdir(tmp_path)) == names


def test_going_back_replaces_what_came_after(tmp_path):
    with Checkpointer(tmp_path, keep=5) as c:
        for k in (10, 20, 30):
            c.save(k, k)
    with Checkpointer(tmp_path, keep=5) as c:
        with pytest.raises(ArgumentError, match="step 15 is before step 30") as error:
            c.save(15, 15)
        assert "restore(step=...)" in str(error.value)
        assert c.restore(step=10) == 10
        c.save(15, 15)
        c.save(20, 21)
    assert c.steps() == [10, 15, 20] and c.restore() == 21


def test_bad_calls(tmp_path):
    with pytest.raises(MissingFile, match="has no checkpoint"):
        Checkpointer(tmp_path / "none").restore()
    with Checkpointer(tmp_path) as c:
        c.save(1, {"w": pb.ones(2)})
    with pytest.raises(MissingFile, match="has no step 2") as error:
        c.restore(step=2)
    assert "It has 1." in str(error.value)
    with pytest.raises(ArgumentError, match=r"\['w'\]: the file has f32\[2\], like has f32\[3\]"):
        c.restore(like={"w": pb.ones(3)})
    for arguments, text in [
        ({"keep": 0}, "keep must be at least 1"), ({"every": 0}, "every must be at least 1"),
        ({"best": -1}, "best must be at least 0"), ({"mode": "most"}, "mode must be "),
        ({"keep": 1.5}, "keep must be an integer"), ({"directory": 3}, "directory must be a path"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError, match=text):
            Checkpointer(**{"directory": tmp_path, **arguments})
    for step, text in ((-1, "must not be negative"), (1.5, "step must be an integer")):
        with pytest.raises(ArgumentError, match=text):
            Checkpointer(tmp_path).save(step, 1)
    file = tmp_path / "step-0000000001.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedFile, match="tensor 'w' does not have its checksum"):
        c.restore()
