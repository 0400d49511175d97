"""Bessel functions of integer order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.ops.elementwise import bessel_tables as tables
from pullback.ops.elementwise.functions import equal, less, where
from pullback.ops.elementwise.power import IntegerPow
from pullback.ops.elementwise.series import chebyshev_series
from pullback.ops.elementwise.special_base import SpecialFunction
from pullback.ops.prelude import Node, Text, constant_node, op_functions

exp, log, sqrt, sin, cos = op_functions("Exp", "Log", "Sqrt", "Sin", "Cos")
absolute, sign, minimum, maximum = op_functions("Abs", "Sign", "Minimum", "Maximum")
FAR = 5.0  # where the asymptotic expansions of J and Y take over
FAR_I = 8.0  # and those of I


class BesselFunction(SpecialFunction, abstract=True):
    """Derivatives are differences or sums of the neighbouring orders."""

    order: int
    text = Text(("order",))

    @classmethod
    def samples(cls) -> Any:
        for order in (0, 3):
            yield cls(order), tuple([np.array(p) for p in cls.points])


class BesselJ(BesselFunction):
    """The Bessel function of the first kind, of integer order 0 or more."""

    points = ((-1.5, 0.0, 0.3, 2.7, 4.5, 11.0),)

    def expand(self, x: Node) -> Node:
        size = absolute(x)
        pair = bessel_j_pair(size)
        made = bessel_recurrence(self.order, size, *pair, minus=True)
        if self.order > 1:
            made = where(less(size, self.order + 1), bessel_series(self.order, size, -1), made)
        made = where(equal(size, np.inf), 0, made)
        return where(less(x, 0), -made, made) if self.order % 2 else made

    def partials(self, out: Node, x: Node) -> tuple:
        n = self.order
        if n == 0:
            return (lambda: -BesselJ(1)(x),)
        return (lambda: (BesselJ(n - 1)(x) - BesselJ(n + 1)(x)) * 0.5,)


class BesselY(BesselFunction):
    """The Bessel function of the second kind, of integer order 0 or more; NaN for x < 0."""

    points = ((0.3, 1.1, 2.7, 4.5, 11.0),)

    def expand(self, x: Node) -> Node:
        size = maximum(x, 0)
        made = bessel_recurrence(self.order, size, *bessel_y_pair(size), minus=True)
        made = where(equal(x, 0), -np.inf, where(equal(x, np.inf), 0, made))
        return where(less(x, 0), np.nan, made)

    def partials(self, out: Node, x: Node) -> tuple:
        n = self.order
        if n == 0:
            return (lambda: -BesselY(1)(x),)
        return (lambda: (BesselY(n - 1)(x) - BesselY(n + 1)(x)) * 0.5,)


class BesselI(BesselFunction):
    """The modified Bessel function of the first kind, of integer order 0 or more; `scaled` by
    exp(-|x|)."""

    order: int
    scaled: bool
    text = Text(("order", "scaled"))
    points = ((-1.5, 0.2, 2.7, 6.5, 11.0),)

    def expand(self, x: Node) -> Node:
        n, size = self.order, absolute(x)
        pair = bessel_i_pair(size, self.scaled)
        made = bessel_recurrence(n, size, *pair, minus=False)
        if n > 1:
            limit = min(max(FAR_I, n * n), 40)  # the recurrence loses digits below it
            series = bessel_series(n, minimum(size, limit), 1)
            series = series * exp(-size) if self.scaled else series
            made = where(less(size, limit), series, made)
        made = where(equal(size, np.inf), 0 if self.scaled else np.inf, made)
        return where(less(x, 0), -made, made) if n % 2 else made

    def partials(self, out: Node, x: Node) -> tuple:
        def slope() -> Node:
            n = self.order
            if self.scaled and n == 0:
                return -(sign(x) * BesselIGap()(x))
            above = BesselI(n + 1, self.scaled)(x)
            if self.scaled and n == 1:
                return BesselIGap()(x) - bessel_first_over_x(out, x)
            made = (BesselI(abs(n - 1), self.scaled)(x) + above) * 0.5
            return made - sign(x) * out if self.scaled else made

        return (slope,)

    @classmethod
    def samples(cls) -> Any:
        for order, scaled in ((0, False), (1, True), (3, False)):
            yield cls(order, scaled), tuple([np.array(p) for p in cls.points])


class BesselIGap(SpecialFunction):
    """exp(-|x|) (I0(|x|) - I1(|x|)), without cancellation for large x."""

    points = ((-1.5, 0.2, 2.7, 6.5, 11.0),)

    def expand(self, x: Node) -> Node:
        size = absolute(x)
        low = minimum(size, FAR_I)
        near = chebyshev_series(tables.GAP_NEAR, low / 4 - 1) / ((low + 4) * sqrt(low + 4))
        high = maximum(size, FAR_I)
        far = chebyshev_series(tables.GAP_FAR, 2 * FAR_I / high - 1) / (high * sqrt(high))
        return where(less(size, FAR_I), near, far)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: sign(x) * (bessel_first_over_x(BesselI(1, True)(x), x) - 2 * out),)


def bessel_first_over_x(first: Node, x: Node) -> Node:
    """Return I1(x) / x, both scaled, as a function that is regular at 0."""
    near = less(absolute(x), 1)
    middle = (BesselI(0, True)(x) - BesselI(2, True)(x)) * 0.5
    return where(near, middle, first / where(near, 1, x))


def bessel_j_pair(x: Node) -> tuple[Node, Node]:
    """Return J0 and J1 of x >= 0."""
    low = minimum(x, FAR)
    square = low * low
    gap = bessel_gap(low, *tables.J0_ZERO)
    near0 = tables.J0_NEAR.at(square) * gap * (square - tables.J0_NEXT**2)
    gap = bessel_gap(low, *tables.J1_ZERO)
    near1 = chebyshev_series(tables.J1_NEAR, square / 12.5 - 1) * gap * low
    (p0, q0, p1, q1), up, down = bessel_far(x)
    far0, far1 = p0 * up - q0 * down, p1 * down + q1 * up
    is_near = less(x, FAR)
    return where(is_near, near0, far0), where(is_near, near1, far1)


def bessel_gap(x: Node, zero: float, rest: float) -> Node:
    """Return x**2 - (zero + rest)**2 for x >= 0, with the digits of the rest."""
    return (maximum(x - zero, -zero) - rest) * (x + zero)  # XLA would add the constants


def bessel_y_pair(x: Node) -> tuple[Node, Node]:
    """Return Y0 and Y1 of x >= 0."""
    low = minimum(x, FAR)
    variable = low * low / 12.5 - 1
    j0, j1 = bessel_j_pair(low)
    lift = log(low) * (2 / math.pi)
    near0 = chebyshev_series(tables.Y0_NEAR, variable) + lift * j0
    near1 = chebyshev_series(tables.Y1_NEAR, variable) * low + (lift * j1 - 2 / math.pi / low)
    (p0, q0, p1, q1), up, down = bessel_far(x)
    far0, far1 = p0 * down + q0 * up, q1 * down - p1 * up
    is_near = less(x, FAR)
    return where(is_near, near0, far0), where(is_near, near1, far1)


def bessel_far(x: Node) -> tuple[list[Node], Node, Node]:
    """Return P0, Q0, P1, Q1 and sin x + cos x, sin x - cos x over sqrt(pi x), for x >= 5."""
    high = maximum(x, FAR)
    ratio = FAR / high
    square = ratio * ratio
    factors = []
    for above, below in ((tables.P0_FAR, tables.Q0_FAR), (tables.P1_FAR, tables.Q1_FAR)):
        factors += [above.at(square), below.at(square) / high]
    s, c, scale = sin(high), cos(high), 1 / sqrt(high * math.pi)
    return factors, (s + c) * scale, (s - c) * scale


def bessel_i_pair(x: Node, scaled: bool) -> tuple[Node, Node]:
    """Return I0 and I1 of x >= 0, scaled by exp(-x) or not."""
    low, high = minimum(x, FAR_I), maximum(x, FAR_I)
    near = [bessel_series(n, low, 1) for n in (0, 1)]
    variable = 2 * FAR_I / high - 1
    far = [chebyshev_series(c, variable) / sqrt(high) for c in (tables.I0_FAR, tables.I1_FAR)]
    if scaled:
        near = [v * exp(-low) for v in near]
    else:
        root = exp(high * 0.5)  # its square may overflow where the product does not
        far = [v * root * root for v in far]
    is_near = less(x, FAR_I)
    return where(is_near, near[0], far[0]), where(is_near, near[1], far[1])


def bessel_recurrence(order: int, x: Node, first: Node, second: Node, minus: bool) -> Node:
    """Return the function of an order from those of order 0 and 1, of x >= 0."""
    if order == 0:
        return first
    for k in range(1, order):
        step = second * (2 * k) / x
        first, second = second, step - first if minus else first - step
    return second


def bessel_series(order: int, x: Node, sign: int, terms: int | None = None) -> Node:
    """Return the power series of J (the sign is -1) or I (it is 1) of x >= 0."""
    term = x * x * (0.25 * sign)
    made = constant_node(1, x.type.dtype)
    for k in reversed(range(1, terms or 30 + 6 * order)):
        made = made * (term / (k * (order + k))) + 1
    return made * IntegerPow(order)(x * 0.5) / math.factorial(order) if order else made
