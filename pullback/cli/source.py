"""Where modules come from: files, and the standard input."""

from __future__ import annotations

import sys
from functools import cached_property

from pullback.static.module import Module
from pullback.static.parser import parse


class Trouble(Exception):
    """What keeps a command from its work and is no module's fault: a missing file, say."""

    def __init__(
        self, message: str, *, status: int = 2, hint: str | None = None, code: str = "usage"
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.hint, self.code = message, status, hint, code


class Source:
    """The bytes of a module, and the name that messages give them."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data

    @classmethod
    def read(cls, path: str) -> Source:
        try:
            if path == "-" and sys.stdin is None:
                raise Trouble("cannot read the standard input: it is closed")
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
        lines = self.data.decode("utf-8-sig", "replace").split("\n")
        return lines[number - 1].rstrip("\r") if number <= len(lines) else ""
