"""Profiles as tables: in text, in notebooks, and in a file with a flame graph."""

from __future__ import annotations

import io
import linecache
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.errors import Location
from pullback.graph.boundary import boundary_methods
from pullback.graph.html import escape_html

if TYPE_CHECKING:
    from rich.table import Table

COMPILING = "(compiling)"
OUTSIDE = "(outside ops)"  # Python, dispatch, transfers, waiting
MOST_ROWS = 30  # of a printed table
_COLUMNS = ("ms", "share", "calls", "op", "line", "source")
_SOURCE = 44  # characters of a line that are shown


class ProfileRow(NamedTuple):
    """The time of one op at one line of user code, for one call of the function.

    `rule` names the op whose derivative rule it belongs to, or is empty. `share` is the part of the
    whole time. `calls` counts the runs of kernels that computed it, and `kernels` has their
    names and seconds; a kernel that computes several ops is shared among them by their
    estimated work.
    """

    op: str
    rule: str
    where: Location
    seconds: float
    share: float
    calls: float
    kernels: tuple[tuple[str, float], ...]

    @property
    def title(self) -> str:
        """The op as tables show it."""
        return f"{self.op} (rule of {self.rule})" if self.rule else self.op

    @property
    def line(self) -> str:
        """The file and line, or an empty string if they are not known."""
        return "" if self.where is None else str(self.where)

    @property
    def function(self) -> str:
        """The user's function that contains the line."""
        code = getattr(self.where, "code", None)
        return getattr(code, "co_qualname", "") or getattr(code, "co_name", "")

    @property
    def source(self) -> str:
        """The text of the line, if its file can be read."""
        file, line = getattr(self.where, "file", ""), getattr(self.where, "line", 0)
        return linecache.getline(file, line).strip() if file else ""


@boundary_methods
@dataclass(frozen=True, repr=False)
class ProfileReport:
    """What `pb.debug.profile` found, as a table. Its times are seconds of one call."""

    name: str
    rows: tuple[ProfileRow, ...]  # the longest first
    seconds: float
    repeat: int  # calls that were measured
    averaged: int  # the fastest of them, over which times are averaged
    warmup_seconds: float  # of the calls before them, which compile
    platform: str
    result: Any = field(compare=False)  # of the last call

    @property
    def ops(self) -> dict[str, float]:
        """The seconds of each op, over all lines, the longest first."""
        return self._sums(lambda row: row.op)

    @property
    def lines(self) -> dict[str, float]:
        """The seconds of each line of user code, the longest first."""
        return self._sums(lambda row: row.line)

    def _sums(self, key: Callable[[ProfileRow], str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for row in self.rows:
            if row.kernels and key(row):
                found[key(row)] = found.get(key(row), 0.0) + row.seconds
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def save(self, path: str | os.PathLike) -> None:
        """Write the table and a flame graph to an HTML file, which needs no other files.

        The graph has a bar for each function, below it its lines, their ops, and the kernels of
        XLA. A click on a bar magnifies it.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "profile.html")
        >>> pb.debug.profile(lambda x: pb.exp(x))(pb.ones(8)).save(path)
        >>> path.read_text()[:15]
        '<!DOCTYPE html>'
        """
        from pullback.debug.flame_graph import flame_page

        with open(path, "w", encoding="utf-8") as file:
            file.write(flame_page(self))

    @property
    def headline(self) -> str:
        """The time of a call, in one line."""
        inside = sum([row.share for row in self.rows if row.kernels])
        calls = f"{self.averaged} of {self.repeat} call{'s' * (self.repeat != 1)}"
        if self.warmup_seconds:
            calls += f", after {self.warmup_seconds:.2f} s of warm-up"
        time = f"{_profile_milliseconds(self.seconds)} ms a call"
        return f"{self.name}: {time}, {inside:.0%} of it in ops, on {self.platform} ({calls})"

    def __str__(self) -> str:
        from rich.console import Console  # heavy

        out = io.StringIO()
        console = Console(file=out, width=200, color_system=None, highlight=False, markup=False)
        console.print(self.__rich__())
        lines = [line[1:].rstrip() for line in out.getvalue().splitlines()]
        return "\n".join([self.headline, *[line for line in lines if line]])

    __repr__ = __str__

    def __rich__(self) -> Table:
        from rich.box import SIMPLE_HEAD  # heavy
        from rich.table import Table

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name in _COLUMNS:
            table.add_column(
                name, justify="right" if name in _COLUMNS[:3] else "left", no_wrap=True
            )
        for row in self._shown():
            table.add_row(*row)
        return table

    def _shown(self, most: int = MOST_ROWS) -> list[tuple[str, ...]]:
        """The cells of the table; rows beyond the longest `most` are added up in one."""
        made = [profile_cells(row) for row in self.rows[:most]]
        rest = self.rows[most:]
        if rest:
            seconds, share = sum(r.seconds for r in rest), sum(r.share for r in rest)
            made.append(
                (_profile_milliseconds(seconds), f"{share:.1%}", "", f"{len(rest)} more", "", "")
            )
        return made

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        return f"<div><b>{escape_html(self.headline)}</b>{self.html_rows(MOST_ROWS)}</div>"

    def html_rows(self, most: int) -> str:
        """Return the longest `most` rows as a table of HTML."""
        head = "".join([f"<th>{escape_html(name)}</th>" for name in _COLUMNS])
        body = [
            f"<tr>{''.join([f'<td>{escape_html(cell)}</td>' for cell in row])}</tr>"
            for row in self._shown(most)
        ]
        return f"<table><tr>{head}</tr>{''.join(body)}</table>"


def profile_cells(row: ProfileRow) -> tuple[str, ...]:
    """Return the cells of a row."""
    calls = f"{row.calls:g}" if row.kernels else ""
    source = row.source if len(row.source) <= _SOURCE else f"{row.source[: _SOURCE - 3]}..."
    time = _profile_milliseconds(row.seconds)
    return time, f"{row.share:.1%}", calls, row.title, row.line, source


def _profile_milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3f}"
