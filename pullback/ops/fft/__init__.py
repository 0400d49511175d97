"""Discrete Fourier transforms."""

from pullback.ops.fft import fourier  # noqa: F401
