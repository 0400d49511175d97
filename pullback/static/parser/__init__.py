"""The parser of the text form; docs/ir.md has the grammar."""

from pullback.static.parser.parser import parse

__all__ = ["parse"]
