"""Complete elliptic integrals, by the arithmetic-geometric mean."""

from __future__ import annotations

import math

import numpy as np

from pullback.ops.elementwise.functions import either, equal, where
from pullback.ops.elementwise.special_base import SpecialComposite
from pullback.ops.prelude import Node, op_functions

sqrt, log = op_functions("Sqrt", "Log")
STEPS = 12  # enough for numbers of all sizes


class EllipKm1(SpecialComposite):
    """The complete elliptic integral of the first kind of the parameter 1 - p; NaN for p < 0."""

    points = ((0.01, 0.5, 1.0, 3.0),)

    def formula(self, p: Node) -> Node:
        mean, _ = _elliptic_mean_and_sum(p)
        at_zero = log(p) * -0.5  # the value and its slope are infinite
        return where(equal(p, 0), at_zero, where(equal(p, np.inf), 0, (math.pi / 2) / mean))


class EllipE(SpecialComposite):
    """The complete elliptic integral of the second kind of the parameter m; NaN for m > 1."""

    points = ((0.99, 0.5, 0.0, -2.0),)

    def formula(self, m: Node) -> Node:
        p = 1 - m
        mean, total = _elliptic_mean_and_sum(p)
        made = (math.pi / 2) / mean * (1 - m * (m * total + 0.5))
        end = either(equal(p, 0), equal(p, np.inf))  # the slope is infinite at 1
        return where(end, sqrt(p) + 1, made)


def _elliptic_mean_and_sum(p: Node) -> tuple[Node, Node]:
    """Return the arithmetic-geometric mean of 1 and sqrt(p), and the sum over n from 1 of
    2**(n - 1) (c / m)**2, where c is half the difference of the numbers before step n and m is
    1 - p. It is computed without differences, and smooth where m is 0."""
    p = where(either(equal(p, 0), equal(p, np.inf)), 1, p)
    a, b, m = p * 0 + 1, sqrt(p), 1 - p
    c = 0.5 / (b + 1)
    total, scale = c * c, 1.0
    for _ in range(STEPS):
        a, b = (a + b) * 0.5, sqrt(a) * sqrt(b)
        c = m * c * c / ((a + b) * 2)
        scale *= 2
        total = total + c * c * scale
    return a, total
