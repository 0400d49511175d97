"""Exponentials and logarithms."""

from __future__ import annotations

import math

from pullback.functions.arguments import Tensor, float_arguments
from pullback.functions.composed import composed
from pullback.functions.function_factory import (
    BinaryFunction,
    UnaryFunction,
    float_binary_function,
    float_unary,
)
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise import exponential as ops
from pullback.typing import ArrayLike

exp: UnaryFunction = float_unary(
    "exp", ops.Exp, "e raised to the power of each element.", "0.0 -> 1.0"
)
exp2: UnaryFunction = float_unary(
    "exp2", ops.Exp2, "2 raised to the power of each element.", "3.0 -> 8.0"
)
expm1: UnaryFunction = float_unary("expm1", ops.Expm1, "exp(x) - 1, accurate near 0.", "0.0 -> 0.0")
log: UnaryFunction = float_unary("log", ops.Log, "Natural logarithm of each element.", "1.0 -> 0.0")
log1p: UnaryFunction = float_unary("log1p", ops.Log1p, "log(1 + x), accurate near 0.", "0.0 -> 0.0")
log2: UnaryFunction = float_unary(
    "log2", ops.Log2, "Base-2 logarithm of each element.", "8.0 -> 3.0"
)
log10: UnaryFunction = float_unary(
    "log10", ops.Log10, "Base-10 logarithm of each element.", "1.0 -> 0.0"
)
logaddexp: BinaryFunction = float_binary_function(
    "logaddexp", ops.LogAddExp, "log(exp(x1) + exp(x2)), without overflow.", "0.0, 0.0 -> 0.6931..."
)
logistic = float_unary(
    "logistic", ops.Logistic, "1 / (1 + exp(-x)), without overflow.", "0.0 -> 0.5"
)


@composed
def logaddexp2(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return log2(2**x1 + 2**x2), without overflow.

    >>> pb.logaddexp2(3.0, 3.0).item()
    4.0
    """
    a, b = map(wrap, float_arguments(x1, x2))
    return logaddexp(a * math.log(2), b * math.log(2)) * (1 / math.log(2))


__all__ = [
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "logistic",
]  # fmt: skip
