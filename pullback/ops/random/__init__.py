"""Random numbers as functions of keys, the same in every engine to the last bit."""

from pullback.ops.random import (
    affine,
    bits,
    discrete,
    gamma,
    gamma_slope,
    sampling,
    threefry,
    truncated,
)

__all__ = [
    "affine", "bits", "discrete", "gamma", "gamma_slope", "sampling", "threefry", "truncated",
]  # fmt: skip
