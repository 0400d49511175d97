"""Where modules come from: files, and the standard input."""

from __future__ import annotations

import argparse
import sys
from functools import cached_property
from typing import Any

from pullback.ir.module import Module
from pullback.ir.profile import PROFILES
from pullback.ir.syntax import parse


class Source:
    """The bytes of a module, and the name that messages give them."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data

    @classmethod
    def read(cls, path: str) -> Source:
        from pullback.cli.diagnostics import Trouble

        try:
            if path == "-":
                return cls("<stdin>", sys.stdin.buffer.read())
            with open(path, "rb") as file:
                return cls(path, file.read())
        except OSError as error:
            raise Trouble(f"cannot read {path}: {error.strerror or error}") from None

    @cached_property
    def module(self) -> Module:
        return parse(self.data)

    def line(self, number: int) -> str:
        lines = self.data.decode("utf-8", "replace").split("\n")
        return lines[number - 1].rstrip("\r") if number <= len(lines) else ""


def profile_option(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--profile", choices=PROFILES, help=help)


def command(commands: Any, name: str, work: Any, help: str, **rest: Any) -> argparse.ArgumentParser:
    """A command's parser, with the option that all have."""
    parser = commands.add_parser(name, help=help, description=rest.pop("description", help), **rest)
    # Its absence must not undo the same option before the command.
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="write JSON, for programs"
    )
    parser.set_defaults(work=work)
    return parser
