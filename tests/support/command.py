"""The command line in this process: what tests of it, of its examples and of its page share."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import NamedTuple
from unittest import mock

from pullback.cli.main import main

EXAMPLE = """\
%0 = Input() {name: "x"} : Tensor<f32, [3]>
%1 = Input() {name: "y"} : Tensor<f32, [3]>
%2 = BinOp(Mul, %0, %1) : Tensor<f32, [3]>
%3 = BinOp(Add, %2, %0) : Tensor<f32, [3]>
%4 = Sum(%3, [], false) : Tensor<f32, []>
outputs: %4
"""
UNFIT = """\
%0 = Input() {name: "x"} : Tensor<f32, [3, 4]>
%1 = Input() {name: "y"} : Tensor<f32, [3, 5]>
%2 = Add(%0, %1) : Tensor<f32, [3, 4]>
outputs: %2
"""
DIVISION = """\
%0 = Input() {name: "x"} : Tensor<f32, []>
%1 = ConstF32(1.0) : Tensor<f32, []>
%2 = BinOp(Div, %1, %0) : Tensor<f32, []>
outputs: %2
"""
ROWS = """\
%0 = Input() {name: "x"} : Tensor<f32, [3]>
%1 = Input() {name: "i"} : Tensor<i64, [2]>
%2 = Gather(%0, %1) : Tensor<f32, [2]>
outputs: %2
"""


class Ended(NamedTuple):
    status: int
    out: str
    err: str


class Stream(io.StringIO):
    """Catches what is printed; a terminal where a test says so."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


def pullback(*argv: str, stdin: str | bytes = b"") -> Ended:
    """`pullback ...` with a text on its standard input."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = Stream(), Stream()
    with (
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(data))),
        mock.patch.dict("os.environ", COLUMNS="100"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = main(argv)
    return Ended(status, out.getvalue(), err.getvalue())


def ir(*argv: str, stdin: str | bytes = b"") -> Ended:
    """`pullback ir ...`."""
    return pullback("ir", *argv, stdin=stdin)
