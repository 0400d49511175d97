"""The checkpoints in a folder: which there are, and which are removed when a new one is written."""

from __future__ import annotations

import contextlib
import math
import os
import re
from typing import Any

from pullback.errors import PullbackError
from pullback.io.atomic import atomic_file_errors, remove_atomic_leftovers
from pullback.io.container import opened_container
from pullback.io.manifest import read_manifest
from pullback.io.several_processes import is_part_from_several_processes, remove_parts_of_processes

_NAME = re.compile(r"step-(\d{10,})\.safetensors")


class CheckpointFolder:
    """A folder with a file for each step; those of several processes have files beside it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._metrics: dict[int, float | None] = {}

    def file(self, step: int) -> str:
        return os.path.join(self.path, f"step-{step:010}.safetensors")

    def steps(self) -> list[int]:
        """Return the steps of all complete checkpoints, in order."""
        found = [_NAME.fullmatch(name) for name in self._names()]
        return sorted([int(m[1]) for m in found if m])

    def _names(self) -> list[str]:
        try:
            with atomic_file_errors("restore", self.path):
                return os.listdir(self.path)
        except FileNotFoundError:
            return []

    def metric(self, step: int) -> float | None:
        """Return the metric that a checkpoint was saved with, if any."""
        if step not in self._metrics:
            self._metrics[step] = _checkpoint_folder_metric(self.file(step))
        return self._metrics[step]

    def ranked(self, mode: str) -> list[int]:
        """Return the steps that have a metric, from the best to the worst."""
        found = [(self.metric(step), step) for step in reversed(self.steps())]
        sign = 1 if mode == "min" else -1
        known = [(sign * metric, step) for metric, step in found if metric is not None]
        return [step for _, step in sorted(known, key=lambda pair: pair[0])]  # later ones first

    def retire(self, step: int, keep: int | None, best: int, mode: str) -> None:
        """Remove what is not kept any more, now that a step is saved."""
        self._metrics.pop(step, None)
        steps = self.steps()
        kept = {step, *(steps if keep is None else steps[-keep:])}
        kept.update(self.ranked(mode)[:best])
        for other in steps:
            if other not in kept:
                self.remove(other)

    def remove(self, step: int) -> None:
        """Remove a checkpoint: first the file that makes it one."""
        path = self.file(step)
        with contextlib.suppress(FileNotFoundError), atomic_file_errors("save", path):
            os.unlink(path)
        remove_parts_of_processes(path)
        self._metrics.pop(step, None)

    def clean(self) -> None:
        """Remove what a process that was killed left behind."""
        remove_atomic_leftovers(self.path, ".step-")
        complete = {self.file(step) for step in self.steps()}
        bases = {name.split(".safetensors")[0] + ".safetensors" for name in self._names()}
        for base in bases:
            path = os.path.join(self.path, base)
            if any(is_part_from_several_processes(name, base) for name in self._names()):
                remove_parts_of_processes(
                    path, _checkpoint_folder_parts(path) if path in complete else None
                )


def _checkpoint_folder_manifest(path: str) -> dict[str, Any]:
    try:
        with opened_container(path) as file:
            return read_manifest(file) or {}
    except PullbackError:  # the error is raised when it is restored
        return {}


def _checkpoint_folder_parts(path: str) -> set[str]:
    return {name for name, _ in _checkpoint_folder_manifest(path).get("files", [])}


def _checkpoint_folder_metric(path: str) -> float | None:
    found = _checkpoint_folder_manifest(path).get("info", {}).get("metric")
    return found if isinstance(found, float) and not math.isnan(found) else None
