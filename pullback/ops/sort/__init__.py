"""Sorting along an axis."""

from pullback.ops.sort import order_statistics, sort  # noqa: F401
