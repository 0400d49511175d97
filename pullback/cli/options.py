"""Options and parsers that several commands share."""

from __future__ import annotations

import argparse
from typing import Any

from pullback.static.profiles import PROFILES

FILE, FILES = "a module, or - for the standard input", "modules; - is the standard input"


def command_with_options(
    commands: Any, name: str, work: Any, help: str, more: str = "", file: str = "", files: str = ""
) -> Any:
    """Add a command that calls `work`; `more` follows `help` in its description.

    `file` or `files` is the help for its argument, one file or several.
    """
    description = f"{help[0].upper()}{help[1:]}.{more and f' {more}'}"
    parser = commands.add_parser(name, help=help, description=description)
    # Without the option here, the value of the same option before the command is kept.
    json_help, unset = "write JSON, for programs", argparse.SUPPRESS
    parser.add_argument("--json", action="store_true", default=unset, help=json_help)
    if file or files:
        parser.add_argument("file", nargs="+" if files else None, help=file or files)
    parser.set_defaults(work=work)
    return parser


def profile_option(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--profile", choices=PROFILES, help=help)


def engine_option(parser: argparse.ArgumentParser) -> None:
    help = "xla (the default) or reference; xla:cuda selects a platform"
    parser.add_argument("--engine", help=help)


def natural_option(text: str) -> int:
    """Parse 0, 1, 2 ..."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be 0 or a positive integer, got {text}")
    return int(text)


def seconds_option(text: str) -> float:
    """Parse a positive number."""
    try:
        made = float(text)
    except ValueError:
        made = 0.0
    if not made > 0:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text}")
    return made
