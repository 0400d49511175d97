"""Saving from several processes: each writes its shards, then process 0 writes the manifest.

The files of the processes have names that no earlier save has used, so what was saved before stays
intact until the file with the manifest replaces it. The folder must be one that all processes see.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, main_thread
from typing import Any

from pullback.distributed.barriers import compare_at_barrier, exchange
from pullback.engines.processes import current_processes, processes_in_words
from pullback.errors import FileError, PullbackError
from pullback.io.atomic import atomic_replacing
from pullback.io.container import ContainerLayout, opened_container
from pullback.io.manifest import manifest_text, read_manifest
from pullback.io.snapshot import TreeSnapshot

_POLL = 0.01  # seconds
PATIENCE = 600.0  # seconds that process 0 waits for the files of the others
PATIENCE_AT_END = 30.0  # and after the end of the program


@dataclass
class SeveralProcessesSave:
    """One save by several processes, which each of them takes part in."""

    path: str
    snapshot: TreeSnapshot
    info: dict[str, Any]
    token: str  # distinguishes the files of this save from those of all others
    abandoned: Event

    @staticmethod
    def begin(path: str, snapshot: TreeSnapshot, info: dict[str, Any]) -> SeveralProcessesSave:
        """Agree with the other processes on what is saved, and under which names."""
        name = os.path.basename(path)
        described = [name, snapshot.tree, snapshot.leaves, snapshot.shards, info]
        fingerprint = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]
        said = exchange("save", f"{name} {fingerprint} {secrets.token_hex(4)}")
        compare_at_barrier("what is saved", {k: w.rsplit(" ", 1)[0] for k, w in enumerate(said)})
        return SeveralProcessesSave(path, snapshot, info, said[0].rsplit(" ", 1)[1], Event())

    def part(self, process: int) -> str:
        """Return the path of the file that a process writes."""
        count = current_processes().count
        return f"{self.path}.{self.token}.{process}-of-{count}"

    def write(self) -> None:
        """Write the file of this process; process 0 then waits for all, and ends the save."""
        group, arrays = current_processes(), self.snapshot.arrays
        layout = ContainerLayout.of(arrays)
        try:
            text = manifest_text({"part": group.index}, layout, arrays)
            with atomic_replacing(self.part(group.index)) as file:
                layout.write(file, arrays, text)
        except BaseException as error:
            self._tell_failure(error)
            raise
        if group.index == 0:
            self._write_manifest(group.count)

    def _tell_failure(self, error: BaseException) -> None:
        """Leave a note, so that process 0 need not wait."""
        why = error.message if isinstance(error, PullbackError) else repr(error)
        note = f"{self.part(current_processes().index)}.failed"
        with contextlib.suppress(OSError):
            with open(f"{note}.new", "w", encoding="utf-8") as file:
                file.write(why)
            os.replace(f"{note}.new", note)  # process 0 reads a note as soon as there is one

    def discard(self) -> None:
        """Remove what this process wrote, since the save failed."""
        mine = self.part(current_processes().index)
        for path in (mine, f"{mine}.failed"):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _write_manifest(self, count: int) -> None:
        files = [[os.path.basename(self.part(k)), self._checksum(k)] for k in range(count)]
        shards = {
            name: [(process + 1, stored, box) for process, stored, box in rows]
            for name, rows in self.snapshot.shards.items()
        }
        body = {
            "tree": self.snapshot.tree, "leaves": self.snapshot.leaves, "info": self.info,
            "files": files, "shards": shards,
        }  # fmt: skip
        layout = ContainerLayout.of({})
        with atomic_replacing(self.path) as file:
            layout.write(file, {}, manifest_text(body, layout, {}))
        remove_parts_of_processes(self.path, {name for name, _ in files})

    def _checksum(self, process: int) -> str:
        """Return the checksum of the header of a process's file, when it is complete."""
        path, end = self.part(process), time.monotonic() + PATIENCE
        while not os.path.exists(path):
            if os.path.exists(f"{path}.failed"):
                with open(f"{path}.failed", encoding="utf-8") as note:
                    why = note.read()
                raise FileError(f"save: process {process} could not write its file: {why}")
            if self.abandoned.is_set() or time.monotonic() > end:
                what = f"process {process} did not write {path} in time"
                hint = "All processes must see the same folder."
                raise FileError(f"save: {what}", hint=hint)
            if not main_thread().is_alive():  # the program has ended
                end = min(end, time.monotonic() + PATIENCE_AT_END)
            time.sleep(_POLL)
        with opened_container(path) as file:
            return (read_manifest(file) or {})["checksum"]


def remove_parts_of_processes(path: str, kept: set[str] | None = None) -> None:
    """Remove the files of processes that belong to no save that was finished."""
    folder, base = os.path.split(path)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if is_part_from_several_processes(name, base) and name not in (kept or ()):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def is_part_from_several_processes(name: str, base: str) -> bool:
    """Whether a file is one that a process wrote when `base` was saved."""
    token, _, numbers = name.removeprefix(f"{base}.").partition(".")
    first, _, count = numbers.removesuffix(".new").removesuffix(".failed").partition("-of-")
    right = name.startswith(f"{base}.") and len(token) == 8 and first.isdecimal()
    return right and count.isdecimal()


def finish_with_several_processes(
    op: str, path: str, work: Callable[[], None], shared: SeveralProcessesSave | None
) -> None:
    """Finish a save on every process; raise on all of them if it failed on one."""
    error: PullbackError | None = None
    try:
        work()
    except PullbackError as raised:
        error = raised
    said = exchange(op, "" if error is None else error.message)
    failed = {k: word for k, word in enumerate(said) if word}
    if failed and shared is not None:
        shared.discard()
    if error is not None:
        raise error
    if failed:
        why = "; ".join(failed.values())
        raise FileError(f"{op}: {path} was not written by {processes_in_words(failed)}: {why}")
