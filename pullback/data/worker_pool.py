"""The worker processes of a data loader."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import connection, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any

from pullback.data.batch_makers import BatchMakerEnd
from pullback.data.worker import (
    NO_PASS,
    WorkerAnswer,
    WorkerJob,
    WorkerTask,
    receive_worker_answer,
    run_worker,
    worker_is_starting,
)
from pullback.engines.fork import DATA_WORKER
from pullback.errors import ArgumentError, EngineError, WorkerError, WorkerLost

_OP = "DataLoader"
_POLL = 0.1  # seconds between looks at whether the loop was left
_PATIENCE = 0.2  # seconds in which an idle worker ends when its connection is closed
_GUARD = (
    "Workers import the main module. It must start training only under\n"
    '`if __name__ == "__main__":`.'
)


class WorkerPool:
    """Processes that make batches; number k of a pass comes from worker k modulo their count."""

    def __init__(self, job: WorkerJob, count: int) -> None:
        payload = _pickled_pool_job(job)
        if worker_is_starting():
            message = "worker processes must not be started while the main module is imported"
            raise ArgumentError(message, op=_OP, hint=_GUARD)
        if multiprocessing.current_process().daemon:
            message = "a daemonic process, such as a worker, cannot start worker processes"
            raise ArgumentError(message, op=_OP, hint="Use workers=0 there.")
        self._workers: list[PoolWorker] = []
        self.close = weakref.finalize(self, _end_pool_workers, self._workers, os.getpid())
        self._serial = 0
        try:
            for number in range(count):
                self._workers.append(PoolWorker(number, payload))
        except OSError as error:
            self.close()
            message = f"worker process {number} cannot be started: {error.strerror}"
            raise EngineError(message, op=_OP) from None

    @property
    def is_broken(self) -> bool:
        """Whether a process has ended, so that the others are of no use."""
        return any(worker.ended for worker in self._workers)

    def batches(
        self, tasks: Iterator[WorkerTask], ahead: int, stopped: Callable[[], bool]
    ) -> Iterator[Any]:
        """Yield the batches of tasks, which go to the workers in turn, in order.

        Each worker has up to `ahead` tasks at a time. A worker whose batches end is left out.
        """
        self._serial += 1
        active, given = list(self._workers), 0
        waiting: list[PoolWorker] = []  # the workers of the tasks that were given, in order
        while True:
            while len(waiting) < ahead * len(active) and (task := next(tasks, None)) is not None:
                worker = active[given % len(active)]
                worker.give(task._replace(serial=self._serial))
                waiting.append(worker)
                given += 1
            if not waiting:
                return
            answer = waiting.pop(0).answer(self._serial, stopped)
            if answer is None:
                return
            yield answer.batch

    def streams(
        self, epoch: int, shard: tuple[int, int], ahead: int, stopped: Callable[[], bool]
    ) -> Iterator[Any]:
        """Yield batches of the workers in turn; each reads its part of a dataset to its end."""
        self._serial += 1
        index, count = shard
        parts = len(self._workers)
        for worker in self._workers:
            part = (index * parts + worker.number, count * parts)
            worker.give(WorkerTask(self._serial, None, epoch, part))
            for _ in range(ahead - 1):
                worker.give(WorkerTask(self._serial, None))
        active = list(self._workers)
        while active:
            for worker in list(active):
                answer = worker.answer(self._serial, stopped)
                if answer is None:
                    return
                if isinstance(answer.batch, BatchMakerEnd):
                    active.remove(worker)
                    continue
                worker.give(WorkerTask(self._serial, None))
                yield answer.batch


def _pickled_pool_job(job: WorkerJob) -> bytes:
    try:
        return pickle.dumps(job, protocol=5)
    except Exception as error:
        message = f"the dataset cannot be sent to worker processes: {error}"
        hint = (
            "Functions given to map, filter or collate must be defined with `def` at the top of "
            "a\nmodule, and files opened in __getitem__; or use workers=0."
        )
        raise ArgumentError(message, op=_OP, hint=hint) from None


class PoolWorker:
    """A worker process, as the loader sees it."""

    def __init__(self, number: int, payload: bytes) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.number = number
        self.ended = False
        self._mine, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=run_worker, args=(theirs,), name=f"{DATA_WORKER} {number}", daemon=True
        )
        _start_pool_worker(self._process)
        theirs.close()
        self._sender = threading.Thread(target=self._send_job, args=(payload,), daemon=True)
        self._sender.start()  # a large dataset is sent while the process still starts

    def _send_job(self, payload: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._mine.send_bytes(payload)

    def give(self, task: WorkerTask) -> None:
        """Give the worker a task; that it has ended is noticed when its answer is awaited."""
        self._sender.join()
        with contextlib.suppress(OSError):
            self._mine.send(task)

    def answer(self, serial: int, stopped: Callable[[], bool]) -> WorkerAnswer | None:
        """Return the next answer of a pass; None if the loop was left meanwhile."""
        while not stopped():
            ready = connection.wait([self._mine, self._process.sentinel], _POLL)
            if not ready:
                continue
            try:
                answer = receive_worker_answer(self._mine) if self._mine in ready else None
            except (EOFError, OSError):
                answer = None
            if answer is None:
                raise self._lost()
            if answer.failed and answer.serial in (serial, NO_PASS):
                self.ended = answer.serial == NO_PASS
                raise _pool_worker_error(self.number, answer)
            if answer.serial == serial:
                return answer
        return None

    def _lost(self) -> WorkerLost:
        self.ended = True
        self._process.join(1)
        code = self._process.exitcode
        how = f"exit status {code}"
        hint = "What it wrote to standard error may say why.\n" + _GUARD
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            how = f"signal {name}"
            hint = "The system kills processes when memory runs out." if name == "SIGKILL" else ""
        message = f"worker process {self.number} (pid {self._process.pid}) ended with {how}"
        return WorkerLost(message, op=_OP, process=self.number, hint=hint or None)

    def end(self) -> None:
        """Ask the process to end: it does when its connection is closed and it is not busy."""
        self._mine.close()

    def join(self) -> None:
        """Wait a moment for the process, then end it."""
        for end in (lambda: None, self._process.terminate, self._process.kill):
            end()
            self._process.join(_PATIENCE)
            if self._process.exitcode is not None:
                self._process.close()
                return


def _pool_worker_error(number: int, answer: WorkerAnswer) -> WorkerError:
    message = f"{answer.failed} raised {answer.shown} in worker process {number}"
    error = WorkerError(message, op=_OP, hint=f"The worker's traceback:\n{answer.text.rstrip()}")
    if answer.error is not None:
        with contextlib.suppress(Exception):
            error.__cause__ = pickle.loads(answer.error)
    return error


def _start_pool_worker(process: SpawnProcess) -> None:
    """Start a process that Ctrl-C does not reach: it begins with the signal blocked."""
    resource_tracker.ensure_running()  # otherwise `start` does it, and unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_pool_workers(workers: list[PoolWorker], owner: int) -> None:
    if os.getpid() != owner:  # a forked process, whose parent uses them
        return
    for worker in workers:
        worker.end()
    for worker in workers:
        worker.join()
    workers.clear()
