"""Mills' ratio of the normal distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.ops.prelude import Node
from pullback.ops.random.exact import ExactFunction
from pullback.ops.random.sampler_formulas import sampler_mills_formula
from pullback.ops.samples import positive


class MillsRatio(ExactFunction):
    """Mills' ratio of the normal distribution, the upper tail over the density, for x >= 0."""

    def formula(self, m: Any, *xs: Any) -> Any:
        (x,) = xs
        inside = (x >= 0.0) & (x < 1e100)
        y = sampler_mills_formula(m.where(inside, x, 1.0))
        return m.where(inside, y, m.where(x >= 1e100, 1.0 / m.where(inside, 1.0, x), math.nan))

    def partials(self, out: Node, x: Node) -> tuple:
        return (x * out - 1,)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (positive(3, 4),)
        yield cls(), (np.array(30.0),)
