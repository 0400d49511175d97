"""Error functions and the normal distribution."""

from __future__ import annotations

import math

from pullback.functions.arguments import Tensor, float_node, literal_argument
from pullback.functions.function_factory import float_unary
from pullback.functions.special import erf, erfc, erfinv
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise import normal_functions as ops
from pullback.ops.elementwise.error_functions import Erfcx
from pullback.special.operands import special
from pullback.typing import ArrayLike

erfcx = float_unary(
    "erfcx", Erfcx, "exp(x**2) erfc(x), the scaled complementary error function.", "0.0 -> 1.0"
)
ndtr = float_unary(
    "ndtr", ops.NormalCdf, "Distribution function of the standard normal distribution.",
    "0.0 -> 0.5",
)  # fmt: skip
ndtri = float_unary(
    "ndtri", ops.NormalQuantile, "Inverse of `ndtr`; infinite at 0 and 1, NaN beyond.",
    "[0.5, 1.0] -> [0.0, inf]",
)  # fmt: skip
log_ndtr = float_unary(
    "log_ndtr", ops.LogNormalCdf, "Logarithm of `ndtr`, also where that underflows.",
    "-40.0 -> -804.608...",
)  # fmt: skip


def erfcinv(y: ArrayLike) -> Tensor:
    """Return the inverse of `erfc`; infinite at 0 and 2, NaN beyond.

    >>> pb.special.erfcinv([1.0, 0.0]).tolist()
    [0.0, inf]
    """
    a = wrap(float_node(y))
    quantile = special("erfcinv", ops.NormalQuantile(), a * literal_argument(0.5, a.dtype))
    return literal_argument(0, a.dtype) - literal_argument(math.sqrt(0.5), a.dtype) * quantile


__all__ = ["erf", "erfc", "erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri"]
