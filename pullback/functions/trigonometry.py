"""Trigonometric and hyperbolic functions."""

from pullback.functions.function_factory import (
    BinaryFunction,
    UnaryFunction,
    float_binary_function,
    float_unary,
)
from pullback.ops.elementwise import trigonometric as ops
from pullback.ops.elementwise.hypot_atan2 import Atan2

sin: UnaryFunction = float_unary("sin", ops.Sin, "Sine of each element.", "0.0 -> 0.0")
cos: UnaryFunction = float_unary("cos", ops.Cos, "Cosine of each element.", "0.0 -> 1.0")
tan: UnaryFunction = float_unary("tan", ops.Tan, "Tangent of each element.", "0.0 -> 0.0")
asin: UnaryFunction = float_unary("asin", ops.Asin, "Inverse sine of each element.", "0.0 -> 0.0")
acos: UnaryFunction = float_unary("acos", ops.Acos, "Inverse cosine of each element.", "1.0 -> 0.0")
atan: UnaryFunction = float_unary(
    "atan", ops.Atan, "Inverse tangent of each element.", "0.0 -> 0.0"
)
sinh: UnaryFunction = float_unary(
    "sinh", ops.Sinh, "Hyperbolic sine of each element.", "0.0 -> 0.0"
)
cosh: UnaryFunction = float_unary(
    "cosh", ops.Cosh, "Hyperbolic cosine of each element.", "0.0 -> 1.0"
)
tanh: UnaryFunction = float_unary(
    "tanh", ops.Tanh, "Hyperbolic tangent of each element.", "0.0 -> 0.0"
)
asinh: UnaryFunction = float_unary(
    "asinh", ops.Asinh, "Inverse hyperbolic sine of each element.", "0.0 -> 0.0"
)
acosh: UnaryFunction = float_unary(
    "acosh", ops.Acosh, "Inverse hyperbolic cosine of each element.", "1.0 -> 0.0"
)
atanh: UnaryFunction = float_unary(
    "atanh", ops.Atanh, "Inverse hyperbolic tangent of each element.", "0.0 -> 0.0"
)
atan2: BinaryFunction = float_binary_function(
    "atan2", Atan2, "Angle of the point (x2, x1), in (-pi, pi].", "0.0, 1.0 -> 0.0"
)

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan",
    "tanh",
]  # fmt: skip
