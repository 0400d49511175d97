"""Compare pullback with JAX and PyTorch on a GPU.

`--rows` chooses what to measure: training steps of GPT-2 and ResNet-50 in bf16, and smaller rows in
f32 without TF32. PyTorch is compiled by torch.compile, or eager where its own function calls a
library. Processes run one at a time, since each wants the whole GPU, and the libraries take turns:
a training row has a process of its own for each library, the other rows share one. Figures of a row
are shown if the results of the libraries agree. `--variants` runs pullback's first training row
with several options of XLA instead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from benchmarks.compare import disagreement
from benchmarks.gpu_rows import ROWS, GpuRow
from benchmarks.report import factor, number, processor, remarks, table, versions
from benchmarks.suite import ROOT, Row

LIBRARIES = ("pullback", "jax", "torch")
LEFT_OUT = ("gpt2_medium",)  # only measured if named: compiling it takes minutes
VARIANTS = {
    "default": "",
    "Triton products": "--xla_gpu_enable_triton_gemm=true",
    "latency-hiding scheduler": "--xla_gpu_enable_latency_hiding_scheduler=true",
    "no command buffers": "--xla_gpu_enable_command_buffer=",
    "tuned products": "--xla_gpu_autotune_level=4",
    "cuDNN products": "--xla_gpu_cudnn_gemm_fusion_level=2",
}


class GpuCase(NamedTuple):
    """A row as it is measured: by a library, or as a variant of pullback."""

    row: str
    label: str


class Found:
    """The answers of the workers; `results` has a file of results for each row and label."""

    def __init__(self, results: Path, tiny: bool = False) -> None:
        self.results, self.tiny = results, tiny
        self.answers: dict[GpuCase, list[dict[str, Any]]] = {}
        self.errors: dict[GpuCase, str] = {}

    def figures(self, row: str, label: str, figure: str) -> list[float]:
        found = [answer[figure] for answer in self.answers.get(GpuCase(row, label), ())]
        # programs are cached on disk, so only the first process makes all of them
        found = found[:1] if figure == "first" else found
        return [value for value in found if value is not None]

    def device(self) -> str:
        names = {a["device"] for answers in self.answers.values() for a in answers}
        return " and ".join(sorted(names))


def jobs(rows: Iterable[str], libraries: list[str]) -> Iterator[list[GpuCase]]:
    """What the processes of a round measure, in turns of the libraries."""
    training = [name for name in rows if ROWS[name].training]
    others = [name for name in rows if not ROWS[name].training]
    for name in training:
        yield from ([GpuCase(name, label)] for label in ROWS[name].labels(libraries))
    for library in libraries if others else ():
        yield [GpuCase(name, label) for name in others for label in ROWS[name].labels([library])]


def run(cases: list[GpuCase], found: Found, options: argparse.Namespace, flags: str = "") -> None:
    """Measure cases; a process that dies is started again for those after the one it was at."""
    left = list(cases)
    while left:
        for answer in asked(left, found.results, options, flags):
            case = left.pop(0)
            if "error" in answer:
                found.errors[case] = answer["error"]
            else:
                found.answers.setdefault(case, []).append(answer)
            state = answer.get("error", "measured")
            print(f"{case.row}, {case.label}: {state}", file=sys.stderr, flush=True)


def asked(
    cases: list[GpuCase], results: Path, options: argparse.Namespace, flags: str
) -> list[dict[str, Any]]:
    """What a worker answers, at least one answer; what it printed is shown if something failed."""
    command = [sys.executable, "-m", "benchmarks.gpu_worker", *map(":".join, cases)]
    command += ["--results", str(results), "--steps", str(options.steps)]
    command += ["--tiny"] if options.size == "tiny" else []
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONDONTWRITEBYTECODE": "",  # installed packages are compiled, too
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
        "PULLBACK_CACHE_DIR": str(results / "pullback"),
        "TORCHINDUCTOR_CACHE_DIR": str(results / "torch"),
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            output, printed = process.communicate(timeout=options.limit)
        except subprocess.TimeoutExpired:
            process.kill()
            output, printed = process.communicate()
    answers = [json.loads(line) for line in output.splitlines()]
    if len(answers) < len(cases):
        reason = (printed.strip().splitlines() or [""])[-1]
        status = f"no result after {options.limit} s" if process.returncode == -9 else reason
        answers.append({"error": status or "the process died"})
    if any("error" in answer for answer in answers):
        print(printed[-3000:], file=sys.stderr)
    return answers


# -- the table -------------------------------------------------------------------------------------


def lines(name: str, found: Found, libraries: list[str]) -> Iterator[Row]:
    """The lines of a row: its step, and for training its variants, first call and memory."""
    row, labels = ROWS[name], ROWS[name].labels(libraries)
    peers = [x for x in labels if x not in row.variants]
    measured = [x for x in labels if found.answers.get(GpuCase(name, x))]
    files = {x: found.results / f"{name}.{x}.npz" for x in measured}
    main = Row(replace(row.workload, note=bandwidth(row, found)))
    main.samples = {x: found.figures(name, x, "step") for x in peers if x in files}
    main.left_out = {x: why for x in labels if (why := found.errors.get(GpuCase(name, x)))}
    main.problem = disagreement(files, row.workload.tolerance) if files else "no library ran"
    yield main
    if main.problem or not row.training:
        return

    def line(title: str, unit: str, figure: str, own: str = "pullback") -> Row:
        samples = {x: found.figures(name, own if x == "pullback" else x, figure) for x in peers}
        workload = replace(row.workload, title=f"{row.workload.title}, {title}", unit=unit)
        return Row(workload, {x: figures for x, figures in samples.items() if figures})

    for label in labels:
        if variant := row.variants.get(label):
            unit = "s" if variant.figure == "first" else row.workload.unit
            yield line(variant.title, unit, variant.figure, label)
    yield line("first call", "s", "first")
    if any(found.figures(name, x, "peak") for x in peers):
        yield line("peak memory", "GiB", "peak")


def bandwidth(row: GpuRow, found: Found) -> str:
    """The bandwidth that a memory-bound row reaches with each library, beside pullback's copy."""
    if found.tiny or not row.bytes_moved:
        return ""
    name, texts = row.workload.name, []
    for label in row.labels(list(LIBRARIES)):
        if figures := found.figures(name, label, "step"):
            texts.append(f"{label} {row.bytes_moved / median(figures) / 1e9:.0f} GB/s")
    copy, own = (found.figures(x, "pullback", "step") for x in ("copy", name))
    if copy and own and name != "copy":
        texts.append(f"pullback {median(copy) / median(own):.0%} of its copy")
    return ", ".join(texts)


