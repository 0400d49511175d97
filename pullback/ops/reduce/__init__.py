"""Reductions over axes."""

from pullback.ops.reduce import extrema, reductions, softmax

__all__ = ["extrema", "reductions", "softmax"]
