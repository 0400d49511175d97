"""Complex numbers and their parts."""

from __future__ import annotations

import math

from pullback.functions.composed import composed
from pullback.functions.factory import UnaryFunction, float_binary, float_unary, unary
from pullback.lazy.tensor import Tensor
from pullback.ops.elementwise.complex_parts import Angle, Complex, Conj, Imag, Real
from pullback.typing import ArrayLike

real = unary("real", Real, "Real part of each element.", "1 + 2j -> 1.0")
imag = unary("imag", Imag, "Imaginary part of each element.", "1 + 2j -> 2.0")
conj: UnaryFunction = unary("conj", Conj, "Complex conjugate of each element.", "1 + 2j -> (1-2j)")
_radians = float_unary("angle", Angle, "Angle of each complex number.", "2.0 -> 0.0")
complex = float_binary(
    "complex", Complex, "Complex number with the given real and imaginary parts.",
    "1.0, 2.0 -> (1+2j)",
)  # fmt: skip


@composed
def angle(x: ArrayLike, deg: bool = False) -> Tensor:
    """Angle of each complex number: in (-pi, pi], or in degrees.

    >>> pb.angle(2.0).item(), pb.angle(1j, deg=True).item()
    (0.0, 90.0)
    """
    return _radians(x) * (180 / math.pi) if deg else _radians(x)


__all__ = ["angle", "complex", "conj", "imag", "real"]
