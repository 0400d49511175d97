"""Sums of powers and of Chebyshev polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pullback.ops.elementwise.functions import both, greater, less, where
from pullback.ops.prelude import Node, constant_node, op_functions

# (atanh(r) / r - 1) / r**2 as a polynomial in r**2, for |r| <= 1/3
ATANH_REST = (
    0.3333333333333333, 0.1999999999999976, 0.1428571428580071, 0.11111111099035531,
    0.09090909954214577, 0.07692271793624882, 0.06667593442767027, 0.05867083931047704,
    0.054230401748138014, 0.037440533573059064, 0.0781911746712093,
)  # fmt: skip

(log1p,) = op_functions("Log1p")


def horner_series(coefficients: Sequence[float], x: Node) -> Node:
    """Evaluate the polynomial with these coefficients, constant first."""
    *rest, last = coefficients
    made = constant_node(last, x.type.dtype)
    for c in reversed(rest):
        made = made * x + c
    return made


def chebyshev_series(coefficients: Sequence[float], x: Node) -> Node:
    """Evaluate a sum of Chebyshev polynomials at x in [-1, 1] by Clenshaw's recurrence."""
    first, *rest = coefficients
    ahead = after = constant_node(0, x.type.dtype)
    for c in reversed(rest):
        ahead, after = x * 2 * ahead - after + c, ahead
    return x * ahead - after + first


class RationalSeries(NamedTuple):
    """A quotient of polynomials, constant coefficients first."""

    above: Sequence[float]
    below: Sequence[float]

    def at(self, x: Node) -> Node:
        """Return its value."""
        return horner_series(self.above, x) / horner_series(self.below, x)


def log1p_minus_series(x: Node) -> Node:
    """Return log(1 + x) - x, without cancellation near 0."""
    ratio = x / (x + 2)  # log(1 + x) is 2 atanh(ratio), and 2 ratio - x is -ratio x
    square = ratio * ratio
    near = ratio * (square * 2 * horner_series(ATANH_REST, square) - x)
    return where(both(greater(x, -0.5), less(x, 1)), near, log1p(x) - x)


def exp_series(x: Node, factor: float = 1.0) -> Node:
    """Return factor * exp(x) for |x| < 0.05, by its power series."""
    return horner_series([factor / math.factorial(k) for k in range(9)], x)
