"""Tokens of the text form, found by one regular expression.

For speed, the parser gets only the texts of tokens; their places are computed for errors alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import NoReturn

from pullback.errors import ParseError, TextPosition

# The patterns do not backtrack, so the time is linear. A malformed number or an unclosed string is
# one token, which the parser reports. The last token is empty.
TOKEN = re.compile(
    r"""(?: [ \t\r]++ | \#[^\n]*+ )*+
    ( \n
    | %[0-9]+
    | Tensor<[a-z0-9]+,\ \[[0-9,\ ]*\]>
    | [A-Za-z_][A-Za-z0-9_]*
    | [+-]?\.?[0-9] (?: [A-Za-z0-9_.] | (?<=[eE])[+-] )*
    | [+-](?:inf|nan)
    | "(?: [^"\\\n]++ | \\. )*+"?
    | [^ ]
    | \Z )""",
    re.VERBOSE,
)
_PUNCTUATION = frozenset("=(){}[]:,<>;?%+-")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"'}
_ESCAPE = re.compile(r"\\(.)")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIGITS = 1000  # more than any 64-bit number needs


class Tokens:
    """The tokens of a text and their places."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[str] = TOKEN.findall(text)

    @cached_property
    def offsets(self) -> list[int]:
        return [match.start(1) for match in TOKEN.finditer(self.text)]

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line."""
        return [0, *[match.end() for match in re.finditer("\n", self.text)]]

    def place(self, index: int, inside: int = 0) -> TextPosition:
        """The line and column of a token, or of a character inside it."""
        offset = self.offsets[index] + inside
        line = bisect_right(self.starts, offset)
        return TextPosition(line, offset - self.starts[line - 1] + 1)

    def fail(self, index: int, message: str, code: str | None = None, inside: int = 0) -> NoReturn:
        """Raise an error at a token; an invalid token is reported instead."""
        wrong = None if code else _invalid_token(self.words[index])
        if wrong is not None:
            code, message = wrong
        line, column = self.place(index, inside)
        source = self.text.split("\n")[line - 1].rstrip("\r")
        raise ParseError(message, line=line, column=column, source=source, code=code)

    def string(self, index: int) -> str:
        """The value of a string token."""
        word = self.words[index]
        if len(word) < 2 or word[-1] != '"' or _invalid_token(word):
            self.fail(index, "the string is not closed before the end of the line", "E1003")
        inner = word[1:-1]
        if "\\" not in inner:
            return inner
        for match in _ESCAPE.finditer(inner):
            if match[1] not in _ESCAPES:
                what = f'invalid escape \\{match[1]}; valid are \\n \\r \\t \\\\ \\"'
                self.fail(index, what, "E1004", match.start() + 1)
        return _ESCAPE.sub(lambda m: _ESCAPES[m[1]], inner)

    def number(self, index: int) -> int | float:
        """The value of a number token: an integer of 64 bits, or a float."""
        word = self.words[index]
        if _INTEGER.fullmatch(word) and len(word) <= _DIGITS:
            value = int(word)
            if -(1 << 63) <= value < 1 << 64:
                return value
            self.fail(index, "an integer must fit 64 bits", "E1005")
        if len(word) > _DIGITS or not _FLOAT.fullmatch(word):
            self.fail(index, f"not a number: {shown_token(word)}", "E1005")
        made = float(word)
        if made in (float("inf"), float("-inf")):
            self.fail(index, f"a number must be finite in f64, got {shown_token(word)}", "E1005")
        return made


def shown_token(word: str) -> str:
    """A token as messages show it."""
    if word in ("", "\n"):
        return "the end of the line" if word else "the end of the text"
    return f"`{word}`" if len(word) <= 40 else f"`{word[:37]}...`"


def _invalid_token(word: str) -> tuple[str, str] | None:
    """The error code and message for an invalid token."""
    first = word[:1]
    if first == '"':
        closed = len(re.fullmatch(r'"(?:[^"\\]++|\\.)*+("?)', word)[1])  # type: ignore[index]
        return None if closed else ("E1003", "the string is not closed before the end of the line")
    known = first.isascii() and (first.isalnum() or first in _PUNCTUATION or first in "\n_")
    return ("E1002", f"invalid character {first!r}") if len(word) == 1 and not known else None
