"""Runs of examples/gpt.py that are killed and started again, beside one that is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from launching import Launched
from paths import EXAMPLES, PYTHONPATH

import pullback as pb

GPT = EXAMPLES / "gpt.py"


def arguments(out: Path, steps: int) -> list[str]:
    small = {"width": 8, "layers": 1, "context": 8, "every": 2, "write": 0}
    return [f"--{name}={value}" for name, value in {**small, "steps": steps, "out": out}.items()]


def bits(out: Path) -> dict[str, bytes]:
    """The parameters that a complete run has saved."""
    found = pb.load(out / "model.safetensors")
    leaves = pb.tree.leaves(found)
    assert len(leaves) > 10
    return {str(path): x.numpy().tobytes() for path, x in zip(pb.tree.paths(found), leaves)}


def latest(out: Path) -> int:
    """The last step that was saved, 0 if there is none."""
    names = os.listdir(out / "checkpoints") if (out / "checkpoints").exists() else []
    return max((int(n[5:15]) for n in names if n.endswith(".safetensors")), default=0)


def wait_for(out: Path, step: int, is_running) -> None:
    """Return when a checkpoint of this step or a later one is there."""
    deadline = time.monotonic() + 100
    while latest(out) < step:
        assert is_running() and time.monotonic() < deadline
        time.sleep(0.002)


class OneProcess:
    """The example as one process."""

    def __init__(self, out: Path, steps: int) -> None:
        command = [sys.executable, str(GPT), *arguments(out, steps)]
        environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def finish(self) -> tuple[int, str]:
        """The exit status and what was printed."""
        shown, _ = self._process.communicate(timeout=100)
        return self._process.returncode, shown


class TwoProcesses:
    """The example as two processes, of which one is killed."""

    def __init__(self, out: Path, steps: int, victim: int = 1) -> None:
        self._job = Launched(GPT, 2, *arguments(out, steps), PULLBACK_PATIENCE="20")
        self._victim = self._job._launcher._processes[victim]

    def is_running(self) -> bool:
        return self._victim.poll() is None

    def kill(self) -> None:
        self._victim.kill()

    def finish(self) -> tuple[int, str]:
        status, lines, errors = self._job.finish()
        return status, "\n".join([*lines[0], *lines[1], errors])


def kill_and_resume(start, out: Path, kills: int = 1, more: int = 12) -> tuple[int, str]:
    """Kill a run again and again, each time when it has saved, then let it take `more` steps.

    Return the number of its steps, and what it has shown.
    """
    endless = 1_000_000  # steps
    for _ in range(kills):
        run = start(out, endless)
        wait_for(out, latest(out) + 2, run.is_running)
        run.kill()
        status, shown = run.finish()
        assert status != 0 and not (out / "model.safetensors").exists(), shown
    steps = latest(out) + more
    return steps, finished(start(out, steps))


def finished(run) -> str:
    """What a run has shown that ends by itself."""
    status, shown = run.finish()
    assert status == 0, shown
    return shown
