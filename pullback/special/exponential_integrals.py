"""Exponential integrals."""

from __future__ import annotations

from pullback.functions.arguments import Tensor, float_node
from pullback.functions.exponentials import exp
from pullback.functions.shape import broadcast_shapes, spread_to_shape
from pullback.functions.where_take import where
from pullback.lazy.record import record_at_one_line
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise.exponential_integral import ExpIntegral, ExpIntegralEi
from pullback.special.operands import special, special_order_operand
from pullback.typing import ArrayLike

_LARGEST_ORDER = 20


def exp1(z: ArrayLike) -> Tensor:
    """Return the integral of exp(-t) / t from z to infinity, for z >= 0.

    >>> round(pb.special.exp1(1.0).item(), 4)
    0.2194
    """
    return special("exp1", ExpIntegral(1), z)


def expi(x: ArrayLike) -> Tensor:
    """Return the integral of exp(t) / t from minus infinity to x, as a principal value for x > 0.

    >>> round(pb.special.expi(1.0).item(), 4)
    1.8951
    """
    return special("expi", ExpIntegralEi(), x)


def expn(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the integral of exp(-x * t) / t**n over t from 1 to infinity, for x >= 0.

    Orders n are integers from 0 to 20, and known numbers: the values of a tensor are read.

    >>> pb.special.expn([1, 2], 1.0).numpy().round(4)
    array([0.2194, 0.1485], dtype=float32)
    """
    orders = special_order_operand("special.expn", n, "n", _LARGEST_ORDER)
    with record_at_one_line():
        x = wrap(float_node(x))
        x = spread_to_shape(x, broadcast_shapes(orders.shape, x.shape))
        wanted = sorted(set(orders.ravel().tolist()))
        made = [_special_exponential_integral(order, x) for order in wanted] or [x]
        for order, value in zip(wanted[1:], made[1:], strict=True):
            made[0] = where(orders == order, value, made[0])
        return made[0]


def _special_exponential_integral(n: int, x: Tensor) -> Tensor:
    return special("expn", ExpIntegral(n), x) if n else exp(-x) / x


__all__ = ["exp1", "expi", "expn"]
