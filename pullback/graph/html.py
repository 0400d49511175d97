"""What notebooks show of pullback's objects: small HTML tables, with all text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_EDGE = 4  # rows and columns shown at each end of a large matrix
_MOST = 2 * _EDGE + 2  # shown in full
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
_GAP = "\u2026"
_CELL = ' style="text-align:right;padding:1px 6px"'
_LEFT = ' style="text-align:left;padding:1px 6px"'


def escape_html(text: str) -> str:
    """Return text without characters that HTML would interpret (`html` takes 2 ms to import)."""
    return text.translate(_ESCAPED)


def html_table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """A table of names and values under a title."""
    lines = [
        f"<tr><th{_LEFT}>{escape_html(name)}</th><td{_LEFT}>{escape_html(str(value))}</td></tr>"
        for name, value in rows
    ]
    return f"<div><b>{escape_html(title)}</b><table>{''.join(lines)}</table></div>"


def html_program(title: str, text: str) -> str:
    """The text of a program under a title."""
    return f"<div><b>{escape_html(title)}</b><pre>{escape_html(text)}</pre></div>"


def html_array(title: str, value: np.ndarray | None) -> str:
    """A title, and an array as a table of numbers; one of more than two dimensions as text."""
    if value is None:
        return f"<div><b>{escape_html(title)}</b></div>"
    if value.ndim > 2 or not value.size:
        body = f"<pre>{escape_html(np.array2string(value, separator=', '))}</pre>"
    else:
        body = f"<table>{''.join(_html_rows(np.atleast_2d(value)))}</table>"
    return f"<div><b>{escape_html(title)}</b>{body}</div>"


def _html_rows(matrix: np.ndarray) -> list[str]:
    rows, columns = map(_html_indices, matrix.shape)
    made = []
    for i in rows:
        cells = [_GAP if i is None or j is None else _html_number(matrix[i, j]) for j in columns]
        made.append("<tr>" + "".join(f"<td{_CELL}>{escape_html(c)}</td>" for c in cells) + "</tr>")
    return made


def _html_indices(size: int) -> Sequence[int | None]:
    """The indices that are shown; None stands for those that are left out."""
    if size <= _MOST:
        return range(size)
    return [*range(_EDGE), None, *range(size - _EDGE, size)]


def _html_number(x: Any) -> str:
    if isinstance(x, (np.bool_, np.integer)):
        return str(x)
    return format(complex(x) if isinstance(x, np.complexfloating) else float(x), ".6g")
