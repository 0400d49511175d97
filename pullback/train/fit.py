"""fit: a whole training run in one call."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pullback.distributed.barriers import exchange
from pullback.distributed.process_devices import process_count, process_index
from pullback.errors import ArgumentError, PullbackError
from pullback.graph.argument_checks import checked_integer_argument
from pullback.graph.boundary import boundary
from pullback.io import Checkpointer
from pullback.optim.rules import OptimizerRule
from pullback.train.early_stopping import EarlyStopping
from pullback.train.history import History
from pullback.train.interrupt import CtrlC
from pullback.train.loop import Loss, TrainingLoop
from pullback.train.loss_scale import StaticLossScale
from pullback.train.precision import Policy
from pullback.train.progress import TrainingProgress
from pullback.train.tensorboard import TensorBoardWriter
from pullback.typing import ArrayLike

Callback = Callable[[TrainingLoop, dict[str, float]], object]


@dataclass(frozen=True)
class FitResult:
    """The outcome of `fit`: the trained model, what was measured, and why training ended.

    `stopped` is "done", "early" or "interrupted".
    """

    model: Any
    history: History
    steps: int
    stopped: str
    loop: TrainingLoop


@boundary
def fit(
    model: Any,
    loss: Loss,
    data: Iterable[Any],
    optimizer: OptimizerRule,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    validation: Iterable[Any] | None = None,
    validate_every: int | None = None,
    key: ArrayLike | None = None,
    policy: Policy | None = None,
    loss_scale: StaticLossScale | None = None,
    statistics: bool = False,
    log_every: int = 10,
    log: str | os.PathLike | None = None,
    tensorboard: bool = False,
    checkpoints: Checkpointer | str | os.PathLike | None = None,
    early_stopping: EarlyStopping | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
) -> FitResult:
    """Train a model on batches, and return it with what was measured.

    - `loss(model, batch)` returns a scalar, or a scalar and a dict of further scalars
    - `data` gives the batches of an epoch each time it is iterated over, such as a `DataLoader`;
      training ends after `epochs` (1 by default) or `steps`, whichever comes first
    - `validation` batches are evaluated after each epoch, or `validate_every` so many steps; their
      values are measured as "validation loss" and so on
    - `log` is a folder for `history.csv`, rewritten every `log_every` steps, and `history.svg`;
      with `tensorboard` also for event files
    - `checkpoints` saves the run, and a run that finds a checkpoint there continues from it: model,
      optimizer, keys, measured values, and the position in `data`
    - `callbacks` are called with the loop and the values whenever these are logged
    - `progress` shows a bar: by default if the error stream is a terminal
    - `policy`, `loss_scale` and `statistics` are those of `TrainingLoop`

    Ctrl-C ends training after the step that runs, and saves a checkpoint. The model that is given
    stays as it is. Among several processes all call `fit` and measure the same values; process 0
    alone writes `log` and shows the progress.

    >>> x = pb.tensor([[0.0], [1.0], [2.0]])
    >>> def loss(model, x):
    ...     return ((model(x) - 3 * x) ** 2).mean()
    >>> model = pb.nn.Linear(1, 1, key=pb.random.key(0))
    >>> result = pb.train.fit(model, loss, [x], pb.optim.adam(0.1), epochs=100)
    >>> result.steps, result.stopped, result.history["loss"][-1] < 0.1
    (100, 'done', True)
    """
    run = _FitRun(
        TrainingLoop(
            model, loss, optimizer, key=key, policy=policy, loss_scale=loss_scale,
            statistics=statistics,
        ),
        data, _fit_limit(steps, "steps"), _fit_limit(epochs, "epochs"),
        _fit_limit(log_every, "log_every") or 1, early_stopping, callbacks,
    )  # fmt: skip
    run.validation, run.validate_every = validation, _fit_limit(validate_every, "validate_every")
    if tensorboard and log is None:
        raise ArgumentError("fit: tensorboard needs a folder, log=...")
    if process_index() == 0:
        run.log = None if log is None else Path(log)
        run.board = TensorBoardWriter(run.log) if tensorboard and run.log is not None else None
    else:
        progress = False
    if checkpoints is not None:
        given = isinstance(checkpoints, Checkpointer)
        run.checkpoints = checkpoints if given else Checkpointer(checkpoints)  # type: ignore[assignment, arg-type]
    run.resume()
    return run.train(progress)


class _FitRun:
    """One call of `fit`."""

    validation: Iterable[Any] | None = None
    validate_every: int | None = None
    log: Path | None = None
    board: TensorBoardWriter | None = None
    checkpoints: Checkpointer | None = None

    def __init__(
        self, loop: TrainingLoop, data: Iterable[Any], steps: int | None, epochs: int | None,
        log_every: int, early_stopping: EarlyStopping | None, callbacks: Sequence[Callback],
    ) -> None:  # fmt: skip
        self.loop, self.data = loop, data
        self.most_steps, self.log_every = steps, log_every
        self.most_epochs = 1 if epochs is None and steps is None else epochs
        self.early_stopping, self.callbacks = early_stopping, callbacks
        self.history = History()
        self.step = self.epoch = self.batch = 0
        self.saved_step = 0  # not read from the folder: processes could see it at different times
        self.stopped = ""
        self.resumed = False

    # checkpoints

    def saved(self) -> dict[str, Any]:
        """What a checkpoint holds: the loop's tensors, and the rest as text."""
        position = getattr(self.data, "state_dict", None)
        stopping = self.early_stopping
        rest = {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "data": None if position is None else position(),
            "history": self.history.rows,
            "early_stopping": None if stopping is None else stopping.state_dict(),
        }
        return {"loop": self.loop.state_dict(), "run": json.dumps(rest)}

    def resume(self) -> None:
        """Continue from the latest checkpoint, if there is one."""
        if self.checkpoints is None or self.checkpoints.latest() is None:
            return
        like: dict[str, Any] = {"loop": self.loop.state_dict(), "run": ""}
        found = self.checkpoints.restore(like=like)
        self.loop.load_state_dict(found["loop"])
        rest = json.loads(found["run"])
        self.step, self.epoch = rest["step"], rest["epoch"]
        self.saved_step, self.resumed = self.step, True
        self.history = History(rest["history"])
        self.batch = rest["batch"]
        if rest["data"] is not None:
            self.data.load_state_dict(rest["data"])  # type: ignore[attr-defined]
        if rest["early_stopping"] is not None and self.early_stopping is not None:
            self.early_stopping.load_state_dict(rest["early_stopping"])

    def save(self, force: bool = False) -> None:
        if self.checkpoints is None or self.step == self.saved_step:
            return
        if self.checkpoints.save(self.step, self.saved(), force=force):
            self.saved_step = self.step

    # training

    def train(self, progress: bool | None) -> FitResult:
        total = self.total_steps()
        with TrainingProgress(total, self.step, progress) as self.bar, CtrlC() as self.ctrl_c:
            try:
                while not self.is_over():
                    self.train_epoch()
            except BaseException as error:
                self.close_after(error)
                raise
            self.close()
        return FitResult(
            self.loop.model, self.history, self.step, self.stopped or "done", self.loop
        )

    def total_steps(self) -> int | None:
        found = [] if self.most_steps is None else [self.most_steps]
        if self.most_epochs is not None and isinstance(self.data, Sized):
            found.append(self.most_epochs * len(self.data))
        return min(found, default=None)

    def is_over(self) -> bool:
        steps, epochs = self.most_steps, self.most_epochs
        enough = steps is not None and self.step >= steps
        return bool(self.stopped) or enough or (epochs is not None and self.epoch >= epochs)

    def train_epoch(self) -> None:
        before = self.step
        # A checkpoint after the last batch of an epoch is continued with what follows the epoch.
        resumed, self.resumed = self.resumed, False
        for batch in self.rest_of_epoch():
            measured = self.loop.step(batch)
            self.step += 1
            self.batch += 1
            self.bar.advance()
            if self.step % self.log_every == 0 or self.step == 1:
                self.note({name: value.item() for name, value in measured.items()})
            if self.validate_every and self.step % self.validate_every == 0:
                self.validate()
            if self.is_interrupted():
                self.stopped = "interrupted"
            if self.is_over():
                return
            self.save()
        if self.step == before and not resumed:
            raise ArgumentError(
                "fit: data gave no batch in this epoch",
                hint="An iterator is used up after one epoch: pass a DataLoader or a list.",
            )
        self.epoch, self.batch = self.epoch + 1, 0
        if self.validate_every is None:
            self.validate()
        self.save()

    def rest_of_epoch(self) -> Iterable[Any]:
        """The batches that follow; data that has no position is read again up to it."""
        return (
            self.data if hasattr(self.data, "state_dict") else islice(self.data, self.batch, None)
        )

    def is_interrupted(self) -> bool:
        """Whether Ctrl-C was pressed. Several processes stop after the same step: they ask each
        other when they log, which waits for all of them anyway."""
        if process_count() == 1:
            return self.ctrl_c.pressed
        if self.step % self.log_every:
            return False
        return "1" in exchange("fit: interrupted", str(int(self.ctrl_c.pressed)))

    def validate(self) -> None:
        if self.validation is None:
            return
        found = self.loop.evaluate(self.validation)
        values = {f"validation {name}": value for name, value in found.items()}
        self.note(values)
        if self.early_stopping is not None and self.early_stopping.should_stop(values):
            self.stopped = "early"

    def note(self, values: dict[str, float]) -> None:
        """Record measured values, and show them wherever they are shown."""
        self.history.add(self.step, self.epoch, **values)
        self.bar.show(values)
        if self.log is not None:
            self.history.to_csv(self.log / "history.csv")
        if self.board is not None:
            self.board.add(self.step, values)
        for callback in self.callbacks:
            callback(self.loop, values)

    def close(self) -> None:
        """Save and write what is left."""
        self.save(force=True)
        if self.checkpoints is not None:
            self.checkpoints.wait()
        self.close_logs()

    def close_after(self, error: BaseException) -> None:
        """Save and write what can be, after an error. Other processes may know nothing of it, so
        there is nobody to save with."""
        if process_count() == 1:
            try:
                self.save(force=True)
                if self.checkpoints is not None:
                    self.checkpoints.wait()
            except PullbackError as failed:
                error.add_note(failed.message)
        self.close_logs()

    def close_logs(self) -> None:
        if self.log is not None and any("loss" in name for name in self.history.names()):
            self.history.plot(self.log / "history.svg")
        if self.board is not None:
            self.board.close()


def _fit_limit(value: int | None, name: str) -> int | None:
    if value is not None and checked_integer_argument("fit", value, name) < 1:
        raise ArgumentError(f"fit: {name} must be at least 1, got {value}")
    return value
