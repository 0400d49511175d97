"""What is wrong, for people (a line and a caret, on stderr) and for programs (JSON, on stdout)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pullback.cli.source import Source, Trouble
from pullback.cli.style import BLUE, BOLD, RED, Style, columns_of, printable, terminal_width
from pullback.errors import PullbackError, TextPosition
from pullback.graph.dtypes import DType
from pullback.graph.types import Type
from pullback.static.literals import type_text


class Diagnostic(Exception):
    """An error in a module, or in its run."""

    def __init__(self, error: PullbackError, source: Source | None = None) -> None:
        super().__init__(error)
        self.error, self.source = error, source


@contextmanager
def blaming(source: Source) -> Iterator[None]:
    """What goes wrong inside is told with the place in this source."""
    try:
        yield
    except PullbackError as error:
        raise Diagnostic(error, source) from error


def place_of(error: PullbackError) -> TextPosition | None:
    if isinstance(error.where, TextPosition):
        return error.where
    line = error.values.get("line")
    return TextPosition(line, error.values["column"]) if line else None


def message_of(error: PullbackError) -> str:
    return f"{error.op}: {error.message}" if error.op else error.message


# -- for people -----------------------------------------------------------------------------------


def error_line(message: str, code: str = "") -> None:
    """`error[E3001]: message`."""
    style = Style(sys.stderr)
    head = style(f"error[{code}]" if code else "error", RED, BOLD)
    print(f"{head}: {printable_lines(message)}", file=sys.stderr)


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def show_failure(failure: Diagnostic) -> None:
    error, source = failure.error, failure.source
    error_line(message_of(error), error.code)
    style = Style(sys.stderr)
    place = place_of(error)
    shown = []
    if source is not None:
        at = f":{place.line}:{place.column}" if place else ""
        shown.append(f"{style(' -->', BLUE)} {printable(source.name)}{at}")
        shown += _excerpt(source, place, style) if place else []
    elif error.where is not None:
        shown.append(f"{style(' -->', BLUE)} {printable(str(error.where))}")
    if error.hint:
        shown.append(f"  {style('=', BLUE)} {printable_lines(error.hint)}")
    if shown:
        print("\n".join(shown), file=sys.stderr)


def _excerpt(source: Source, place: TextPosition, style: Style) -> list[str]:
    """The line, cut to the terminal's width around the place, and a caret below it."""
    number = str(place.line)
    room = max(20, terminal_width() - len(number) - 4)
    line, at = source.line(place.line), place.column - 1
    start = max(0, at - room // 2) if len(line) > room else 0
    before, after = printable(line[start:at]), printable(line[at : start + room])
    bar, margin = style("|", BLUE), " " * len(number)
    return [
        f"{margin} {bar}",
        f"{style(number, BLUE)} {bar} {before}{after}".rstrip(),
        f"{margin} {bar} {' ' * columns_of(before)}{style('^', RED, BOLD)}",
    ]


# -- for programs ---------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as JSON has it. Infinite numbers and NaN, which it has not, are strings."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Type):
        return type_text(value)
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else str(float(value))
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value.name if isinstance(value, DType) else str(value)


def error_record(failure: Diagnostic) -> dict[str, Any]:
    error, place = failure.error, place_of(failure.error)
    values = {"op": error.op, **error.values} if error.op else error.values
    return {
        "code": error.code,
        "message": message_of(error),
        "hint": error.hint,
        "file": failure.source.name if failure.source else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "values": {k: plain(v) for k, v in values.items() if k not in ("line", "column")},
    }


def write_json(record: dict[str, Any]) -> None:
    print(json.dumps(record, indent=2, allow_nan=False))


def report(**results: Any) -> int:
    """What was found, and that nothing is wrong; the exit status."""
    write_json({"ok": True, "errors": [], **results})
    return 0


def report_failures(failures: Sequence[Diagnostic], as_json: bool, **results: Any) -> int:
    """Tell all of them, with what was found besides; the exit status."""
    if as_json:
        records = [error_record(f) for f in failures]
        write_json({"ok": not failures, "errors": records, **results})
    else:
        for failure in failures:
            show_failure(failure)
    return 1 if failures else 0


def report_trouble(trouble: Trouble, as_json: bool) -> int:
    if as_json:
        record = {"code": trouble.code, "message": trouble.message, "hint": trouble.hint}
        write_json({"ok": False, "errors": [record]})
    else:
        error_line(trouble.message, "" if trouble.code == "usage" else trouble.code)
        if trouble.hint:
            print(f"  = {trouble.hint}", file=sys.stderr)
    return trouble.status
