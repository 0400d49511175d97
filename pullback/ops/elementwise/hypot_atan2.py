"""Lengths and angles in the plane."""

from __future__ import annotations

import numpy as np

from pullback.graph.dtypes import float32
from pullback.ops.elementwise.elementwise import Binary
from pullback.ops.elementwise.functions import either, equal, guarded, nonzero_function, where
from pullback.ops.prelude import Node, op_functions

absolute, maximum, minimum = op_functions("Abs", "Maximum", "Minimum")
sqrt, reciprocal = op_functions("Sqrt", "Reciprocal")


class Hypot(Binary):
    """sqrt(x * x + y * y), without overflow; its gradient at the origin is 0."""

    ufunc = np.hypot
    kinds = "f"
    half_as = float32

    def expand(self, x: Node, y: Node) -> Node:
        a, b = absolute(x), absolute(y)
        long, short = maximum(a, b), minimum(a, b)
        ratio = short / nonzero_function(long)
        infinite = either(equal(a, np.inf), equal(b, np.inf))  # also beside a NaN
        return where(infinite, np.inf, long * sqrt(ratio * ratio + 1))

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (lambda: x / nonzero_function(out), lambda: y / nonzero_function(out))


class Atan2(Binary):
    """The angle of the point (x, y), given as y and x, in [-pi, pi]; its gradient at the origin
    is 0."""

    ufunc, stablehlo = np.arctan2, "atan2"
    kinds = "f"
    half_as = float32
    singular = True

    def partials(self, out: Node, y: Node, x: Node) -> tuple:
        def over_square(side: Node) -> Node:
            radius = nonzero_function(Hypot()(x, y))  # its square might underflow
            return guarded(side / radius, reciprocal(radius))

        return (lambda: over_square(x), lambda: -over_square(y))
