"""Special functions: the error function and the gamma function, with their relatives."""

from __future__ import annotations

from pullback.errors import ArgumentError
from pullback.functions.arguments import Tensor, checked_integer_argument, float_node, record_as
from pullback.functions.function_factory import UnaryFunction, float_unary
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.record import record
from pullback.ops.elementwise.error_functions import Erf, Erfc, ErfInv
from pullback.ops.elementwise.lgamma_digamma import LARGEST_ORDER, Digamma, Lgamma, Polygamma
from pullback.ops.elementwise.sinc import Sinc
from pullback.typing import ArrayLike

erf: UnaryFunction = float_unary("erf", Erf, "Error function of each element.", "0.0 -> 0.0")
erfc: UnaryFunction = float_unary("erfc", Erfc, "1 - erf(x), accurate for large x.", "0.0 -> 1.0")
erfinv: UnaryFunction = float_unary(
    "erfinv", ErfInv, "Inverse of the error function.", "0.0 -> 0.0"
)
lgamma: UnaryFunction = float_unary(
    "lgamma", Lgamma, "Logarithm of the absolute value of the gamma function.", "5.0 -> 3.178..."
)
digamma: UnaryFunction = float_unary(
    "digamma", Digamma, "Derivative of `lgamma`.", "1.0 -> -0.577..."
)


@with_argument_checks
def polygamma(order: int, x: ArrayLike) -> Tensor:
    """Return the derivative of `digamma` of the given order, from 0 to 120.

    >>> round(pb.polygamma(1, 1.0).item(), 4)
    1.6449
    """
    n = checked_integer_argument("polygamma", order, "order")
    if not 0 <= n <= LARGEST_ORDER:
        what = f"order must be between 0 and {LARGEST_ORDER}, got {n}"
        raise ArgumentError(what, op="polygamma")
    return record(Polygamma(n) if n else Digamma(), (float_node(x),))


def sinc(x: ArrayLike) -> Tensor:
    """Return sin(pi x) / (pi x), 1 at 0 and exactly 0 at other integers.

    >>> pb.sinc([0.0, 1.0]).tolist()
    [1.0, 0.0]
    """
    return record_as("sinc", Sinc(0), float_node(x))


__all__ = ["digamma", "erf", "erfc", "erfinv", "lgamma", "polygamma", "sinc"]
