"""The Hurwitz zeta function, by the Euler-Maclaurin formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.ops.elementwise.functions import both, equal, guarded, less, not_equal, where
from pullback.ops.elementwise.gamma_values import is_pole_of_gamma_value
from pullback.ops.elementwise.power import IntegerPow
from pullback.ops.elementwise.special_base import SpecialComposite, SpecialFunction
from pullback.ops.prelude import Node, Text, constant_node, op_functions

log, power, floor = op_functions("Log", "Pow", "Floor")
TERMS = 12  # that are added before the integral takes over
# B2 / 2!, B4 / 4!, ...
WEIGHTS = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
    -174611 / 802857662698291200000, 77683 / 14101100039391805440000,
    -1.395446468581252e-19, 3.5347070396294675e-21, -8.953517427037546e-23,
    2.267952452337683e-24,
)  # fmt: skip


class Zeta(SpecialFunction):
    """The sum of (q + k)**-(x + shift) over k = 0, 1, 2, ..., continued analytically to x < 1."""

    shift: int
    text = Text(("shift",))
    points = ((1.3, 2.0, 4.5, 0.5), (0.4, 1.0, 7.5, 1.0))

    def expand(self, x: Node, q: Node) -> Node:
        start = q + TERMS
        base, inverse = self._term(x, start), 1 / start
        given, x = x, x + self.shift
        correction, rising, scale = 0 * x, x, inverse
        for k, weight in enumerate(WEIGHTS):
            correction = correction + rising * scale * weight
            rising = rising * (x + (2 * k + 1)) * (x + (2 * k + 2))
            scale = scale * inverse * inverse
        total = base * (start / (x - 1) + 0.5 + where(equal(base, 0), 0, correction))
        for k in reversed(range(TERMS)):
            total = total + self._term(given, q + k)
        return zeta_at_ends(x, q, total)

    def _term(self, x: Node, base: Node) -> Node:
        """Return base**-(x + shift), without rounding the exponent."""
        made = power(base, -x)
        return made * IntegerPow(-self.shift)(base) if self.shift else made

    def partials(self, out: Node, x: Node, q: Node) -> tuple:
        n = self.shift
        return (lambda: ZetaSlope(n)(x, q), lambda: -guarded(x + n, Zeta(n + 1)(x, q)))

    @classmethod
    def samples(cls) -> Any:
        for shift in (0, 1):
            yield cls(shift), tuple([np.array(p) for p in cls.points])


class ZetaSlope(SpecialComposite):
    """The derivative of Zeta with respect to x."""

    shift: int
    text = Text(("shift",))
    points = ((1.3, 2.0, 4.5, 0.5), (0.4, 1.0, 7.5, 1.0))

    def formula(self, x: Node, q: Node) -> Node:
        x = x + self.shift
        start = q + TERMS
        base, lift, inverse = power(start, -x), log(start), 1 / start
        correction, slope, rising, change, scale = 0 * x, 0 * x, x, 0 * x + 1, inverse
        for k, weight in enumerate(WEIGHTS):
            correction = correction + rising * scale * weight
            slope = slope + change * scale * weight
            for factor in (x + (2 * k + 1), x + (2 * k + 2)):
                rising, change = rising * factor, change * factor + rising
            scale = scale * inverse * inverse
        share = start / (x - 1)
        inner = slope - share / (x - 1) - lift * (share + 0.5 + correction)
        total = where(equal(base, 0), 0, base * inner)
        for k in reversed(range(TERMS)):
            total = total - guarded(power(q + k, -x), log(q + k))
        return total

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), tuple([np.array(p) for p in cls.points])


def zeta_at_ends(x: Node, q: Node, value: Node) -> Node:
    """Return the value, or that at a pole or at infinity."""
    value = where(both(less(q, 0), not_equal(x, floor(x))), np.nan, value)
    value = where(equal(q, np.inf), 0, value)
    first = where(less(q, 1), np.inf, where(equal(q, 1), 1, constant_node(0, q.type.dtype)))
    value = where(equal(x, np.inf), first, value)
    pole = is_pole_of_gamma_value(q)
    return where(pole, np.inf, where(equal(x, 1), np.inf, value))
