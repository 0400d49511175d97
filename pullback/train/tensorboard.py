"""Event files for TensorBoard, written through its own package."""

from __future__ import annotations

import os
import time
from typing import Any

from pullback.errors import ArgumentError
from pullback.graph.boundary import boundary_methods


@boundary_methods
class TensorBoardWriter:
    """Writes measured values as event files that `tensorboard --logdir` shows.

    It needs the package `tensorboard`.
    """

    def __init__(self, directory: str | os.PathLike) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event  # an optional package
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            what = "event files need the package tensorboard, which is not installed"
            hint = "A CSV file needs nothing: fit(..., log='run')."
            raise ArgumentError(f"TensorBoardWriter: {what}", hint=hint) from None
        self._event, self._summary = Event, Summary
        self._writer: Any = EventFileWriter(os.fspath(directory))

    def add(self, step: int, values: dict[str, float]) -> None:
        """Write values of a step."""
        found = [self._summary.Value(tag=n, simple_value=v) for n, v in values.items()]
        summary = self._summary(value=found)
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        """Write what is pending and close the file."""
        self._writer.close()
