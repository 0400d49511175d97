"""Compare pullback with JAX and PyTorch.

Every measurement runs in a process of its own, and the libraries take turns. A library that is not
installed is left out (`pip install pullback[bench]` brings JAX). A run of all workloads writes
benchmarks/results.md and benchmarks/results.svg.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.chart import chart
from benchmarks.report import cell, columns, document, factor, machine, remarks
from benchmarks.suite import Row, Settings, installed, run
from benchmarks.workload import LIBRARIES
from benchmarks.workloads import WORKLOADS


def main() -> None:
    options = arguments()
    chosen = [*options.libraries, *(["torch.compile"] if options.torch_compile else [])]
    libraries = tuple(name for name in installed() if name in chosen)
    settings = Settings(
        libraries, options.rounds or (1 if options.quick else 3),
        options.seconds or (0.05 if options.quick else 1.0),
        options.quick, options.cpu_time, options.best,
    )  # fmt: skip
    names = options.only or list(WORKLOADS)
    complete = not (options.only or options.quick) and "pullback" in libraries
    folder = options.out or (Path(__file__).parent if complete else None)
    rows: list[Row] = []
    for row in run([WORKLOADS[name] for name in names], settings):
        rows.append(row)
        print(f"{row.workload.name}: {row.problem or 'measured'}", file=sys.stderr)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "results.md").write_text(document(rows, settings))
            (folder / "results.svg").write_text(chart(rows))
    show(rows)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, metavar="NAME",
                        help=f"workloads: {', '.join(WORKLOADS)}")  # fmt: skip
    parser.add_argument("--rounds", type=int, help="processes of each library (3)")
    parser.add_argument("--seconds", type=float, help="time to measure in each process (1)")
    peers = ["pullback", "jax", "torch"]
    parser.add_argument("--libraries", nargs="+", choices=peers, default=peers)
    parser.add_argument("--torch-compile", action="store_true", help="measure torch.compile too")
    parser.add_argument("--cpu-time", action="store_true",
                        help="CPU time of all threads, for a machine that is busy")  # fmt: skip
    parser.add_argument("--best", action="store_true",
                        help="the best sample of a process instead of the median")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small sizes, one short round")
    parser.add_argument("--out", type=Path, help="folder to write results.md and results.svg to")
    return parser.parse_args()


def show(rows: list[Row]) -> None:
    libraries = columns(rows)
    peers = [name for name in libraries if name != "pullback"]
    found = Table("workload", "", title=machine())
    for title in [*(LIBRARIES[n] for n in libraries), *(f"x {LIBRARIES[n]}" for n in peers)]:
        found.add_column(title, justify="right")
    for row in rows:
        cells = [cell(row, name) for name in libraries]
        cells += [factor(row.ratio(name)) for name in peers]
        found.add_row(row.workload.title, row.workload.unit, *cells)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(found)
    console.print(remarks(rows), markup=False)


if __name__ == "__main__":
    main()
