"""Convolutions, and reductions over sliding windows."""

from pullback.ops.conv import conv2d, convolution, window_extrema, window_reduce  # noqa: F401
