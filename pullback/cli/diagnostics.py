"""Sources of modules, and errors in them: for people on stderr, for programs as JSON on stdout."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TextIO

import numpy as np

from pullback.errors import PullbackError, TextPosition
from pullback.graph.dtypes import DType
from pullback.graph.types import Type
from pullback.static.literals import type_literal
from pullback.static.module import IRModule
from pullback.static.parser import parse

COLOURS = {"red": "31", "green": "32", "blue": "34", "bold": "1"}


class CommandDiagnostic(Exception):
    """A problem with the command itself, not with a module: a missing file, for example."""

    def __init__(
        self, message: str, *, status: int = 2, hint: str | None = None, code: str = "usage"
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.hint, self.code = message, status, hint, code


class Diagnostic(Exception):
    """An error in a module, or in its run."""

    def __init__(self, error: PullbackError, source: DiagnosticSource) -> None:
        super().__init__(error)
        self.error, self.source = error, source


class DiagnosticSource:
    """The bytes of a module and their name in messages.

    Within `with source:`, errors become diagnostics that point at a place in the source.
    """

    def __init__(self, path: str) -> None:
        self.name = "<stdin>" if path == "-" else path
        self.data = _read_diagnostic_source(path)

    @cached_property
    def module(self) -> IRModule:
        return parse(self.data)

    def line(self, number: int) -> str:
        lines = self.data.decode("utf-8-sig", "replace").split("\n")
        return lines[number - 1].rstrip("\r") if number <= len(lines) else ""

    def __enter__(self) -> DiagnosticSource:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, PullbackError):
            raise Diagnostic(error, self) from error


def _read_diagnostic_source(path: str) -> bytes:
    try:
        if path != "-":
            with open(path, "rb") as file:
                return file.read()
        if sys.stdin is None:
            raise CommandDiagnostic("cannot read the standard input: it is closed")
        return sys.stdin.buffer.read()
    except OSError as error:
        raise CommandDiagnostic(f"cannot read {path}: {error.strerror or error}") from None


def place_of_diagnostic(error: PullbackError) -> TextPosition | None:
    if isinstance(error.where, TextPosition):
        return error.where
    line = error.values.get("line")
    return TextPosition(line, error.values["column"]) if line else None


def diagnostic_message(error: PullbackError) -> str:
    """The title of the error's code, the op and the message, without the place."""
    return ": ".join([part for part in (error.title, error.op, error.message) if part])


class DiagnosticStyle:
    """Colours for a stream: none unless it is a terminal, and none if NO_COLOR is set."""

    def __init__(self, stream: TextIO) -> None:
        dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("NO_COLOR"))
        self.colours = stream.isatty() and not dumb

    def __call__(self, text: str, *names: str) -> str:
        if not self.colours or not text:
            return text
        return f"\x1b[{';'.join([COLOURS[n] for n in names])}m{text}\x1b[0m"


def diagnostic_width() -> int:
    return shutil.get_terminal_size((120, 24)).columns


def printable_diagnostic(text: str, keep: str = "") -> str:
    """The text with spaces for tabs and a mark for each character that a terminal may obey."""
    text = text.replace("\t", " ")
    return "".join([c if c.isprintable() or c in keep else "\ufffd" for c in text])


def _diagnostic_columns(text: str) -> int:
    """The number of terminal columns that a text takes."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
               for c in text)  # fmt: skip


def diagnostic_line(message: str, code: str = "") -> None:
    """Print `error[E3001]: message`."""
    head = DiagnosticStyle(sys.stderr)(f"error[{code}]" if code else "error", "red", "bold")
    print(f"{head}: {printable_diagnostic(message, keep=chr(10))}", file=sys.stderr)


def _show_diagnostic(failure: Diagnostic) -> None:
    error, source = failure.error, failure.source
    diagnostic_line(diagnostic_message(error), error.code)
    style = DiagnosticStyle(sys.stderr)
    place = place_of_diagnostic(error)
    at = f":{place.line}:{place.column}" if place else ""
    shown = [f"{style(' -->', 'blue')} {printable_diagnostic(source.name)}{at}"]
    shown += _diagnostic_excerpt(source, place, style) if place else []
    if error.hint:
        shown.append(f"  {style('=', 'blue')} {printable_diagnostic(error.hint, keep=chr(10))}")
    print("\n".join(shown), file=sys.stderr)


def _diagnostic_excerpt(
    source: DiagnosticSource, place: TextPosition, style: DiagnosticStyle
) -> list[str]:
    """The line, cut to the terminal's width around the place, and a caret below it."""
    number = str(place.line)
    room = max(20, diagnostic_width() - len(number) - 4)
    line, at = source.line(place.line), place.column - 1
    start = max(0, at - room // 2) if len(line) > room else 0
    before, after = (
        printable_diagnostic(line[start:at]),
        printable_diagnostic(line[at : start + room]),
    )
    bar, margin = style("|", "blue"), " " * len(number)
    return [
        f"{margin} {bar}",
        f"{style(number, 'blue')} {bar} {before}{after}".rstrip(),
        f"{margin} {bar} {' ' * _diagnostic_columns(before)}{style('^', 'red', 'bold')}",
    ]


def plain_diagnostic_value(value: Any) -> Any:
    """A value as JSON. Infinities and NaN, which JSON lacks, are strings."""
    if isinstance(value, dict):
        return {str(k): plain_diagnostic_value(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain_diagnostic_value(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, np.floating):
        return plain_diagnostic_value(value.tolist())
    if isinstance(value, Type):
        return type_literal(value)
    if isinstance(value, complex):
        return [plain_diagnostic_value(value.real), plain_diagnostic_value(value.imag)]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else str(float(value))
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value.name if isinstance(value, DType) else str(value)


def _diagnostic_record(failure: Diagnostic) -> dict[str, Any]:
    error, place = failure.error, place_of_diagnostic(failure.error)
    values = {"op": error.op, **error.values} if error.op else error.values
    return {
        "code": error.code, "message": diagnostic_message(error), "hint": error.hint,
        "file": failure.source.name,
        "line": place.line if place else None, "column": place.column if place else None,
        "values": {
            k: plain_diagnostic_value(v) for k, v in values.items() if k not in ("line", "column")
        },
    }  # fmt: skip


def write_diagnostic_json(record: dict[str, Any]) -> None:
    print(json.dumps(record, indent=2, allow_nan=False))


def report_diagnostics(**results: Any) -> int:
    """Write the results of a command that succeeded; return the exit status."""
    write_diagnostic_json({"ok": True, "errors": [], **results})
    return 0


def report_failed_diagnostics(failures: Sequence[Diagnostic], as_json: bool, **results: Any) -> int:
    """Report errors and the other results; return the exit status."""
    if as_json:
        write_diagnostic_json(
            {"ok": not failures, "errors": [_diagnostic_record(f) for f in failures], **results}
        )
    else:
        for failure in failures:
            _show_diagnostic(failure)
    return 1 if failures else 0


def report_error_diagnostic(error: CommandDiagnostic, as_json: bool) -> int:
    if as_json:
        record = {"code": error.code, "message": error.message, "hint": error.hint}
        write_diagnostic_json({"ok": False, "errors": [record]})
    else:
        diagnostic_line(error.message, "" if error.code == "usage" else error.code)
        if error.hint:
            print(f"  = {error.hint}", file=sys.stderr)
    return error.status
