"""Tables in CSV files: columns with a dtype each."""

from __future__ import annotations

import csv
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.data.npy_files import refused_npy_file
from pullback.errors import ArgumentError, DamagedFile, PullbackError
from pullback.graph.argument_checks import (
    checked_flag_argument,
    checked_path_argument,
    shown_argument,
    text,
)
from pullback.graph.dtypes import dtype as dtype_of
from pullback.typing import DTypeLike

if TYPE_CHECKING:
    from _typeshed import StrPath

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
_BOOLS = {"true": True, "false": False}
_OP = "data.read_csv"
_TEXT = np.dtype(str)


def read_csv(
    path: StrPath, *, columns: Sequence[str] | None = None,
    dtypes: Mapping[str, DTypeLike | type[str]] | DTypeLike | type[str] | None = None,
    header: bool = True, delimiter: str = ",", missing: Sequence[str] = MISSING,
    fill: Mapping[str, Any] | None = None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return the columns of a CSV file as arrays, by name.

    Columns are i64, f64, bool or strings, whichever all their values fit, unless `dtypes` tells the
    dtype of all columns or of some by name. Without a `header`, names are "0", "1" and so on.
    `columns` selects some. A field in `missing` becomes the column's value in `fill`; without one
    it is NaN among numbers, which makes integers f64, and "" among strings. Errors name the file
    and the line.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "people.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("name,age,size\\nAda,36,1.65\\nAlan,NA,1.80\\n")
    >>> table = pb.data.read_csv(path, dtypes={"size": "float32"})
    >>> table["age"], table["size"].dtype, table["name"].tolist()
    (array([36., nan]), dtype('float32'), ['Ada', 'Alan'])
    """
    checked_path_argument(_OP, path, "path")
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return parse_csv(
                _OP, os.fspath(path), file, columns, dtypes,
                checked_flag_argument(_OP, header, "header"), delimiter, missing, fill,
            )  # fmt: skip
    except (OSError, UnicodeDecodeError) as error:
        raise refused_npy_file(_OP, path, "a text file in UTF-8", error) from None


def parse_csv(
    op: str, name: str, lines: Iterable[str], columns: Sequence[str] | None = None,
    dtypes: Any = None, header: bool = True, delimiter: str = ",",
    missing: Sequence[str] = MISSING, fill: Mapping[str, Any] | None = None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Like `read_csv`, from lines of text of the file called `name`."""
    _check_csv_options(op, columns, delimiter, missing, fill)
    names, rows, numbers = _csv_records(op, name, lines, header, delimiter)
    wanted = names if columns is None else list(columns)
    for chosen in (wanted, dtypes if isinstance(dtypes, Mapping) else (), fill or ()):
        for column in chosen:
            if column not in names:
                known = ", ".join(map(repr, names))
                raise ArgumentError(f"{name} has no column {column!r}: it has {known}", op=op)
    found = {}
    for column in wanted:
        i = names.index(column)
        source = CsvColumn(op, name, column, [row[i].strip() for row in rows], numbers)
        kind = dtypes.get(column) if isinstance(dtypes, Mapping) else dtypes
        found[column] = source.array(kind, frozenset(missing), fill or {})
    return found


def _check_csv_options(op: str, columns: Any, delimiter: Any, missing: Any, fill: Any) -> None:
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise ArgumentError(
            f"delimiter must be one character, got {shown_argument(delimiter)}", op=op
        )
    for what, given in (("columns", columns), ("missing", missing)):
        if (given is not None or what == "missing") and not isinstance(given, (list, tuple)):
            raise ArgumentError(
                f"{what} must be a list of strings, got {shown_argument(given)}", op=op
            )
        for item in given or ():
            text(op, item, f"an element of {what}")
    if fill is not None and not isinstance(fill, Mapping):
        message = f"fill must be a dict of values by column, got {shown_argument(fill)}"
        raise ArgumentError(message, op=op)


def _csv_records(
    op: str, name: str, lines: Iterable[str], header: bool, delimiter: str
) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the names of the columns, the rows, and the line of each row."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    rows, numbers = [], []
    try:
        for row in reader:
            if row:  # not an empty line
                rows.append(row)
                numbers.append(reader.line_num)
    except csv.Error as error:
        raise DamagedFile(f"{name}:{reader.line_num}: {error}", op=op) from None
    if not rows:
        raise DamagedFile(f"{name} has no rows", op=op)
    names = (
        [field.strip() for field in rows[0]] if header else [str(i) for i in range(len(rows[0]))]
    )
    for i, column in enumerate(names):
        if column in names[:i]:
            raise DamagedFile(f"{name}:{numbers[0]}: two columns are named {column!r}", op=op)
    for row, number in zip(rows, numbers):
        if len(row) != len(names):
            message = f"{name}:{number}: expected {len(names)} fields, got {len(row)}"
            raise DamagedFile(message, op=op)
    return (names, rows[1:], numbers[1:]) if header else (names, rows, numbers)


class CsvColumn:
    """The fields of a column, with what is needed to name one of them in a message."""

    def __init__(self, op: str, file: str, name: str, fields: list[str], lines: list[int]) -> None:
        self._op, self._file, self._name = op, file, name
        self._fields, self._lines = fields, lines

    def array(self, kind: Any, missing: frozenset[str], fill: Mapping[str, Any]) -> np.ndarray:
        """Return the column as an array of a dtype, or of the first one that fits."""
        absent = [field in missing for field in self._fields]
        filled = fill.get(self._name)
        if kind is None:
            kind = self._inferred([f for f, gone in zip(self._fields, absent) if not gone])
            if any(absent) and filled is None:  # integers and bools cannot say that
                kind = {"i": np.dtype(np.float64), "b": _TEXT}.get(kind.kind, kind)
        else:
            kind = _TEXT if kind is str or str(kind) == "str" else dtype_of(kind).numpy
        convert = _csv_converter(kind)
        values = [
            self._converted(i, convert, kind) if not gone
            else self._missing(i, kind) if filled is None else filled
            for i, gone in enumerate(absent)
        ]  # fmt: skip
        try:
            return np.array(values, kind)
        except (ValueError, TypeError, OverflowError) as error:
            message = f"{self._file}: column {self._name!r} does not fit into {kind}: {error}"
            raise DamagedFile(message, op=self._op) from None

    def _converted(self, i: int, convert: Callable[[str], Any], kind: np.dtype) -> Any:
        try:
            return convert(self._fields[i])
        except ValueError:
            raise self._wrong(
                i, f"{self._fields[i]!r} is not {_described_csv_kind(kind)}"
            ) from None

    def _inferred(self, fields: list[str]) -> np.dtype:
        """Return the narrowest dtype that all fields fit: i64, f64, bool or strings."""
        for kind in (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.bool_)):
            try:
                np.array([*map(_csv_converter(kind), fields)], kind)
            except (ValueError, OverflowError):
                continue
            return kind if fields else np.dtype(np.float64)
        return _TEXT

    def _missing(self, i: int, kind: np.dtype) -> Any:
        if kind.kind in "fcV":
            return float("nan")
        if kind.kind == "U":
            return ""
        hint = f"Pass fill={{{self._name!r}: value}}, or let the column be a float dtype."
        error = self._wrong(i, f"a value is missing, for which {kind} has none")
        error.hint = hint
        raise error

    def _wrong(self, i: int, what: str) -> PullbackError:
        message = f"{self._file}:{self._lines[i]}: column {self._name!r}: {what}"
        return DamagedFile(message, op=self._op)


def _csv_converter(kind: np.dtype) -> Callable[[str], Any]:
    if kind.kind == "U":
        return str
    if kind.kind == "b":
        return _csv_bool
    number = int if kind.kind in "iu" else complex if kind.kind == "c" else float
    return functools.partial(_csv_number, number)


def _csv_bool(field: str) -> bool:
    if field.lower() not in _BOOLS:
        raise ValueError(field)
    return _BOOLS[field.lower()]


def _csv_number(kind: Callable[[str], Any], field: str) -> Any:
    if "_" in field:  # Python reads 1_000 as a number
        raise ValueError(field)
    return kind(field)


def _described_csv_kind(kind: np.dtype) -> str:
    names = {"b": "true or false", "i": "an integer", "u": "an integer", "c": "a complex number"}
    return names.get(kind.kind, "a number")
