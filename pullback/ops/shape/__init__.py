"""Ops that rearrange elements without computing on them, and iota."""

from pullback.ops.shape import concat_pad, iota, movement, roll, slicing, squeeze_flip_axes  # noqa: F401
