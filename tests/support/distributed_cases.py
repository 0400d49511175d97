"""The cases of tests/distributed/test_distributed.py; each process runs one, by name."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import time

import numpy as np
from devices import Grid, assert_same, check_words, dtype_named, op, varying

import pullback as pb
from pullback import distributed
from pullback.distributed import ProcessMismatch, WorkerLost, heartbeat
from pullback.engines import processes
from pullback.engines.engine_registry import registered_engine
from pullback.errors import EngineError, OutOfMemory, PullbackError
from pullback.graph.dtypes import float64
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.sharding.mesh import DeviceMesh

T = Type((4,), float64)


def say(*words):
    """Print a line with a single write, which other threads cannot interrupt."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def summing(grid):
    """Return a program that adds one and sums over a grid, and its operand, the position."""
    v = varying("v", (4,), "x")
    program = registered_engine("xla").compile_on(grid, Graph((v,), (op("PSum", ("x",))(v + 1),)))
    parts = [np.full(4, float(k)) for k in range(grid.size)]
    return program, registered_engine("xla").group(grid).put(parts, T)


def listens():
    """Return the addresses, in hexadecimal, at which this process listens (on Linux)."""
    files = set()
    for n in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the directory itself
            files.add(os.readlink(f"/proc/self/fd/{n}"))
    rows = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/self/net/{name}") as lines:
            rows += [line.split() for line in lines]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in files]


def nobody_else_can_connect():
    """Nothing listens at the coordinator's address any more; Gloo listens at loopback."""
    host, port = os.environ["PULLBACK_COORDINATOR"].split(":")
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection((host, int(port))).close()
        raise AssertionError(f"something listens at {host}:{port}")
    if sys.platform == "linux":
        loopback = "0100007F"
        assert {where.partition(":")[0] for where in listens()} <= {loopback}, listens()


def together():
    """Two processes of two devices."""
    k = distributed.process_index()
    nobody_else_can_connect()
    assert distributed.process_count() == 2
    assert [d.process for d in distributed.devices()] == [0, 0, 1, 1]
    assert [d.number for d in distributed.local_devices()] == [2 * k, 2 * k + 1]
    for axes in ({"y": 2, "x": 2}, {"x": 4}):
        program, x = summing(Grid(**axes))
        n = axes["x"]
        sums = [sum(range(i - i % n + 1, i - i % n + n + 1)) for i in range(4)]
        for _ in range(3):
            (y,) = program.run([x])
        assert sorted(y.parts()) == [2 * k, 2 * k + 1]
        assert_same(y.parts(), [np.full(4, float(s)) for s in sums])
    for name in ("bool", "i8", "u16", "i64", "bf16", "f64", "complex64"):
        check_words(dtype_named(name), Grid(x=2, y=2))
    assert (pb.tensor([1.0, 2.0]) * (k + 1)).tolist() == [k + 1, 2 * k + 2]
    (batch,) = pb.data.DataLoader(np.arange(8), 8, sharding=pb.DeviceMesh(4, "dp"))
    parts = [shard.data.tolist() for shard in batch.shards()]  # each process read its own half
    assert batch.shape == (8,) and parts == [[4 * k, 4 * k + 1], [4 * k + 2, 4 * k + 3]]
    if k == 0:  # a mesh of its own: the others have no part in it
        program, x = summing(Grid(x=2))
        assert_same(program.run([x])[0].parts(), [np.full(4, 3.0)] * 2)
    distributed.barrier()
    assert distributed.exchange("words", f"from {k}") == ["from 0", "from 1"]
    distributed.agree("program 1", "abc")
    try:
        distributed.agree("program 2", "abc" if k else "xyz")
    except ProcessMismatch as error:
        text = str(error)
        assert "processes disagree about program 2" in text
        assert "process 0: xyz" in text and "process 1: abc" in text
        say("disagreed")
    say("ended in order")


def lose(victim, how):
    """One process is killed or stopped; the others say which, save something, and end."""
    k = distributed.process_index()
    program, x = summing(Grid(x=distributed.process_count()))
    start = time.monotonic()
    try:
        for i in range(100_000):
            start = start if i > 20 else time.monotonic()
            (y,) = program.run([x])
            if i == 20 and k == int(victim):
                os.kill(os.getpid(), getattr(signal, how))
            y.wait()
    except WorkerLost as error:
        assert time.monotonic() - start < 15
        again = None
        try:
            program.run([x])
        except WorkerLost as same:
            again = same.process
        say(f"process {k} lost {error.process}, and again {again}:", error.message)


def fail():
    """One process raises; the other notices at once."""
    k = distributed.process_index()
    program, x = summing(Grid(x=2))
    program.run([x])[0].wait()
    if k == 1:
        raise ValueError("something else went wrong")
    for _ in range(100_000):
        program.run([x])[0].wait()


def only_one():
    """One process alone starts a program, and waits at a tag."""
    k = distributed.process_index()
    program, x = summing(Grid(x=2))
    program.run([x])[0].wait()
    if k == 0:
        for what in (lambda: distributed.agree("alone", ""), lambda: program.run([x])[0].wait()):
            try:
                what()
            except ProcessMismatch as error:
                say(error.message)


