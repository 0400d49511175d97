"""What was measured during training: rows of numbers, as a table, a file or a picture."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pullback.errors import ArgumentError
from pullback.graph.boundary import boundary_methods
from pullback.graph.html import html_table
from pullback.train.line_chart import line_chart


@boundary_methods
class History:
    """Measured values by step. Each row is a dict with `step`, `epoch` and some of the names.

    >>> history = pb.train.History()
    >>> history.add(step=1, epoch=0, loss=2.5)
    >>> history.add(step=2, epoch=0, loss=1.5, accuracy=0.5)
    >>> history["loss"]
    [2.5, 1.5]
    >>> history.names()
    ['loss', 'accuracy']
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = ()) -> None:
        self.rows = [dict(row) for row in rows]

    def add(self, step: int, epoch: int, **values: float) -> None:
        """Add a row.

        >>> history = pb.train.History()
        >>> history.add(step=1, epoch=0, loss=2.5)
        >>> len(history)
        1
        """
        self.rows.append({"step": step, "epoch": epoch, **values})

    def names(self) -> list[str]:
        """Return the names of what was measured, in the order of their first row.

        >>> pb.train.History([{"step": 1, "epoch": 0, "loss": 2.5}]).names()
        ['loss']
        """
        found = dict.fromkeys(name for row in self.rows for name in row)
        return [name for name in found if name not in ("step", "epoch")]

    def __getitem__(self, name: str) -> list[float]:
        return [row[name] for row in self.rows if name in row]

    def __len__(self) -> int:
        return len(self.rows)

    def points(self, name: str) -> list[tuple[float, float]]:
        """Return the steps and finite values of what was measured under a name.

        >>> pb.train.History([{"step": 1, "epoch": 0, "loss": 2.5}]).points("loss")
        [(1, 2.5)]
        """
        rows = [row for row in self.rows if name in row]
        return [(row["step"], row[name]) for row in rows if math.isfinite(row[name])]

    def to_csv(self, path: str | os.PathLike) -> None:
        """Write the rows to a CSV file, with empty cells where nothing was measured.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "run.csv")
        >>> pb.train.History([{"step": 1, "epoch": 0, "loss": 2.5}]).to_csv(path)
        >>> path.read_text().split()
        ['step,epoch,loss', '1,0,2.5']
        """
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.partial")
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["step", "epoch", *self.names()])
            writer.writeheader()
            writer.writerows(self.rows)
        os.replace(partial, target)

    def plot(
        self, path: str | os.PathLike, names: Sequence[str] | None = None, title: str = "Training"
    ) -> None:
        """Draw curves over the steps: as SVG, or in the formats of Matplotlib where installed.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "run.svg")
        >>> rows = [{"step": i, "epoch": 0, "loss": 1 / i} for i in (1, 2, 3)]
        >>> pb.train.History(rows).plot(path)
        >>> path.read_text()[:4]
        '<svg'
        """
        wanted = [n for n in self.names() if "loss" in n] if names is None else list(names)
        lines: dict[str, Sequence[tuple[float, float]]] = {n: self.points(n) for n in wanted}
        if not any(lines.values()):
            raise ArgumentError(
                f"History.plot: nothing was measured under {wanted or self.names()}"
            )
        lines = {n: points for n, points in lines.items() if points}
        if Path(path).suffix == ".svg":
            line_chart(Path(path), dict(lines), title, "step", wanted[0])
        else:
            _plot_history_with_matplotlib(Path(path), dict(lines), title)

    def __repr__(self) -> str:
        last = ", ".join(f"{n}={self[n][-1]:.4g}" for n in self.names())
        return f"<History of {len(self)} rows{': ' if last else ''}{last}>"

    def _repr_html_(self) -> str:
        rows = [(n, f"{self[n][0]:.4g} to {self[n][-1]:.4g}") for n in self.names()]
        return html_table(f"History of {len(self)} rows", rows)


def _plot_history_with_matplotlib(
    path: Path, lines: dict[str, Sequence[tuple[float, float]]], title: str
) -> None:
    try:
        from matplotlib.figure import Figure  # an optional library
    except ImportError:
        what = f"{path.suffix or 'this format'} needs Matplotlib, which is not installed"
        raise ArgumentError(f"History.plot: {what}", hint="An .svg file needs nothing.") from None
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="step")
    for name, points in lines.items():
        axes.plot(*zip(*points), label=name)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
