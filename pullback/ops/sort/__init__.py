"""Sorting along an axis."""

from pullback.ops.sort import sort  # noqa: F401
