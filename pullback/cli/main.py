"""The command `pullback`: its options, its exit status, and what happens when it is cut short.

The status is 0 if all went well, 1 if a module or its run is wrong (or `diff` found a difference),
2 if the command was used wrongly or a file could not be read or written. Like other programs, it
says nothing when the reader of its output has left (141), and ends with 130 when interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pullback.cli import checking, conformance, differences, exchange, gradient, listing, running
from pullback.cli.diagnostics import Diagnostic, error_line, report_failures, report_trouble
from pullback.cli.source import Trouble

COMMANDS = (checking, gradient, running, differences, listing, exchange, conformance)


def script() -> None:
    """The entry point of the installed command."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  (None if it was closed)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a module is UTF-8, whatever the terminal's language
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status; nothing but this status comes out of it."""
    try:
        args = _parser().parse_args(argv)
    except SystemExit as end:  # argparse has said what is wrong, or printed its help
        return int(end.code or 0)
    try:
        status = _explained(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _abandon_output()
        return 141
    except OSError as error:
        _abandon_output()
        error_line(f"cannot write the output: {error.strerror or error}")
        return 2
    except KeyboardInterrupt:
        error_line("interrupted")
        return 130


def _explained(args: argparse.Namespace) -> int:
    """The command's status; what goes wrong is told."""
    try:
        return args.work(args)
    except Diagnostic as failure:
        return report_failures([failure], args.json)
    except Trouble as trouble:
        return report_trouble(trouble, args.json)
    except OSError:
        raise
    except MemoryError:
        return report_trouble(Trouble("not enough memory", status=1), args.json)
    except Exception as error:
        if os.environ.get("PULLBACK_TRACEBACK"):
            raise
        what = f"a fault of pullback itself: {type(error).__name__}: {error}"
        hint = "PULLBACK_TRACEBACK=1 shows where it happened."
        return report_trouble(Trouble(what, status=1, hint=hint, code="internal"), args.json)


def _abandon_output() -> None:
    """Nobody takes what is left to write: without this, Python would try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pullback",
        description="Tensors with gradients that can be trusted and read: its programs as files.",
    )
    parser.add_argument("--version", action="store_true", help="name the versions of what counts")
    parser.add_argument("--json", action="store_true", help="write JSON, for programs")
    parser.set_defaults(work=lambda args: _without_command(parser, args))
    groups = parser.add_subparsers(metavar="ir")
    ir = groups.add_parser(
        "ir",
        help="verify, print, differentiate, run and compare modules",
        description="Work on modules of the static IR. A file may be - for the standard input.",
        epilog="docs/ir.md describes the language and shows every command.",
    )
    ir.set_defaults(work=lambda args: _without_command(ir, args))
    commands = ir.add_subparsers(metavar="command", title="commands")
    for family in COMMANDS:
        family.register(commands)
    return parser


def _without_command(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.version:
        from pullback.cli.version import report_version

        return report_version(args.json)
    parser.print_help(sys.stderr)
    return 2
