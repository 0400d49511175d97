"""Random numbers as functions of keys, the same in every engine to the last bit."""

from pullback.ops.random import affine, bits, counts, discrete, exact, gamma, sampling  # noqa: F401
