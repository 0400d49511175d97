"""Modified Bessel functions of the second kind, of integer order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.ops.elementwise import bessel_tables as tables
from pullback.ops.elementwise.bessel import BesselFunction, bessel_recurrence, bessel_series
from pullback.ops.elementwise.functions import equal, less, where
from pullback.ops.elementwise.series import chebyshev_series
from pullback.ops.elementwise.special_base import SpecialFunction
from pullback.ops.prelude import Node, Text, op_functions

exp, log, sqrt = op_functions("Exp", "Log", "Sqrt")
minimum, maximum = op_functions("Minimum", "Maximum")
FAR_K = 1.0  # where the asymptotic expansions take over
SERIES_TERMS = 12  # of I0 and I1 up to there


class BesselK(BesselFunction):
    """The modified Bessel function of the second kind, of integer order 0 or more; `scaled` by
    exp(x). Infinite at 0, NaN for x < 0."""

    order: int
    scaled: bool
    text = Text(("order", "scaled"))
    points = ((0.2, 0.9, 1.1, 2.7, 11.0),)

    def expand(self, x: Node) -> Node:
        pair = bessel_k_pair(maximum(x, 0), self.scaled)
        made = bessel_recurrence(self.order, -x, *pair, minus=False)
        made = where(equal(x, 0), np.inf, where(equal(x, np.inf), 0, made))
        return where(less(x, 0), np.nan, made)

    def partials(self, out: Node, x: Node) -> tuple:
        n, scaled = self.order, self.scaled

        def slope() -> Node:
            if n == 0:
                return -(BesselKGap()(x) if scaled else BesselK(1, False)(x))
            if n == 1 and scaled:
                return BesselKGap()(x) - out / x
            fall = -(BesselK(n - 1, scaled)(x) + out / x * n)
            return fall + out if scaled else fall

        return (slope,)

    @classmethod
    def samples(cls) -> Any:
        for order, scaled in ((0, False), (1, True), (3, False)):
            yield cls(order, scaled), tuple([np.array(p) for p in cls.points])


class BesselKGap(SpecialFunction):
    """exp(x) (K1(x) - K0(x)), without cancellation for large x."""

    points = ((0.2, 0.9, 1.1, 2.7, 11.0),)

    def expand(self, x: Node) -> Node:
        first, second = bessel_k_pair(minimum(x, FAR_K), True)
        high = maximum(x, FAR_K)
        far = chebyshev_series(tables.K_GAP_FAR, 2 * FAR_K / high - 1) / (high * sqrt(high))
        return where(less(x, FAR_K), second - first, far)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: 2 * out - BesselK(1, True)(x) / x,)


def bessel_k_pair(x: Node, scaled: bool) -> tuple[Node, Node]:
    """Return K0 and K1 of x >= 0, scaled by exp(x) or not."""
    low, high = minimum(x, FAR_K), maximum(x, FAR_K)
    lift, variable = log(low) - math.log(2), low * low * 2 - 1
    i0, i1 = (bessel_series(n, low, 1, SERIES_TERMS) for n in (0, 1))
    near = [
        chebyshev_series(tables.K0_NEAR, variable) - lift * i0,
        chebyshev_series(tables.K1_NEAR, variable) / low + lift * i1,
    ]
    variable = 2 * FAR_K / high - 1
    far = [chebyshev_series(c, variable) / sqrt(high) for c in (tables.K0_FAR, tables.K1_FAR)]
    if scaled:
        near = [v * exp(low) for v in near]
    else:
        far = [v * exp(-high) for v in far]
    is_near = less(x, FAR_K)
    return where(is_near, near[0], far[0]), where(is_near, near[1], far[1])
