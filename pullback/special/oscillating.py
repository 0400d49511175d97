"""Sine and cosine integrals, and the integrals of Fresnel."""

from __future__ import annotations

from pullback.functions.arguments import Tensor
from pullback.ops.elementwise.oscillating_integrals import (
    CosineIntegral,
    FresnelIntegral,
    SineIntegral,
)
from pullback.special.operands import special
from pullback.typing import ArrayLike


def sici(x: ArrayLike) -> tuple[Tensor, Tensor]:
    """Return the sine integral, of sin(t) / t from 0 to x, and the cosine integral, of -cos(t) / t
    from x to infinity; of that for x < 0, the real part.

    >>> [round(y.item(), 4) for y in pb.special.sici(1.0)]
    [0.9461, 0.3374]
    """
    return special("sici", SineIntegral(), x), special("sici", CosineIntegral(), x)


def fresnel(z: ArrayLike) -> tuple[Tensor, Tensor]:
    """Return the integrals of sin(pi t**2 / 2) and of cos(pi t**2 / 2) from 0 to z.

    >>> [round(y.item(), 4) for y in pb.special.fresnel(1.0)]
    [0.4383, 0.7799]
    """
    sine, cosine = (special("fresnel", FresnelIntegral(c), z) for c in (False, True))
    return sine, cosine


__all__ = ["fresnel", "sici"]
