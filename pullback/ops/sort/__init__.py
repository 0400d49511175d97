"""Sorting along an axis."""

from pullback.ops.sort import sort

__all__ = ["sort"]
