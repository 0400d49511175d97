"""What the parsers of the commands have in common."""

from __future__ import annotations

import argparse
from typing import Any

from pullback.static.profiles import PROFILES


def profile_option(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--profile", choices=PROFILES, help=help)


def natural(text: str) -> int:
    """0, 1, 2 ..."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be 0 or a positive integer, got {text}")
    return int(text)


def seconds(text: str) -> float:
    """A positive number."""
    try:
        made = float(text)
    except ValueError:
        made = 0.0
    if not made > 0:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text}")
    return made


def command(commands: Any, name: str, work: Any, help: str, **rest: Any) -> argparse.ArgumentParser:
    """A command's parser, with the option that all have."""
    parser = commands.add_parser(name, help=help, description=rest.pop("description", help), **rest)
    # Its absence must not undo the same option before the command.
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="write JSON, for programs"
    )
    parser.set_defaults(work=work)
    return parser
