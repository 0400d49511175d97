"""Lambert's W function on the real line."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.ops.elementwise.functions import equal, greater, less, where
from pullback.ops.elementwise.series import horner_series
from pullback.ops.elementwise.special_base import SpecialFunction
from pullback.ops.prelude import Node, Text, op_functions

exp, log, log1p, sqrt = op_functions("Exp", "Log", "Log1p", "Sqrt")
absolute, maximum, minimum = op_functions("Abs", "Maximum", "Minimum")
# 1/e, as a sum of two numbers
LEAST, LEAST_REST = 0.36787944117144233, -1.2428753672788363e-17
NEAR = 0.4  # of sqrt(2 (e x + 1)): below, a series around the branch point is used


class LambertW(SpecialFunction):
    """The solution w of w exp(w) = x: that of -1 or more (`branch` 0), for x >= -1/e, or that of
    -1 or less (`branch` -1), for -1/e <= x < 0. NaN elsewhere."""

    branch: int = 0
    text = Text(("branch",))
    points = ((-0.3, -0.1, -0.2, -0.35),)

    def __post_init__(self) -> None:
        if self.branch not in (0, -1):
            raise ArgumentError(f"branch must be 0 or -1, got {self.branch}", op=self.title)

    def expand(self, x: Node) -> Node:
        # The maximum keeps compilers from adding the two numbers first.
        above = maximum(x + LEAST, -1) + LEAST_REST
        p = sqrt(maximum(above, 0) * (2 * math.e))
        side = minimum(p, NEAR)
        near = horner_series(lambert_branch_series(), -side if self.branch else side)
        inside = maximum(x, -0.35)  # where the iteration is used, p is larger
        inside = minimum(inside, -1e-320) if self.branch else inside
        made = where(less(p, NEAR), near, self._iterated(inside))
        if self.branch:
            made = where(equal(x, 0), -np.inf, where(greater(x, 0), np.nan, made))
        else:
            made = where(equal(x, np.inf), np.inf, where(equal(x, 0), x, made))
        return where(less(above, 2 * LEAST_REST), np.nan, made)  # -1/e, rounded, counts as such

    def _iterated(self, x: Node) -> Node:
        """Improve an estimate by Halley's method, for w - x exp(-w) = 0."""
        if self.branch:
            size = log(-x)
            w = size - log(-size)
        else:
            size = log1p(x)
            w = size * (1 - log1p(maximum(size, -0.5)) / (size + 2))
        for _ in range(4):
            u = w - x * exp(-w)
            slope = w + 1
            w = w - u / (slope - (slope + 1) * u / (slope * 2))
        return w

    def partials(self, out: Node, x: Node) -> tuple:
        # Of two equal formulas, one is for small x, and one for large exponents.
        near = less(absolute(x), 0.1) if self.branch == 0 else less(x, -np.inf)
        far = where(near, 1, x)
        made = lambda: where(near, exp(-out), out / far) / (out + 1)  # noqa: E731
        return (lambda: where(equal(x, np.inf), 0, made()),)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (np.array([-0.3, 0.0, 0.5, 30.0]),)
        yield cls(-1), (np.array(cls.points[0]),)


@cache
def lambert_branch_series() -> list[float]:
    """Return the coefficients of w in powers of p, the root of 2 (e x + 1)."""
    made, sums = [-1.0, 1.0], [2.0, -1.0]
    for k in range(2, 32):
        total = sum(made[j] * made[k + 1 - j] for j in range(2, k))
        before = made[k - 2] / 2 + sums[k - 2] / 4
        made.append((k - 1) / (k + 1) * before - total / 2 - made[k - 1] / (k + 1))
        sums.append(total)
    return made
