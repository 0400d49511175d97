"""diff: show two modules side by side in their canonical forms.

Instructions are matched by what they do, not by their numbers, so that an instruction added at
the top does not make all others differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from pullback.cli.diagnostics import (
    CommandDiagnostic,
    DiagnosticSource,
    DiagnosticStyle,
    diagnostic_width,
    printable_diagnostic,
    report_diagnostics,
)
from pullback.cli.options import FILE, command_with_options
from pullback.static.instructions import Instruction
from pullback.static.module import IRModule, canonicalise, fingerprint
from pullback.static.text import TextWriter

NARROWEST = 24  # columns of a side
Lines = Sequence[Instruction]


_line = TextWriter().line


class DiffRow(NamedTuple):
    """Two lines side by side; `mark` is a space if equal, | if different, < or > if alone."""

    mark: str
    left: str
    right: str


def register_diff(commands: Any) -> None:
    about = "show two modules side by side in their canonical forms"
    parser = command_with_options(
        commands, "diff", _diff_command, about, "The status is 1 if they differ."
    )
    parser.add_argument("left", help=FILE)
    parser.add_argument("right", help="the module to compare with")
    parser.add_argument("--width", type=int, help="columns to use (default: the terminal's)")
    parser.add_argument("--changes", action="store_true", help="leave out equal lines")


def _diff_command(args: argparse.Namespace) -> int:
    if args.left == args.right == "-":
        raise CommandDiagnostic("the standard input can be read only once")
    modules, marks = [], []
    for path in (args.left, args.right):
        with DiagnosticSource(path) as source:
            modules.append(canonicalise(source.module))
            marks.append(fingerprint(modules[-1]))
    rows = list(diff_of_modules(*modules))
    same = modules[0] == modules[1]
    if args.json:
        records = [row._asdict() for row in rows if row.mark != " "]
        report_diagnostics(same=same, fingerprints=marks, differences=records)
    elif not same:
        chosen = [row for row in rows if row.mark != " " or not args.changes]
        for line in diff_side_by_side(
            chosen, args.width or diagnostic_width(), DiagnosticStyle(sys.stdout)
        ):
            print(line)
        if marks[0] == marks[1]:
            print("Their fingerprints are equal: only names or profiles differ.")
    return 0 if same else 1


def diff_of_modules(left: IRModule, right: IRModule) -> Iterator[DiffRow]:
    """The rows of a comparison, in order."""
    if left.profile != right.profile:
        yield DiffRow("|", f"profile: {left.profile}", f"profile: {right.profile}")
    a, b = left.instructions, right.instructions
    same: dict[int, int] = {}  # values of the left module, and those of the right that they match
    for x, y in _aligned_diff(a, b):
        if x is None or y is None:
            yield DiffRow("<", _line(x), "") if x else DiffRow(">", "", _line(y))  # type: ignore[arg-type]
            continue
        equal = _diff_kind(x) == _diff_kind(y) and tuple(map(same.get, x.operands)) == y.operands
        same.update(zip(x.results, y.results, strict=False))
        yield DiffRow(" " if equal else "|", _line(x), _line(y))
    equal = tuple(map(same.get, left.outputs)) == right.outputs
    yield DiffRow(" " if equal else "|", _outputs_diff(left), _outputs_diff(right))


def _aligned_diff(a: Lines, b: Lines) -> Iterator[tuple[Instruction | None, Instruction | None]]:
    """Pairs of matching instructions, in order, with None if there is no counterpart.

    Equal instructions match; between them, those of the same op, and runs of the same length.
    """
    for tag, xs, ys in _matched_in_diff(a, b, _diff_kind):
        if tag == "equal":
            yield from zip(xs, ys, strict=True)
            continue
        for inner, left, right in _matched_in_diff(xs, ys, lambda i: i.op):
            if inner == "equal" or len(left) == len(right):
                yield from zip(left, right, strict=True)
            else:
                yield from ((x, None) for x in left)
                yield from ((None, y) for y in right)


def _matched_in_diff(a: Lines, b: Lines, key: Any) -> Iterator[tuple[str, Lines, Lines]]:
    matcher = SequenceMatcher(None, [*map(key, a)], [*map(key, b)], autojunk=len(b) > 5000)
    for tag, i0, i1, j0, j1 in matcher.get_opcodes():
        yield tag, a[i0:i1], b[j0:j1]


def _diff_kind(i: Instruction) -> str:
    """An instruction without the numbers of its values."""
    return _line(i._replace(results=(0,) * len(i.results), operands=(0,) * len(i.operands)))


def _outputs_diff(module: IRModule) -> str:
    return f"outputs: {', '.join([f'%{y}' for y in module.outputs])}"


def diff_side_by_side(rows: Sequence[DiffRow], width: int, style: DiagnosticStyle) -> Iterator[str]:
    """The rows in two columns; long lines are wrapped."""
    room = max(NARROWEST, (width - 3) // 2)
    colours = {"|": "blue", "<": "red", ">": "green"}
    for mark, left, right in rows:
        sides = _wrap_diff_text(left, room), _wrap_diff_text(right, room)
        for k in range(max(map(len, sides))):
            a, b = (side[k] if k < len(side) else "" for side in sides)
            line = f"{a:{room}} {mark} {b}".rstrip()
            yield style(line, colours[mark]) if mark in colours else line


def _wrap_diff_text(text: str, room: int) -> list[str]:
    """Lines of at most `room` characters; continuation lines are indented."""
    made = []
    for line in map(printable_diagnostic, text.split("\n")):
        rest = range(room, len(line), room - 4)
        made += [line[:room], *["    " + line[k : k + room - 4] for k in rest]]
    return made
