"""What a worker process of a data loader runs, and the messages between it and the loader.

The loader sends tasks, the worker answers each with a batch or an error, in order. A batch is sent
as a description followed by the bytes of its arrays, which are neither copied nor pickled.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from pullback.data.batch_makers import Maker
from pullback.graph.boundary import leave_boundary
from pullback.lazy.settings import default_dtype

NO_PASS = -1  # the serial of an error before the first pass
_WRITEV = 512  # buffers that are written by one call of the system


class WorkerTask(NamedTuple):
    """A batch to be made in pass number `serial`; with an epoch, the pass begins."""

    serial: int
    indices: np.ndarray | None
    epoch: int | None = None
    shard: tuple[int, int] = (0, 1)


class WorkerAnswer(NamedTuple):
    """What became of a task: a batch, or an error with its place and traceback as text."""

    serial: int
    batch: Any = None
    failed: str = ""
    shown: str = ""
    text: str = ""
    error: bytes | None = None


class WorkerJob(NamedTuple):
    """What a worker needs to know: how to make batches, and the user's default dtype."""

    maker: Maker
    dtype: str


def run_worker(connection: Connection) -> None:
    """Answer tasks until the loader closes the connection or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the loader's to handle
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    answers: queue.SimpleQueue[WorkerAnswer | None] = queue.SimpleQueue()
    with contextlib.suppress(EOFError, OSError):
        payload = connection.recv_bytes()
        try:
            job: WorkerJob = pickle.loads(payload)
        except Exception as error:
            what = "the dataset, when it was sent to a worker,"
            send_worker_answer(connection, failed_worker_answer(NO_PASS, what, error))
            return
        threading.Thread(
            target=_send_worker_answers, args=(connection, answers), daemon=True
        ).start()
        with default_dtype(job.dtype):
            while True:
                answers.put(_worker_answer(job.maker, connection.recv()))
    answers.put(None)


def _worker_answer(maker: Maker, task: WorkerTask) -> WorkerAnswer:
    try:
        if task.epoch is not None:
            maker.begin(task.epoch, task.shard)
        return WorkerAnswer(task.serial, maker.make(task.indices))
    except Exception as error:
        return failed_worker_answer(task.serial, maker.place(task.indices), error)


def failed_worker_answer(serial: int, place: str, error: Exception) -> WorkerAnswer:
    """The answer for a task that failed."""
    leave_boundary(error)
    shown = f"{type(error).__name__}: {error}".partition("\n")[0]
    text = "".join(traceback.format_exception(error))
    sent = None
    with contextlib.suppress(Exception):
        sent = pickle.dumps(error)
        pickle.loads(sent)  # some errors cannot be made again
    return WorkerAnswer(serial, None, place, shown, text, sent)


def _send_worker_answers(
    connection: Connection, answers: queue.SimpleQueue[WorkerAnswer | None]
) -> None:
    """Send answers while the next batch is made; a loader that is gone ends the process."""
    while (answer := answers.get()) is not None:
        try:
            send_worker_answer(connection, answer)
        except OSError:
            os._exit(0)
        except Exception as error:  # a batch that cannot be pickled
            send_worker_answer(
                connection, failed_worker_answer(answer.serial, "sending a batch", error)
            )


def send_worker_answer(connection: Connection, answer: WorkerAnswer) -> None:
    """Send an answer: its description, the sizes of its arrays, and their bytes."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(answer, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    connection.send_bytes(pickle.dumps((head, [view.nbytes for view in views])))
    _write_worker_bytes(connection.fileno(), [view for view in views if view.nbytes])


def receive_worker_answer(connection: Connection) -> WorkerAnswer:
    """Receive what `send_answer` sent; the arrays of the batch belong to the caller."""
    head, sizes = pickle.loads(connection.recv_bytes())
    buffers = [np.empty(size, np.uint8) for size in sizes]
    for buffer in buffers:
        _read_worker_bytes(connection.fileno(), buffer.data)
    return pickle.loads(head, buffers=buffers)


def _write_worker_bytes(descriptor: int, views: Sequence[memoryview]) -> None:
    rest = list(views)
    while rest:
        written = os.writev(descriptor, rest[:_WRITEV])
        while rest and written >= rest[0].nbytes:
            written -= rest.pop(0).nbytes
        if written:
            rest[0] = rest[0][written:]


def _read_worker_bytes(descriptor: int, view: memoryview) -> None:
    while view.nbytes:
        count = os.readv(descriptor, [view])
        if not count:
            raise EOFError
        view = view[count:]


def worker_is_starting() -> bool:
    """Whether this process is a worker that still imports the user's main module."""
    running = sys.modules.get("multiprocessing.process")
    return running is not None and getattr(running.current_process(), "_inheriting", False)
