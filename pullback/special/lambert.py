"""Lambert's W function."""

from __future__ import annotations

from pullback.errors import ArgumentError
from pullback.functions.arguments import Tensor, checked_integer_argument
from pullback.ops.elementwise.lambert import LambertW
from pullback.special.operands import special
from pullback.typing import ArrayLike


def lambertw(z: ArrayLike, k: int = 0) -> Tensor:
    """Return the real solution w of w * exp(w) = z: that of -1 or more (k = 0), or that of -1 or
    less (k = -1), which exists for -1/e <= z < 0. NaN where there is none.

    >>> round(pb.special.lambertw(1.0).item(), 5)
    0.56714
    """
    branch = checked_integer_argument("special.lambertw", k, "k")
    if branch not in (0, -1):
        message = f"k must be 0 or -1, the branches with real values, got {k}"
        raise ArgumentError(message, op="special.lambertw")
    return special("lambertw", LambertW(branch), z)


__all__ = ["lambertw"]
