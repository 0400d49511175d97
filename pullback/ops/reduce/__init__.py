"""Reductions over axes."""

from pullback.ops.reduce import extrema, reductions, softmax  # noqa: F401
