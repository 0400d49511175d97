"""Normalisation of transforms."""

from __future__ import annotations

import math

from pullback.errors import ArgumentError
from pullback.functions.arguments import literal_argument
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.tensor import Tensor

NORMS = ("backward", "ortho", "forward")


def fft_norm(op: str, norm: str | None) -> str:
    """Return the direction that is divided by the number of elements; None is "backward"."""
    if norm is None:
        return "backward"
    if norm not in NORMS:
        what = f'norm must be "backward", "ortho" or "forward", got {shown_argument(norm)}'
        raise ArgumentError(what, op=op)
    return norm


def opposite_fft_norm(norm: str) -> str:
    """Return the norm with which a transform in the other direction has the same scale."""
    return {"backward": "forward", "forward": "backward"}.get(norm, norm)


def scaled_by_fft_norm(x: Tensor, norm: str, size: int, inverse: bool = False) -> Tensor:
    """Scale a transform over `size` elements, which is normalised if it is inverse."""
    powers = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}
    power = powers[norm] if inverse else -powers[norm]
    if power == 0 or size == 1:
        return x
    factor = math.sqrt(size) if abs(power) == 0.5 else float(size)
    return x * literal_argument(factor if power > 0 else 1 / factor, x.dtype)
