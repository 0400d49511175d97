"""Options and parsers that several commands share."""

from __future__ import annotations

import argparse
from typing import Any

from pullback.static.profiles import PROFILES

FILE = "a module, or - for the standard input"


def command(commands: Any, name: str, work: Any, help: str, more: str = "") -> Any:
    """Add a command that calls `work`; `more` follows `help` in its description."""
    description = f"{help[0].upper()}{help[1:]}.{more and f' {more}'}"
    parser = commands.add_parser(name, help=help, description=description)
    # Without the option here, the value of the same option before the command is kept.
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="write JSON, for programs"
    )
    parser.set_defaults(work=work)
    return parser


def profile_option(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--profile", choices=PROFILES, help=help)


def engine_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", help="xla (the default) or reference; xla:cuda selects a platform"
    )


def natural(text: str) -> int:
    """Parse 0, 1, 2 ..."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be 0 or a positive integer, got {text}")
    return int(text)


def seconds(text: str) -> float:
    """Parse a positive number."""
    try:
        made = float(text)
    except ValueError:
        made = 0.0
    if not made > 0:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text}")
    return made
