"""Reading the text form: from characters to a Module."""

from pullback.ir.syntax.parser import parse

__all__ = ["parse"]
