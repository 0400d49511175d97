"""The zeta functions of Riemann and Hurwitz, and derivatives of the digamma function."""

from __future__ import annotations

import math

import numpy as np

from pullback.functions.arguments import (
    Tensor,
    apply,
    float_arguments,
    float_node,
    literal_argument,
)
from pullback.functions.special import digamma
from pullback.functions.special import polygamma as polygamma_of_order
from pullback.lazy.operators import node_of
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise.gamma_values import Gamma
from pullback.ops.elementwise.power import Pow
from pullback.ops.elementwise.select import Where
from pullback.ops.elementwise.trigonometric import Sin
from pullback.ops.elementwise.zeta import Zeta
from pullback.special.operands import special
from pullback.typing import ArrayLike


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Tensor:
    """Return the Hurwitz zeta function: the sum of (q + k)**-x over k = 0, 1, 2, ...

    It is defined for x > 1. Without q it is Riemann's zeta function, whose q is 1, for every x. It
    has derivatives with respect to both arguments.

    >>> round(pb.special.zeta(2.0).item(), 4)
    1.6449
    >>> round(pb.special.zeta(2.0, 2.0).item(), 4)
    0.6449
    """
    if q is None:
        return _reflected_zetas(wrap(float_node(x)))
    first, second = map(wrap, float_arguments(x, q))
    outside = first < literal_argument(1, first.dtype)
    made = special("zeta", Zeta(0), first, second)
    return apply(Where, outside._node, literal_argument(math.nan, first.dtype)._node, node_of(made))


def _reflected_zetas(x: Tensor) -> Tensor:
    """Continue to x < 0 by the functional equation."""

    def c(value: float) -> Tensor:
        return literal_argument(value, x.dtype)

    left = x < c(0)
    right = special("zeta", Zeta(0), apply(Where, left._node, node_of(c(1) - x), node_of(x)), c(1))
    below = apply(Where, left._node, node_of(x), c(-0.5)._node)  # where it is not used
    turn = apply(Sin, node_of(below * c(math.pi / 2)))
    scale = apply(Pow, c(2 * math.pi)._node, node_of(below)) * c(1 / math.pi)
    mirrored = scale * turn * apply(Gamma, node_of(c(1) - below)) * right
    return apply(Where, left._node, node_of(mirrored), node_of(right))


def polygamma(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the derivative of `digamma` of the order `n`, which may be a tensor of integers.

    >>> round(pb.special.polygamma(1, 1.0).item(), 4)
    1.6449
    >>> pb.special.polygamma([0, 1], [1.0, 2.0]).numpy().round(4)
    array([-0.5772,  0.6449], dtype=float32)
    """
    if np.ndim(n) == 0:  # type: ignore[arg-type]  # tensors have a rank too
        return polygamma_of_order(n, x)  # type: ignore[arg-type]  # it checks for an integer
    orders, y = map(wrap, float_arguments(x, n)[::-1])
    one = literal_argument(1, y.dtype)
    sign = apply(Where, node_of(orders % 2 == 0), node_of(-one), node_of(one))
    above = sign * special("polygamma", Gamma(), orders + one) * zeta(orders + one, y)
    return apply(Where, node_of(orders == 0), node_of(digamma(y)), node_of(above))


__all__ = ["polygamma", "zeta"]
