"""Special functions: the inverse error function, and those around the gamma function."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import apply, float_node, integer
from pullback.graph.table import TABLE
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor


def erfinv(x: Any) -> Tensor:
    """The number whose error function is x.

    >>> import pullback as pb
    >>> round(pb.erfinv(pb.erf(0.5)).item(), 5)
    0.5
    """
    return apply("ErfInv", float_node(x))


def lgamma(x: Any) -> Tensor:
    """The logarithm of the absolute value of the gamma function.

    >>> import pullback as pb
    >>> round(pb.exp(pb.lgamma(5.0)).item(), 3)
    24.0
    """
    return apply("Lgamma", float_node(x))


def digamma(x: Any) -> Tensor:
    """The derivative of `lgamma`.

    >>> import pullback as pb
    >>> round(pb.digamma(1.0).item(), 4)
    -0.5772
    """
    return apply("Digamma", float_node(x))


def polygamma(order: int, x: Any) -> Tensor:
    """The derivative of `digamma` of the given order.

    >>> import pullback as pb
    >>> round(pb.polygamma(1, 1.0).item(), 4)
    1.6449
    """
    return record(TABLE["Polygamma"](integer("polygamma", order, "an order")), (float_node(x),))
