"""Ops that rearrange elements without computing on them."""

from pullback.ops.shape import axes, concat_pad, movement, slicing

__all__ = ["axes", "concat_pad", "movement", "slicing"]
