"""The command line in this process: what tests of it, of its examples and of its page share."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import NamedTuple
from unittest import mock

from pullback.cli.main import main


class Ended(NamedTuple):
    status: int
    out: str
    err: str


def pullback(*argv: str, stdin: str | bytes = b"") -> Ended:
    """`pullback ...` with a text on its standard input."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = io.StringIO(), io.StringIO()
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
