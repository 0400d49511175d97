"""Trigonometric and hyperbolic functions."""

from pullback.functions.factory import UnaryFunction, float_binary, float_unary
from pullback.ops.elementwise import trigonometric
from pullback.ops.elementwise.plane import Atan2

sin: UnaryFunction = float_unary("sin", trigonometric.Sin, "Sine of each element.", "0.0 -> 0.0")
cos: UnaryFunction = float_unary("cos", trigonometric.Cos, "Cosine of each element.", "0.0 -> 1.0")
tan = float_unary("tan", trigonometric.Tan, "Tangent of each element.", "0.0 -> 0.0")
asin = float_unary("asin", trigonometric.Asin, "Inverse sine of each element.", "0.0 -> 0.0")
acos = float_unary("acos", trigonometric.Acos, "Inverse cosine of each element.", "1.0 -> 0.0")
atan = float_unary("atan", trigonometric.Atan, "Inverse tangent of each element.", "0.0 -> 0.0")
sinh = float_unary("sinh", trigonometric.Sinh, "Hyperbolic sine of each element.", "0.0 -> 0.0")
cosh = float_unary("cosh", trigonometric.Cosh, "Hyperbolic cosine of each element.", "0.0 -> 1.0")
tanh: UnaryFunction = float_unary(
    "tanh", trigonometric.Tanh, "Hyperbolic tangent of each element.", "0.0 -> 0.0"
)
asinh = float_unary(
    "asinh", trigonometric.Asinh, "Inverse hyperbolic sine of each element.", "0.0 -> 0.0"
)
acosh = float_unary(
    "acosh", trigonometric.Acosh, "Inverse hyperbolic cosine of each element.", "1.0 -> 0.0"
)
atanh = float_unary(
    "atanh", trigonometric.Atanh, "Inverse hyperbolic tangent of each element.", "0.0 -> 0.0"
)
atan2 = float_binary(
    "atan2", Atan2, "Angle of the point (x2, x1), in (-pi, pi].", "0.0, 1.0 -> 0.0"
)

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan",
    "tanh",
]  # fmt: skip
