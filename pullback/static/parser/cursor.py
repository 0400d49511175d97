"""A cursor over the tokens, with the parts that all rules of the grammar share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pullback.errors import TextPosition
from pullback.static.parser.tokens import Tokens, shown_token

DEPTH = 64  # the deepest nesting of lists, graphs and applied words
START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NUMBER = frozenset("0123456789.+-")


class Cursor:
    """A position in the tokens; `at` is the next token, and `line` its line."""

    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.words = self.tokens.words
        self.at, self.line, self.depth = 0, 1, 0
        self.indents = [len(line) - len(line.lstrip(" \t\r")) for line in text.split("\n")]

    def fail(self, wanted: str) -> NoReturn:
        self.tokens.fail(self.at, f"{wanted} expected, got {shown_token(self.words[self.at])}")

    def expect(self, word: str) -> None:
        if self.words[self.at] != word:
            self.fail(f"`{word}`")
        self.at += 1

    def skip(self) -> None:
        """Skip line ends, which do not count inside brackets."""
        while self.words[self.at] == "\n":
            self.at += 1
            self.line += 1

    def word(self, wanted: str) -> str:
        found = self.words[self.at]
        if found[:1] not in START or found[-1] == ">":
            self.fail(wanted)
        self.at += 1
        return found

    def identity(self) -> int:
        """Read `%7`."""
        found = self.words[self.at]
        if len(found) < 2 or found[0] != "%":
            self.fail("a value")
        if len(found) > 19:
            self.tokens.fail(self.at, "the number of a value has at most 18 digits", "E1005")
        self.at += 1
        return int(found[1:])

    def integer(self) -> int:
        made = self.tokens.number(self.at) if self.is_number(self.words[self.at]) else None
        if type(made) is not int:
            self.fail("an integer")
        self.at += 1
        return made

    @staticmethod
    def is_number(word: str) -> bool:
        return word[:1] in _NUMBER and (len(word) > 1 or word.isdigit())

    def listed(self, item: Callable[[], Any], close: str) -> list:
        """Read items separated by commas up to `close`; a trailing comma is allowed."""
        made = []
        self.skip()
        while self.words[self.at] != close:
            made.append(item())
            self.skip()
            if self.words[self.at] != ",":
                break
            self.at += 1
            self.skip()
        self.expect(close)
        return made

    def enter(self) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            self.tokens.fail(self.at, f"lists and graphs may nest at most {DEPTH} deep", "syntax")

    def place(self) -> TextPosition:
        """The place of the next token; the first token of a line needs no search."""
        at, line = self.at, self.line
        if at == 0 or self.words[at - 1] == "\n":
            return TextPosition(line, self.indents[line - 1] + 1)
        return self.tokens.place(at)
