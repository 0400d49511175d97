"""Random numbers as functions of keys, the same in every engine to the last bit."""

from pullback.ops.random import affine, bits, discrete, gamma, sampling, truncated

__all__ = ["affine", "bits", "discrete", "gamma", "sampling", "truncated"]
