"""Forked processes read what was computed before, and get an error where they would compute.

Each case runs in a process of its own: without the error, its children would never end.
"""

from __future__ import annotations

import pytest
from processes import run_python

START = """
import multiprocessing, os, signal, sys, threading, time, warnings
import numpy as np
import pullback as pb
warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, about threads and forks

def attempt(f):
    try:
        return f()
    except pb.errors.ForkError as error:
        assert "spawn" in error.hint and error.where is not None
        return "ForkError"

def forked(work, leave=os._exit):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that waits is ended
        work()
        sys.stdout.flush()
        leave(0)
    assert os.waitpid(pid, 0)[1] == 0

x = pb.tensor([1.0, 2.0, 3.0])
"""

COMPUTED = """
y, half = x * 2, x.astype("bfloat16") * 2
total = pb.compile(lambda v: v.sum())
pb.evaluate(y, half)
print(total(x).item(), y.tolist(), half.tolist())
pending = x + 7
"""


@pytest.mark.parametrize("leave", ["os._exit", "sys.exit"])
def test_a_child_reads_what_was_computed_and_computes_nothing(leave):
    code = """
def work():
    print(y.tolist(), half.tolist(), y.numpy().sum(), pb.tensor([5, 6]).tolist())
    ways = [
        pending.tolist, lambda: (x * 3).tolist(), lambda: total(x).item(), lambda: print(x > y),
        lambda: total(pb.tensor([4.0, 5.0, 6.0])).item(), lambda: pb.evaluate(pending),
        lambda: pb.compile(lambda v: v.prod())(x).item(),
        lambda: pb.grad(lambda v: (v * v).sum())(x).tolist(),
        lambda: pb.vmap(lambda v: v + 1)(y).tolist(),
    ]
    print({attempt(way) for way in ways})
    with pb.config(engine="reference"):
        print((y + x).tolist(), pb.grad(lambda v: (v * v).sum())(x).tolist())

forked(work, LEAVE)
print(pending.tolist(), total(x).item())
""".replace("LEAVE", leave)
    assert run_python(START + COMPUTED + code).splitlines() == [
        "6.0 [2.0, 4.0, 6.0] [2.0, 4.0, 6.0]",
        "[2.0, 4.0, 6.0] [2.0, 4.0, 6.0] 12.0 [5, 6]",
        "{'ForkError'}",
        "[3.0, 6.0, 9.0] [2.0, 4.0, 6.0]",
        "[8.0, 9.0, 10.0] 6.0",
    ]


def test_a_child_of_a_process_that_computed_nothing_may_compute():
    code = """
forked(lambda: forked(lambda: print((x * 2).tolist())) or print((x * 3).tolist()))
print((x * 4).tolist())
"""
    assert run_python(START + code).splitlines() == [
        "[2.0, 4.0, 6.0]", "[3.0, 6.0, 9.0]", "[4.0, 8.0, 12.0]",
    ]  # fmt: skip


def test_a_pool_of_forked_processes():
    code = """
def read(k):
    return y.numpy() + k

def compute(k):
    return (y + k).numpy()

with multiprocessing.get_context("fork").Pool(2) as pool:
    print(np.concatenate(pool.map(read, range(2))).tolist())
    try:
        pool.map(compute, range(2))
    except pb.errors.ForkError as error:
        print("ForkError", error.where.function)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(sum, [[1, 2], [3, 4]]), (y + 1).tolist())
"""
    assert run_python(START + COMPUTED + code).splitlines()[1:] == [
        "[2.0, 4.0, 6.0, 3.0, 5.0, 7.0]",
        "ForkError compute",
        "[3, 7] [3.0, 5.0, 7.0]",
    ]


def test_workers_of_a_data_loader_return_arrays_while_the_parent_trains():
    code = """
def worker(orders, batches):
    for k in iter(orders.get, None):
        batches.put(np.full((8, 3), k, np.float32))

context = multiprocessing.get_context("fork")
orders, batches = context.Queue(), context.Queue()
step = pb.compile(lambda w, batch: w - 0.25 * (batch @ w).sum() * w)
w = x
for epoch in range(3):  # the workers of later epochs are forked while programs run
    workers = [context.Process(target=worker, args=(orders, batches)) for _ in range(2)]
    for w_ in workers:
        w_.start()
    for k in range(4):
        orders.put(k / 100)
    for k in range(4):
        w = step(w, pb.tensor(batches.get(timeout=60)))
    for _ in workers:
        orders.put(None)
    for w_ in workers:
        w_.join(60)
        assert w_.exitcode == 0
print(bool(np.isfinite(w.numpy()).all()))
"""
    assert run_python(START + code) == "True"


def test_forks_while_other_threads_record_compile_and_run():
    code = """
stop, kept = threading.Event(), [y]

def busy(k):
    n = 0
    while not stop.is_set():
        n += 1
        z = pb.sin(x + n) * k
        if n % 7 == 0:
            z = pb.concat([z] * (n % 50 + 1))  # a new program
        kept[0] = z
        z.tolist()

threads = [threading.Thread(target=busy, args=(k,)) for k in range(2)]
for t in threads:
    t.start()

def work():
    attempt(kept[0].tolist)  # recorded, being computed, or computed
    assert y.tolist() == [2.0, 4.0, 6.0] and attempt(pending.tolist) == "ForkError"

for _ in range(20):
    forked(work)
stop.set()
for t in threads:
    t.join()
print(pending.tolist())
"""
    assert run_python(START + COMPUTED + code).splitlines()[-1] == "[8.0, 9.0, 10.0]"