def faults():
    """Programs fail on one process: both raise, and can go on after a lack of memory."""
    k = distributed.process_index()

    def attempt(program, x):
        try:
            say("sum", int(program.run([x])[0].parts()[k][0]))
        except PullbackError as error:
            say(type(error).__name__, re.sub(r" \(pid.*?\)", "", error.message))

    def failing(grid, error, *processes):
        program, x = summing(grid)
        start = program.executable.start
        program.executable.start = raising(error) if k in processes else start
        return program, x, lambda: setattr(program.executable, "start", start)

    apart = [DeviceMesh(2, "x", devices=pair) for pair in ([0, 2], [1, 3], [0, 3], [1, 2])]
    short = OutOfMemory("no memory")
    program, x, mend = failing(apart[0], short, 0, 1)
    attempt(program, x)  # on both alike
    mend()
    attempt(program, x)
    program, x, mend = failing(apart[1], short, 1)
    heard = processes.current_processes().heartbeat._failures
    while k == 0 and not list(
        heard(registered_engine("xla").group(apart[1]))
    ):  # of it, before it starts
        time.sleep(0.01)
    attempt(program, x)
    mend()
    attempt(program, x)
    program, x, mend = failing(apart[2], EngineError("no luck"), 1)
    attempt(program, x)  # the other has started it, and will never come out
    mend()
    attempt(program, x)
    mesh = DeviceMesh((2, 2), ("x", "y"))
    y = pb.tensor(np.ones(2)).shard(mesh, pb.P("x"))
    step = pb.compile(lambda y, rate: pb.sum(y * rate))
    differing(lambda i: step(y, 0.5 + k * (i > 3)).item())
    program, x = summing(apart[3])
    other = summing(apart[3])[0]
    other.executable.checksum += 1
    differing(lambda i: (other if i == k else program).run([x])[0].wait())
    differing(lambda i: distributed.barrier("ab"[k]))


def differing(step):
    """Repeat a step until it raises."""
    try:
        for i in range(100_000):
            step(i)
    except ProcessMismatch as error:
        known = "ran another|put other|waits for all|did not come"
        say(type(error).__name__, *re.findall(known, error.message))
        with contextlib.suppress(
            ProcessMismatch
        ):  # which a program that never ends raises once more
            registered_engine("xla").client.queue.settle()


def raising(error):
    def start(arrays):
        raise error

    return start


def replicas():
    """Values that must be the same on all processes, and are not."""
    k = distributed.process_index()
    mesh = DeviceMesh((2, 2), ("x", "y"))
    rows = DeviceMesh((2, 2), ("x", "y"), devices=[0, 2, 1, 3])  # processes share its rows
    data = pb.tensor(np.ones((4, 3))).shard(mesh, pb.P("x"))

    def attempt(name, f):
        try:
            found = f()
            pb.evaluate(found)
            say(name, found.item())
        except ProcessMismatch as error:
            say(name, str(error).partition("\n")[0])

    def sampled():
        return pb.random.normal(pb.random.key(k), (4, 3))

    def model(params, x, rate):
        return pb.sum(x @ params["w"]) * rate

    def local(spec, mesh=mesh, scale=1.0):
        return distributed.shard_local(np.full((4, 3), 1 + k * scale), mesh, spec)

    step, total = pb.compile(model), pb.compile(lambda x: pb.sum(x))
    same, other = [{"w": pb.tensor(np.full(3, v))} for v in (1.0, 1.0 + k)]
    x = sampled()
    x.numpy()
    attempt("pending", lambda: pb.sum(sampled().shard(mesh, pb.P("x"))))
    attempt("computed", lambda: pb.sum(x.shard(mesh, pb.P("x"))))
    attempt("number", lambda: pb.sum(data * (1.0 + k)))
    attempt("argument", lambda: step(other, data, 2.0))
    attempt("numbers", lambda: step(same, data, 2.0 + k))
    attempt("equal", lambda: step(same, data, 2.0))
    attempt("split", lambda: pb.sum(local(pb.P("x"))))
    attempt("whole", lambda: pb.sum(local(pb.P())))
    attempt("shared", lambda: pb.sum(local(pb.P("x"), rows)))
    os.environ["PULLBACK_CHECK_REPLICAS"] = "1"  # for programs that are compiled from now on
    attempt("first", lambda: total(local(pb.P("x"), rows, 0.0)))
    attempt("later", lambda: total(local(pb.P("x"), rows, 1.0)))
    try:
        step(same, data, 2.0 + k)  # noticed here, or at the end
    except PullbackError:
        time.sleep(10 * heartbeat.INTERVAL)  # the other, too, must notice before this one is lost
        raise


if __name__ == "__main__":
    heartbeat.INTERVAL = 0.2  # most cases wait for what others say
    distributed.initialize()
    globals()[sys.argv[1]](*sys.argv[2:])
