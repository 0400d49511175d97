"""Ops that rearrange elements without computing on them, and iota."""

from pullback.ops.shape import axes, concat_pad, iota, movement, roll, slicing  # noqa: F401
