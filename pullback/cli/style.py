"""How things are shown: colours where a person looks at them, text that no terminal obeys."""

from __future__ import annotations

import os
import shutil
import unicodedata
from typing import TextIO

RED, GREEN, BLUE, BOLD = "31", "32", "34", "1"


class Style:
    """Colours for one stream: none unless it is a terminal, and none if NO_COLOR is set."""

    def __init__(self, stream: TextIO) -> None:
        dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("NO_COLOR"))
        self.colours = stream.isatty() and not dumb

    def __call__(self, text: str, *codes: str) -> str:
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colours and text else text


def terminal_width() -> int:
    return shutil.get_terminal_size((120, 24)).columns


def printable(text: str) -> str:
    """The text with spaces for tabs, and a mark for each character that would not show as one."""
    return "".join([" " if c == "\t" else c if c.isprintable() else "\ufffd" for c in text])


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
               for c in text)  # fmt: skip
