"""Cumulative ops: the combination of all elements up to each one, along an axis."""

from pullback.ops.cumulative import cumulative, extrema  # noqa: F401
