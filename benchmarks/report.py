"""The table of results, in Markdown, and what it was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.suite import ROOT, Row, Settings
from benchmarks.workload import LIBRARIES

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "MB": 1e6, "GiB": 2.0**30}
HEADER = """\
# Benchmarks

{machine}

Each figure is the median of {rounds} rounds, with the smallest and the largest in parentheses. A
round is {statistic} of a process; the processes of the libraries
alternate. A factor is pullback's figure divided by that of another library: below 1, pullback is
faster. Before anything was measured, results and gradients of the libraries were compared on the
same inputs. Written by `python -m benchmarks`, which draws the factors in
[results.svg](results.svg) too.
"""


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def instruction_sets() -> str:
    """The vector instructions that matter here, as the processor names them."""
    flags = Path("/proc/cpuinfo").read_text().split()
    known = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "asimd")
    return ", ".join(name for name in known if name in flags)


def versions() -> str:
    packages = (("jaxlib", "jaxlib"), ("jax", "JAX"), ("torch", "PyTorch"))
    known = [(title, _version(package)) for package, title in packages]
    return ", ".join(f"{title} {found}" for title, found in known if found)


def machine() -> str:
    cores = len(os.sched_getaffinity(0))
    kernels = f"pullback's kernels: {kernels_used()}"
    return f"{processor()} ({instruction_sets()}), {cores} cores; {versions()}; {kernels}."


@cache
def kernels_used() -> str:
    """The instruction set of pullback's kernels, asked in a process of its own."""
    code = "import pullback; print(pullback.engine_info().kernels or 'none')"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    return ran.stdout.strip() or "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def cell(row: Row, library: str) -> str:
    """The median in the row's unit, and the spread of the rounds."""
    found, middle = row.samples.get(library), row.median(library)
    if not found or middle is None:
        return ""
    scale = UNITS[row.workload.unit]
    spread = f" ({number(min(found) / scale)}..{number(max(found) / scale)})"
    return number(middle / scale) + (spread if len(found) > 1 else "")


def number(x: float) -> str:
    """Three significant digits, never in scientific notation."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def factor(x: float | None) -> str:
    return "" if x is None else f"{x:.2f}"


def columns(rows: list[Row]) -> list[str]:
    """The libraries that have a figure in some row."""
    return [name for name in LIBRARIES if any(row.samples.get(name) for row in rows)]


def table(rows: list[Row]) -> str:
    libraries = columns(rows)
    peers = [name for name in libraries if name != "pullback"]
    titles = ["workload", "unit", *(LIBRARIES[name] for name in libraries)]
    titles += [*(f"x {LIBRARIES[name]}" for name in peers), "x best peer"] if peers else []
    lines = [titles, ["---"] * len(titles)]
    for row in rows:
        cells = [row.workload.title, row.workload.unit]
        if row.problem:
            cells += ["not measured", *[""] * (len(titles) - 3)]
        else:
            cells += [cell(row, name) for name in libraries]
            cells += [factor(row.ratio(name)) for name in peers]
            cells += [factor(row.best_ratio())] if peers else []
        lines.append(cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def remarks(rows: list[Row]) -> str:
    """Notes on rows, libraries that were left out of them, and rows that were not measured."""
    lines = []
    for row in rows:
        title = row.workload.title
        if row.workload.note:
            lines.append(f"- {title}: {row.workload.note}")
        if row.problem:
            lines.append(f"- {title}: not measured: {row.problem}")
        lines += [f"- {title}: without {name}: {why}" for name, why in row.left_out.items()]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def document(rows: list[Row], settings: Settings) -> str:
    statistic = "the best sample" if settings.best else "the median of the samples"
    statistic += ", in CPU time," if settings.cpu_time else ""
    header = HEADER.format(machine=machine(), rounds=settings.rounds, statistic=statistic)
    return f"{header}\n{table(rows)}{remarks(rows)}"
