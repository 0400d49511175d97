"""A line that shows how far training is."""

from __future__ import annotations

import sys
from typing import Any


class TrainingProgress:
    """A bar with the step, the last measured values and the time; nothing if it is switched off."""

    def __init__(self, total: int | None, done: int, shown: bool | None) -> None:
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._bar: Any = None
        if self.shown:
            from rich.console import Console  # takes 30 ms to import
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("step"), MofNCompleteColumn(), BarColumn(),
                TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn(),
                console=Console(stderr=True), transient=False,
            )  # fmt: skip
            self._task = self._bar.add_task("compiling", total=total, completed=done)

    def __enter__(self) -> TrainingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """Count one step."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def show(self, values: dict[str, float]) -> None:
        """Show measured values."""
        if self._bar is not None:
            text = ", ".join([f"{n} {v:.4g}" for n, v in values.items()][:4])
            self._bar.update(self._task, description=text)
