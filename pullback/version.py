"""The version of pullback."""

__version__ = "0.1.0"
