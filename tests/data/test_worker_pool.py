"""Worker processes: the same batches, errors at the loop's line, and no process left behind."""

from __future__ import annotations

import errno
import gc
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers import told
from paths import ROOT, SUPPORT
from worker_datasets import ENGINE, ERROR, KILL, Absent, BadRows, Rows, doubled, numbers

import pullback as pb
from pullback.data import worker, worker_pool
from pullback.data.batch_makers import IndexedBatchMaker
from pullback.errors import ArgumentError, EngineError, ForkError, WorkerError, WorkerLost

KEY = pb.random.key(3)


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended may wait for its parent to notice."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int]) -> bool:
    end = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, pids))


def processes(loader: pb.data.DataLoader) -> list[int]:
    return [w._process.pid for w in loader._source.pool._workers]


def rows(batches) -> list:
    return [(b["row"].tolist(), b["index"].tolist(), b["name"]) for b in batches]


def test_workers_give_the_same_batches():
    here, there = [pb.data.DataLoader(Rows(), 5, True, KEY, workers=n) for n in (0, 2)]
    assert rows(here) == rows(there)
    pids = processes(there)
    assert rows(here) == rows(there) and processes(there) == pids
    for _ in there:
        break  # the batches that were prepared already are not part of the next loop
    taken = [next(loop := iter(there)), next(loop)]
    state = json.loads(json.dumps(there.state_dict()))
    assert (state["epoch"], state["batch"]) == (3, 2)
    left = rows(loop)
    here.load_state_dict(state)
    assert rows(here) == left
    there.load_state_dict(state)
    assert rows(there) == left and taken[0]["row"].dtype is pb.float32
    del loop, there
    gc.collect()
    assert gone(pids)


def test_what_goes_wrong_in_a_worker():
    loader = pb.data.DataLoader(BadRows(), 2, workers=1)
    found = {}
    for at, kind in ((ERROR, WorkerError), (ENGINE, WorkerError), (KILL, WorkerLost)):
        loop = iter(loader)
        with pytest.raises(kind) as info:
            list(loop)
        found[at] = info.value
        assert [entry.name for entry in info.traceback][1:] == []  # at the line of the loop
        assert "(test_worker_pool.py:" in str(info.value)
        assert loader.batch == at // 2
        with pytest.raises(kind):  # and not an end
            next(loop)
        loader.load_state_dict(loader.state_dict() | {"batch": at // 2 + 1})
    text = str(found[ERROR])
    assert "DataLoader: dataset[3] raised KeyError: 'no such row' in worker process 0" in text
    assert 'raise KeyError("no such row")' in text and "making.py" not in text
    assert isinstance(found[ERROR].__cause__, KeyError)
    assert "does not compute with XLA (worker_datasets.py:" in str(found[ENGINE])
    assert isinstance(found[ENGINE].__cause__, ForkError)
    assert found[KILL].process == 0 and "ended with signal SIGKILL" in str(found[KILL])
    assert loader._source.pool is None  # the next loop starts another process


def test_streams_are_divided_among_workers():
    dataset = pb.data.IterableDataset(numbers).map(doubled)
    loader = pb.data.DataLoader(dataset, 2, workers=2, prefetch=0)
    wanted = [[0, 4], [2, 6], [8, 12], [10, 14], [16, 20], [18]]
    assert [b.tolist() for b in loader] == wanted
    loader.load_state_dict({"epoch": 1, "batch": 3, "workers": 2})
    assert [b.tolist() for b in loader] == wanted[3:]
    pids = processes(loader)
    loader.close()
    assert gone(pids)


def answers_of(dataset, count) -> list[worker.WorkerAnswer]:
    """What a worker answers to three tasks, in this process."""
    mine, theirs = multiprocessing.Pipe()
    mine.send_bytes(pickle.dumps(worker.WorkerJob(IndexedBatchMaker(dataset, None, False), "f32")))
    for indices in ([0, 1], [2, 3], [4]):
        mine.send(worker.WorkerTask(7, np.array(indices)))
    found = []

    def read() -> None:
        found.extend(worker.receive_worker_answer(mine) for _ in range(count))
        mine.close()

    (reader := threading.Thread(target=read)).start()
    before = signal.getsignal(signal.SIGINT)
    worker.run_worker(theirs)
    signal.signal(signal.SIGINT, before)
    reader.join()
    theirs.close()
    return found


def test_a_worker_answers_until_its_connection_ends(monkeypatch):
    monkeypatch.setattr(os, "_exit", sys.exit)
    (refused,) = answers_of(Absent(), 1)
    assert refused.failed == "the dataset, when it was sent to a worker,"
    assert refused.shown == "OSError: the file is on another machine"
    found = answers_of(BadRows(), 3)
    assert [a.failed for a in found] == ["", "dataset[3]", ""]
    assert found[2].batch["index"].tolist() == [4]


def test_ctrl_c_ends_the_workers():
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(SUPPORT / "worker_datasets.py")], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as script:  # fmt: skip
        pids = json.loads(script.stdout.readline())
        os.killpg(script.pid, signal.SIGINT)  # as a terminal does
        errors = script.communicate(timeout=30)[1]
    assert gone(pids)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")


def test_what_cannot_be_started_is_refused(monkeypatch):
    loader = pb.data.DataLoader(pb.data.as_dataset([1, 2]).map(lambda n: n), workers=1)
    with told(ArgumentError, TypeError, "cannot be sent to worker processes", "workers=0"):
        iter(loader)
    main = sys.modules["multiprocessing.process"].current_process()
    main._inheriting = True  # as while a worker imports the main module
    try:
        loader = pb.data.DataLoader([1, 2], workers=1)
        with told(ArgumentError, TypeError, '__name__ == "__main__"'):
            iter(loader)
    finally:
        del main._inheriting
    monkeypatch.setitem(main._config, "daemon", True)
    with told(ArgumentError, TypeError, "daemonic process", "workers=0"):
        iter(loader)
    monkeypatch.setitem(main._config, "daemon", False)
    monkeypatch.setattr(worker_pool, "_start_pool_worker", refuse)
    with told(EngineError, RuntimeError, "worker process 0 cannot be started: No more processes"):
        iter(loader)


def refuse(process) -> None:
    raise OSError(errno.EAGAIN, "No more processes")


@pytest.mark.parametrize("count", [0, 3, 1500])
def test_messages_keep_arrays(count):
    arrays = [np.full((i % 5, 1000), i, np.float64) for i in range(count)]
    with_others = {"a": arrays, "b": np.arange(10)[::2], "c": "text"}
    mine, theirs = multiprocessing.Pipe()
    thread = threading.Thread(
        target=worker.send_worker_answer, args=(theirs, worker.WorkerAnswer(1, with_others))
    )
    thread.start()
    answer = worker.receive_worker_answer(mine)
    thread.join()
    assert answer.batch["c"] == "text" and answer.batch["b"].tolist() == [0, 2, 4, 6, 8]
    assert all(np.array_equal(x, y) for x, y in zip(answer.batch["a"], arrays, strict=True))
    theirs.close()
    with pytest.raises(EOFError):
        worker.receive_worker_answer(mine)
    mine.close()
