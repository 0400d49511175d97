"""Random numbers as functions of keys, the same in every engine to the last bit."""

from pullback.ops.random import affine, bits, discrete, gamma, sampling  # noqa: F401
