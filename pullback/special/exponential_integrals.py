"""Exponential integrals."""

from __future__ import annotations

from pullback.errors import ArgumentError
from pullback.functions.arguments import Tensor, float_node, integer
from pullback.functions.exponentials import exp
from pullback.graph.arguments import validated
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise.exponential_integral import ExpIntegral
from pullback.special.operands import special
from pullback.typing import ArrayLike

_LARGEST_ORDER = 20


def exp1(z: ArrayLike) -> Tensor:
    """Return the integral of exp(-t) / t from z to infinity, for z >= 0.

    >>> round(pb.special.exp1(1.0).item(), 4)
    0.2194
    """
    return special("exp1", ExpIntegral(1), z)


@validated
def expn(n: int, x: ArrayLike) -> Tensor:
    """Return the integral of exp(-x * t) / t**n over t from 1 to infinity, for x >= 0.

    The order n is an integer from 0 to 20.

    >>> round(pb.special.expn(2, 1.0).item(), 4)
    0.1485
    """
    order = integer("special.expn", n, "n")
    if not 0 <= order <= _LARGEST_ORDER:
        what = f"n must be between 0 and {_LARGEST_ORDER}, got {order}"
        raise ArgumentError(what, op="special.expn")
    if order:
        return special("expn", ExpIntegral(order), x)
    a = wrap(float_node(x))
    return exp(-a) / a


__all__ = ["exp1", "expn"]