def document(found: Found, rows: list[str], libraries: list[str]) -> str:
    made = [line for name in rows for line in lines(name, found, libraries)]
    machine = f"{found.device()}; {processor()}; {versions()}."
    machine += " Sizes were tiny, not those of the titles." if found.tiny else ""
    return f"{machine}\n\n{table(made)}{remarks(made)}"


def variants_table(answers: dict[str, Found], row: str) -> str:
    """What options of XLA do to a row of pullback."""
    titles = ["options", "step, ms", "x default", "first call, s", "losses"]
    made, base = [titles, ["---"] * len(titles)], 0.0
    for title, found in answers.items():
        step, first = (found.figures(row, "pullback", x) for x in ("step", "first"))
        if not step:
            made.append([title, "failed", "", "", ""])
            continue
        base = base or median(step)
        losses = np.stack([*np.load(found.results / f"{row}.pullback.npz").values()]).ravel()
        made.append([
            title, number(1e3 * median(step)), factor(median(step) / base), number(first[0]),
            ", ".join(f"{x:.4f}" for x in losses),
        ])  # fmt: skip
    return "".join(f"| {' | '.join(cells)} |\n" for cells in made)


# -- the command -----------------------------------------------------------------------------------


def compare_variants(options: argparse.Namespace, folder: Path) -> str:
    row = next(name for name in options.rows if ROWS[name].training)
    answers = {}
    for i, title in enumerate(VARIANTS):
        (folder / str(i)).mkdir()
        answers[title] = Found(folder / str(i))
    for _ in range(options.rounds):
        for title, found in answers.items():
            run([GpuCase(row, "pullback")], found, options, VARIANTS[title])
            options.variants.write_text(variants_table(answers, row))
    return variants_table(answers, row)


def compare_libraries(options: argparse.Namespace, folder: Path) -> str:
    found = Found(folder, tiny=options.size == "tiny")
    libraries = [x for x in options.libraries if find_spec(x)]
    for _ in range(options.rounds):
        for cases in jobs(options.rows, libraries):
            run(cases, found, options)
            if options.out:
                options.out.write_text(document(found, options.rows, libraries))
    return document(found, options.rows, libraries)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    default = [name for name in ROWS if name not in LEFT_OUT]
    parser.add_argument("--rows", nargs="+", choices=ROWS, metavar="NAME", default=default,
                        help=f"{', '.join(ROWS)} (all but {', '.join(LEFT_OUT)})")  # fmt: skip
    parser.add_argument("--size", choices=("full", "tiny"), default="full",
                        help="tiny: does everything run? A CPU will do")  # fmt: skip
    parser.add_argument("--steps", type=int, default=30, help="steps between two reads of the loss")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each library and row")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a process may take")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=[*LIBRARIES])
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the table")
    parser.add_argument("--variants", type=Path, metavar="FILE",
                        help="compare options of XLA, and write the table there")  # fmt: skip
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        compare = compare_variants if options.variants else compare_libraries
        print(compare(options, Path(folder)))


if __name__ == "__main__":
    main()
