"""Checkpoints of a training run, written by a thread while the run goes on."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, overload

from pullback.distributed.barriers import exchange
from pullback.engines.processes import current_processes
from pullback.errors import ArgumentError, FileError, MissingFile, PullbackError
from pullback.graph.argument_checks import (
    checked_integer_argument,
    real,
    shown_argument,
    with_argument_checks,
)
from pullback.graph.boundary import boundary_methods
from pullback.io.atomic import atomic_file_errors
from pullback.io.checkpoint_folder import CheckpointFolder
from pullback.io.loading import load
from pullback.io.several_processes import SeveralProcessesSave, finish_with_several_processes
from pullback.io.snapshot import TreeSnapshot, save_snapshot, take_snapshot

T = TypeVar("T")


class _CheckpointerThread:
    """A thread that writes one checkpoint; its error is kept until somebody asks."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._step = 0

    def start(self, step: int, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except PullbackError as error:
                error.__traceback__ = error.__context__ = None  # its frames hold all values
                self._error = error
            except BaseException as error:
                self._error = error

        self._step = step
        self._thread = threading.Thread(target=run, name=f"pullback-checkpoint-{step}")
        self._thread.start()

    def finish(self) -> None:
        """Return when the checkpoint is written; raise if it could not be."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def check(self) -> None:
        """Raise the error of a checkpoint that could not be written, once."""
        error, self._error = self._error, None
        if error is not None:
            why = error.message if isinstance(error, PullbackError) else repr(error)
            hint = error.hint if isinstance(error, PullbackError) else None
            what = f"the checkpoint of step {self._step} was not written: {why}"
            raise FileError(what, hint=hint) from error

    def report(self) -> None:
        """Log an error that nobody asked for."""
        if self._error is not None:
            log = logging.getLogger("pullback.io")
            log.error("the checkpoint of step %d was not written: %s", self._step, self._error)


@boundary_methods
class Checkpointer:
    """Saves the state of a training run every so many steps, and restores it.

    `save(step, tree)` copies the values and returns; a thread writes the file. The last `keep`
    checkpoints are kept (all with None), and the `best` ones by the metric given to `save`, which
    is to be small or large as `mode` says, "min" or "max". A checkpoint is there completely or not
    at all. Among several processes all make the same calls, and each writes its own shards.

    >>> import pullback as pb, tempfile
    >>> state = {"w": pb.ones(3), "key": pb.random.key(0), "position": 0}
    >>> with pb.io.Checkpointer(tempfile.mkdtemp(), keep=2, every=10) as checkpoints:
    ...     for step in range(1, 41):
    ...         state = {**state, "w": state["w"] * 0.5, "position": 32 * step}
    ...         _ = checkpoints.save(step, state)
    >>> checkpoints.steps()
    [30, 40]
    >>> checkpoints.restore(like=state)["position"]
    1280
    """

    @with_argument_checks
    def __init__(
        self, directory: str | os.PathLike, keep: int | None = 3, every: int = 1, best: int = 0,
        mode: str = "min",
    ) -> None:  # fmt: skip
        for name, value, least in (("keep", keep, 1), ("every", every, 1), ("best", best, 0)):
            if value is not None and checked_integer_argument("Checkpointer", value, name) < least:
                what = f"{name} must be at least {least}, got {value}"
                raise ArgumentError(what, op="Checkpointer")
        if mode not in ("min", "max"):
            raise ArgumentError(f'mode must be "min" or "max", got {mode!r}', op="Checkpointer")
        self._folder = CheckpointFolder(os.path.abspath(os.fspath(directory)))
        self._keep, self._every, self._best, self._mode = keep, every, best, mode
        self._cleaned = self._closed = False
        self._restored: int | None = None  # a step that was asked for, until the next save
        self._shared: SeveralProcessesSave | None = None  # the save that is being written
        self._writer = _CheckpointerThread()
        weakref.finalize(self, self._writer.report)

    def __repr__(self) -> str:
        return f"Checkpointer({self._folder.path!r}, steps={self.steps()})"

    def steps(self) -> list[int]:
        """Return the steps that can be restored, in order."""
        return self._folder.steps()

    def latest(self) -> int | None:
        """Return the last step that can be restored; None if there is none."""
        return max(self.steps(), default=None)

    def best(self) -> int | None:
        """Return the step with the best metric; None if none has a metric."""
        ranked = self._folder.ranked(self._mode)
        return ranked[0] if ranked else None

    def save(self, step: int, tree: Any, metric: Any = None, force: bool = False) -> bool:
        """Save a tree if the step is a multiple of `every`, or with `force`; return whether.

        The values are copied before this returns: what the caller changes or donates later does
        not matter. Errors of the thread that writes are raised by the next call.
        """
        step = self._checked_step(step)
        if step % self._every and not force:
            self._writer.check()
            return False
        self._finish_writing()
        self._refuse_past(step)
        info = {"step": step, "metric": _checked_checkpointer_metric(metric)}
        self._prepare_folder()
        snapshot = take_snapshot("save", tree, copy=True)
        write = self._work(self._folder.file(step), snapshot, info)
        rewound, self._restored = self._restored, None

        def work() -> None:
            write()
            if current_processes().index == 0:
                for later in [s for s in self.steps() if rewound is not None and s > step]:
                    self._folder.remove(later)
                self._folder.retire(step, self._keep, self._best, self._mode)

        self._writer.start(step, work)
        return True

    def _work(self, path: str, snapshot: TreeSnapshot, info: dict[str, Any]) -> Callable[[], None]:
        """Return what the thread does."""
        if current_processes().count == 1:
            return lambda: save_snapshot(path, snapshot, info)
        self._shared = SeveralProcessesSave.begin(path, snapshot, info)
        return self._shared.write

    def _checked_step(self, step: int) -> int:
        if self._closed:
            raise ArgumentError("the checkpointer is closed", op="Checkpointer.save")
        step = checked_integer_argument("Checkpointer.save", step, "step")
        if step < 0:
            raise ArgumentError(f"step must not be negative, got {step}", op="Checkpointer.save")
        return step

    def _refuse_past(self, step: int) -> None:
        """Raise if later steps are there: a run that is resumed would continue from them."""
        latest = self.latest()
        if latest is not None and latest > step and self._restored is None:
            what = f"step {step} is before step {latest}, which {self._folder.path} has already"
            hint = (
                "Restore a checkpoint first (restore(step=...) to go back to an earlier one), or "
                "use an empty folder."
            )
            raise ArgumentError(what, op="Checkpointer.save", hint=hint)

    def _prepare_folder(self) -> None:
        """Make the folder, and remove what a process that was killed left there."""
        if not self._cleaned and current_processes().index == 0:
            with atomic_file_errors("save", self._folder.path):
                os.makedirs(self._folder.path, exist_ok=True)
            self._folder.clean()
        self._cleaned = True

    def _finish_writing(self) -> None:
        if current_processes().count == 1:
            self._writer.finish()
        else:
            shared, self._shared = self._shared, None
            finish_with_several_processes(
                "checkpoint", self._folder.path, self._writer.finish, shared
            )

    def wait(self) -> None:
        """Return when everything is written; raise if something could not be."""
        self._finish_writing()

    def close(self) -> None:
        """Wait, and refuse to save more."""
        self._closed = True
        self._finish_writing()

    @overload
    def restore(self) -> Any: ...
    @overload
    def restore(self, like: T, step: int | None = None) -> T: ...
    def restore(self, like: Any = None, step: int | None = None) -> Any:
        """Return the tree of a step, the latest by default, as `pb.load(path, like)` does.

        When an earlier step was restored, the next save replaces the steps after it.
        """
        self._finish_writing()
        if step is not None:
            step = self._restored = checked_integer_argument("Checkpointer.restore", step, "step")
        latest = self.latest() if step is None else step
        chosen = exchange("the checkpoint to restore", str(latest))[0]
        if chosen == "None":
            raise MissingFile(f"restore: {self._folder.path} has no checkpoint")
        if int(chosen) not in self.steps():
            known = ", ".join(map(str, self.steps())) or "none"
            hint = f"It has {known}."
            raise MissingFile(f"restore: {self._folder.path} has no step {chosen}", hint=hint)
        return load(self._folder.file(int(chosen)), like)

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        if kind is None:
            self.close()
            return
        self._closed = True
        if self._shared is not None:  # the other processes may not come
            self._shared.abandoned.set()
        try:
            self._writer.finish()
        except FileError as failed:
            assert error is not None
            error.add_note(failed.message)


def _checked_checkpointer_metric(value: Any) -> float | None:
    """Return a metric as a number."""
    if value is None:
        return None
    real("Checkpointer.save", value, "metric")
    try:
        return float(value)
    except (TypeError, ValueError):
        message = f"metric must be one number, got {shown_argument(value)}"
        raise ArgumentError(message, op="Checkpointer.save") from None
