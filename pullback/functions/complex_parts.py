"""Complex numbers and their parts."""

from pullback.functions.factory import UnaryFunction, float_binary, float_unary, unary
from pullback.ops.elementwise.complex_parts import Angle, Complex, Conj, Imag, Real

real = unary("real", Real, "Real part of each element.", "1 + 2j -> 1.0")
imag = unary("imag", Imag, "Imaginary part of each element.", "1 + 2j -> 2.0")
conj: UnaryFunction = unary("conj", Conj, "Complex conjugate of each element.", "1 + 2j -> (1-2j)")
angle: UnaryFunction = float_unary(
    "angle", Angle, "Angle of each complex number, in (-pi, pi].", "2.0 -> 0.0"
)
complex = float_binary(
    "complex", Complex, "Complex number with the given real and imaginary parts.",
    "1.0, 2.0 -> (1+2j)",
)  # fmt: skip

__all__ = ["angle", "complex", "conj", "imag", "real"]
