"""Saving and restoring by several processes, started by tests/io/test_several_processes.py."""

from __future__ import annotations

import errno
import os
import random
import signal
import sys
import threading

import numpy as np

import pullback as pb

ARRAY = np.arange(70.0).reshape(10, 7)  # 10 rows do not divide by 4 devices


def state(mesh, step=0):
    """Sharded by rows, by both axes, replicated, on no mesh, and numbers."""
    x = pb.tensor(ARRAY + step)
    return {
        "rows": x.shard(mesh, pb.P(("a", "b"))), "both": x.shard(mesh, pb.P("b", "a")),
        "some": x.shard(mesh, pb.P(None, "a")), "same": (x + 1j).shard(mesh),
        "local": x + 0.5, "key": pb.random.key(step), "step": step,
        "none": pb.zeros((0, 3)).shard(mesh),
    }  # fmt: skip


def tell(f):
    try:
        f()
    except pb.PullbackError as error:
        print(type(error).__name__, error.message.splitlines()[0], flush=True)


def check(found, step):
    """Compare the shards of this process with what was saved."""
    wanted = {"rows": ARRAY + step, "both": ARRAY + step, "some": ARRAY + step,
              "same": ARRAY + step + 1j, "none": np.zeros((0, 3))}  # fmt: skip
    for name, array in wanted.items():
        for shard in found[name].shards():
            assert (shard.data == array[shard.index]).all(), name
    assert found["local"].numpy().tolist() == (ARRAY + step + 0.5).tolist()
    assert found["step"] == step and found["key"].tolist() == [0, step]


def together(folder):
    found = pb.load(f"{folder}/classes.safetensors")  # of a module that is not imported here
    print(type(found).__name__, sorted(found), type(found["b"]).__name__, found["b"].y, flush=True)
    assert pb.io.load is pb.load and "Checkpointer" in dir(pb.io)
    mesh = pb.DeviceMesh((2, 2), ("a", "b"))
    path, me = f"{folder}/model.safetensors", pb.distributed.process_index()
    pb.save(path, state(mesh, 1))
    pb.save(path, state(mesh, 2))  # replaces all files of the first
    # Gathering would fail: no process has all rows
    check(pb.load(path, like=state(mesh)), 2)
    line = pb.DeviceMesh(4, "n", devices=[3, 1, 2, 0])
    like = {**state(mesh), "rows": pb.tensor(ARRAY).shard(line, pb.P(None, "n"))}
    found = pb.load(path, like=like)
    assert found["rows"].sharding is like["rows"].sharding
    check(found, 2)
    total = pb.evaluate(found["rows"].sum())
    print("sum", total.item(), flush=True)
    checkpoints = pb.io.Checkpointer(f"{folder}/run", keep=2)
    for step in (1, 2, 3):
        tree = state(mesh, step)
        checkpoints.save(step, tree)
        tree["rows"] += 100
    check(checkpoints.restore(like=state(mesh)), 3)
    if me == 1:  # its disk is full: all processes hear of it, and what there was is intact
        pb.io.several_processes.atomic_replacing = full
    tell(lambda: pb.save(path, state(mesh, 9)))
    checkpoints.save(4, state(mesh, 4))
    tell(checkpoints.wait)
    check(checkpoints.restore(like=state(mesh)), 3)
    tell(lambda: pb.save(path, {"step": me}))
    print("steps", checkpoints.steps(), flush=True)


def until_killed(folder, seed):
    """Save checkpoints without pause, from the last one on, until a process kills itself."""
    rng, me = random.Random(int(seed)), pb.distributed.process_index()
    mesh = pb.DeviceMesh(len(pb.distributed.devices()), "n")
    state = {"w": pb.zeros((40, 5000)).shard(mesh, pb.P("n")), "step": 0}
    checkpoints = pb.io.Checkpointer(folder, keep=2)
    if checkpoints.latest() is not None:
        state = checkpoints.restore(like=state)
        assert all((s.data == state["step"]).all() for s in state["w"].shards()), "mixed"
    first = state["step"]
    print("resumed", first, flush=True)
    victim, seconds = rng.randrange(2), rng.random() * 0.6
    if me == victim:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    for step in range(first + 1, first + 10_000):
        state = {"w": state["w"] * 0 + step, "step": step}
        checkpoints.save(step, state)
        if step % 2 == 0:
            checkpoints.wait()
            print("complete", step, flush=True)


def full(path):
    raise pb.errors.FileError(f"save: {path}: {os.strerror(errno.ENOSPC)}")


if __name__ == "__main__":
    assert "pullback.io" not in sys.modules  # it loads when it is used
    pb.distributed.initialize()
    globals()[sys.argv[1]](*sys.argv[2:])
