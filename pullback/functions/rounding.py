"""Rounding to integers."""

from pullback.functions.factory import UnaryFunction, unary
from pullback.ops.elementwise.rounding import Ceil, Floor, Round, Trunc

floor: UnaryFunction = unary(
    "floor", Floor, "Largest integer not above each element.", "[1.7, -1.2] -> [1.0, -2.0]"
)
ceil: UnaryFunction = unary(
    "ceil", Ceil, "Smallest integer not below each element.", "[1.2, -1.7] -> [2.0, -1.0]"
)
round: UnaryFunction = unary(
    "round", Round, "Nearest integer; halves are rounded to the even one.",
    "[0.5, 1.5, 2.4] -> [0.0, 2.0, 2.0]",
)  # fmt: skip
trunc: UnaryFunction = unary(
    "trunc", Trunc, "Each element without its fraction.", "[1.7, -1.7] -> [1.0, -1.0]"
)

__all__ = ["ceil", "floor", "round", "trunc"]
