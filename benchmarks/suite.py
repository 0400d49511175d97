"""Run workloads: one process at a time, libraries in turns, several rounds."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.compare import disagreement
from benchmarks.workload import LIBRARIES, Workload

ROOT = Path(__file__).parents[1]
PROCESS_LIMIT = 300  # seconds; a process that takes longer is left out
COMPILE_LIMIT = 60  # seconds that torch.compile may take
Answer = str | float | list[float]


@dataclass(frozen=True)
class Settings:
    """How long and with which libraries to measure."""

    libraries: tuple[str, ...]
    rounds: int = 3
    seconds: float = 1.0
    quick: bool = False
    cpu_time: bool = False  # of all threads, instead of the time that passes
    best: bool = False  # the best sample of a process, instead of the median


@dataclass
class Row:
    """What was measured: for each library, one median of each round."""

    workload: Workload
    samples: dict[str, list[float]] = field(default_factory=dict)
    problem: str = ""
    left_out: dict[str, str] = field(default_factory=dict)  # libraries, and why

    def median(self, library: str) -> float | None:
        found = self.samples.get(library)
        return statistics.median(found) if found else None

    def ratio(self, peer: str) -> float | None:
        """pullback's time divided by that of a peer."""
        own, other = self.median("pullback"), self.median(peer)
        return own / other if own and other else None

    def best_ratio(self) -> float | None:
        ratios = [self.ratio(peer) for peer in self.samples if peer != "pullback"]
        return max((r for r in ratios if r is not None), default=None)


def installed(libraries: Mapping[str, str] = LIBRARIES) -> tuple[str, ...]:
    return tuple(name for name in libraries if find_spec(name.split(".")[0]) is not None)


def run(workloads: list[Workload], settings: Settings) -> Iterator[Row]:
    """Compare the results of all workloads, then measure them one after the other."""
    with TemporaryDirectory() as folder:
        process = Processes(settings, Path(folder))
        rows = [process.checked(workload) for workload in workloads]
        print("results compared", file=sys.stderr)
        for row in rows:
            if not row.problem:
                process.measured(row)
            yield row


class Processes:
    """Starts workers, one at a time, with the same cores."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.results: dict[Any, tuple[Answer, Path]] = {}
        self.options = ["--seconds", str(settings.seconds)]
        self.options += ["--cpu-time"] if settings.cpu_time else []
        self.reduce = min if settings.best else statistics.median
        cores = str(len(os.sched_getaffinity(0)))
        self.environment = {
            **os.environ,
            "PULLBACK_CACHE_DIR": str(folder / "cache"),
            "OMP_NUM_THREADS": cores,
            "MKL_NUM_THREADS": cores,
            "JAX_PLATFORMS": "cpu",
            "PULLBACK_PLATFORM": "cpu",
        }

    def checked(self, workload: Workload) -> Row:
        """A row without samples; its problem says where the libraries disagree."""
        row, files = Row(workload), {}
        for library in workload.libraries:
            if library not in self.settings.libraries:
                continue
            answer, path = self._results(workload, library)
            if isinstance(answer, str):
                row.left_out[library] = answer
            elif library == "torch.compile" and answer > COMPILE_LIMIT:
                row.left_out[library] = f"its first call took {answer:.0f} s"
            else:
                files[library] = path
        if not files:
            row.problem = "; ".join(row.left_out.values()) or "no library has it"
        else:
            row.samples = {library: [] for library in files}
            row.problem = disagreement(files, workload.tolerance)
        return row

    def _results(self, workload: Workload, library: str) -> tuple[Answer, Path]:
        """What the worker answered, and the file it wrote; rows with the same case share it."""
        case = workload.cases.get(library, workload.cases.get("torch"))
        key = library, workload.inputs, case
        if key not in self.results:
            path = self.folder / f"{workload.name}.{library}.npz"
            self.results[key] = self._ask(workload, library, "--check", str(path)), path
        return self.results[key]

    def measured(self, row: Row) -> None:
        for _ in range(self.settings.rounds):
            for library in list(row.samples):
                answer = self._ask(row.workload, library, *self.options)
                if isinstance(answer, str):
                    row.left_out[library] = answer
                    del row.samples[library]
                else:
                    row.samples[library].append(self.reduce(answer))

    def _ask(self, workload: Workload, library: str, *options: str) -> Answer:
        """What a worker answers; a string tells why there is no answer."""
        command = [sys.executable, "-m", "benchmarks.worker", workload.name, library, *options]
        if self.settings.quick:
            command.append("--quick")
        environment = {**self.environment, **workload.environment}
        try:
            ran = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True,
                timeout=PROCESS_LIMIT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no result after {PROCESS_LIMIT} s"
        if ran.returncode:
            lines = ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"]
            return lines[-1]
        return json.loads(ran.stdout)
