"""The command `pullback`: its options, its exit status, and how it ends when it is cut short.

The status is 0 on success, 1 if a module or its run is wrong (or `diff` found a difference), 2 if
the command was used wrongly or a file could not be read or written. The command is silent when
the reader of its output has left (status 141), and ends with 130 when interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import pullback
from pullback.cli import commands, conformance, diagnostics, diff, run
from pullback.cli.diagnostics import CommandDiagnostic, Diagnostic, diagnostic_line
from pullback.engines.environment import environment_variable
from pullback.static.profiles import PROFILES

SPECIFICATION = "Core v1.0 (spec/mind-autodiff)"
# Optional features, and the packages that they need.
OPTIONAL = {"conformance suites in YAML": "PyYAML", "NVIDIA GPUs": "jax-cuda13-plugin"}


def script() -> None:
    """The entry point of the installed command."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  (None if it was closed)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # modules are UTF-8, whatever the locale is
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status; no exception leaves this function."""
    try:
        args = _main_parser().parse_args(argv)
    except SystemExit as end:  # argparse has reported the error, or printed its help
        return int(end.code or 0)
    try:
        status = _main_status(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _abandon_main_output()
        return 141
    except OSError as error:
        _abandon_main_output()
        diagnostic_line(f"cannot write the output: {error.strerror or error}")
        return 2
    except KeyboardInterrupt:
        diagnostic_line("interrupted")
        return 130


def _main_status(args: argparse.Namespace) -> int:
    """Run the command, report errors, return the exit status."""
    try:
        return args.work(args)
    except Diagnostic as failure:
        return diagnostics.report_failed_diagnostics([failure], args.json)
    except CommandDiagnostic as error:
        return diagnostics.report_error_diagnostic(error, args.json)
    except OSError:
        raise
    except MemoryError:
        full = CommandDiagnostic("not enough memory", status=1)
        return diagnostics.report_error_diagnostic(full, args.json)
    except Exception as error:
        if environment_variable("PULLBACK_TRACEBACK", "short") == "full":
            raise
        what = f"an error in pullback itself: {type(error).__name__}: {error}"
        hint = "Set PULLBACK_TRACEBACK=full to see where it happened."
        internal = CommandDiagnostic(what, status=1, hint=hint, code="internal")
        return diagnostics.report_error_diagnostic(internal, args.json)


def _abandon_main_output() -> None:
    """Discard the output that is left; otherwise Python tries to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _main_parser() -> argparse.ArgumentParser:
    purpose = "Verify, differentiate, run and compare pullback's programs as files."
    parser = argparse.ArgumentParser(prog="pullback", description=purpose)
    versions = "show the versions of pullback, Python, NumPy and jaxlib"
    parser.add_argument("--version", action="store_true", help=versions)
    parser.add_argument("--json", action="store_true", help="write JSON, for programs")
    parser.set_defaults(work=lambda args: _main_without_command(parser, args))
    groups = parser.add_subparsers(metavar="ir")
    ir = groups.add_parser(
        "ir", help="verify, print, differentiate, run and compare modules",
        description="Work on modules of the static IR. A file may be - for the standard input.",
        epilog="docs/ir.md describes the language and shows every command.",
    )  # fmt: skip
    ir.set_defaults(work=lambda args: _main_without_command(ir, args))
    names = ir.add_subparsers(metavar="command", title="commands")
    commands.register_commands(names)
    run.register_run(names)
    diff.register_diff(names)
    conformance.register_conformance(names)
    return parser


def _main_without_command(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.version:
        return _report_main_versions(args.json)
    parser.print_help(sys.stderr)
    return 2


def _report_main_versions(as_json: bool) -> int:
    found: dict[str, Any] = {
        "pullback": pullback.__version__, "specification": SPECIFICATION,
        "profiles": list(PROFILES), "python": platform.python_version(),
        "jaxlib": _main_versions("jaxlib"), "numpy": _main_versions("numpy"),
        "optional": {what: _main_versions(package) for what, package in OPTIONAL.items()},
    }  # fmt: skip
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"pullback {found['pullback']}")
    print(f"specification: {SPECIFICATION}; profiles {', '.join(PROFILES)}")
    print(f"Python {found['python']}, jaxlib {found['jaxlib']}, numpy {found['numpy']}")
    for what, package in OPTIONAL.items():
        version = found["optional"][what]
        state = f"{package} {version}" if version else f"no, {package} is not installed"
        print(f"optional: {what}: {state}")
    return 0


def _main_versions(package: str) -> str | None:
    """The version of an installed package, found without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
