"""Training on a mesh of several processes, started by tests/spec/test_N_processes.py."""

from __future__ import annotations

import hashlib
import os
import signal
import sys

import numpy as np

import pullback as pb

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 5)), RNG.standard_normal((12, 3))
START = {"w": RNG.standard_normal((5, 3)), "m": np.zeros((5, 3)), "step": np.int64(0)}
STEPS = 6


def loss(w, x, y):
    return pb.mean((pb.tanh(x @ w) - y) ** 2)


def train(path, victim=-1, at=-1):
    """Momentum from the last state that was saved; process 0 saves every step."""
    me = pb.distributed.process_index()
    mesh = pb.DeviceMesh(len(pb.distributed.devices()), "dp")
    state = dict(np.load(path)) if os.path.exists(path) else START
    x, y = (pb.tensor(a).shard(mesh, pb.P("dp")) for a in (X, Y))
    w, m = (pb.tensor(state[k]).shard(mesh) for k in "wm")
    for step in range(int(state["step"]), STEPS):
        value, g = pb.value_and_grad(loss)(w, x, y)
        m = m * 0.9 + g
        w = w - m * 0.1
        pb.evaluate(w, m, value)
        if me == int(victim) and step == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
        print(step, f"{value.item():.12f}", flush=True)
        if me == 0:
            np.savez(f"{path}.new.npz", w=w.numpy(), m=m.numpy(), step=np.int64(step + 1))
            os.replace(f"{path}.new.npz", path)
    print(
        "state", hashlib.sha256(w.numpy().tobytes() + m.numpy().tobytes()).hexdigest(), flush=True
    )
    print("parts", [s.data.shape for s in x.shards()], flush=True)


def unread():
    """Momentum whose results are read at the end only; prints the programs of each step."""
    mesh = pb.DeviceMesh(len(pb.distributed.devices()), "dp")
    x, y = (pb.tensor(a).shard(mesh, pb.P("dp")) for a in (X, Y))
    w, m = (pb.tensor(START[k]).shard(mesh) for k in "wm")
    values, programs = [], []
    for _ in range(STEPS):
        before = pb.engine_info().programs_run, pb.cache_info().misses
        value, g = pb.value_and_grad(loss)(w, x, y)
        m = m * 0.9 + g
        w = w - m * 0.1
        values.append(value)
        programs.append(f"{pb.engine_info().programs_run - before[0]} run")
        programs[-1] += f" {pb.cache_info().misses - before[1]} new"
    pb.evaluate(values, w)
    print(", ".join(programs), flush=True)
    print(f"{values[-1].item():.12f}", flush=True)


def mistakes():
    """Mistakes: what a process must not do alone, or differently from the others."""
    me = pb.distributed.process_index()
    mesh = pb.DeviceMesh(len(pb.distributed.devices()), "dp")
    x = pb.tensor(X).shard(mesh, pb.P("dp"))
    total = pb.sum(x)
    if me == 0:
        tell(lambda: print(total))
        tell(lambda: x.numpy())
        tell((x * 2).shards)
    pb.evaluate(total)
    at = pb.tensor(np.arange(12) * 12).shard(mesh, pb.P("dp"))  # the last is on the last process
    row = pb.tensor(np.zeros(100)).shard(mesh)[at]
    pb.evaluate(row)
    tell(row.shards)
    tell(lambda: pb.evaluate(pb.sum(x * x) if me else pb.sum(x + 1)))


def tell(f):
    try:
        f()
    except pb.PullbackError as error:
        print(type(error).__name__, str(error).splitlines()[0], flush=True)


if __name__ == "__main__":
    pb.distributed.initialize()
    globals()[sys.argv[1]](*sys.argv[2:])
