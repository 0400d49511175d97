"""The inverse Gaussian distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.ops.prelude import Node, op_functions
from pullback.ops.random.exact import ExactFunction
from pullback.ops.random.mills_ratio import MillsRatio
from pullback.ops.samples import positive, real, unit_samples

reciprocal, sqrt = op_functions("Reciprocal", "Sqrt")


class WaldSample(ExactFunction):
    """A number of the inverse Gaussian distribution with the given mean and shape 1, from a normal
    and a uniform one (Michael, Schucany and Haas, 1976).

    The derivative with respect to the mean is that of a quantile: 2 x**1.5 / mean**2 times Mills'
    ratio at (x / mean + 1) / sqrt(x).
    """

    def formula(self, m: Any, *xs: Any) -> Any:
        z, u, mean = xs
        valid = (mean > 0.0) & (mean < 1e100)
        mean = m.where(valid, mean, 1.0)
        y = mean * (z * z)
        # the smaller root, over the mean
        least = 1.0 / ((y * 0.5 + 1.0) + m.sqrt(y + y * y * 0.25))
        x = m.where(u * (least + 1.0) <= 1.0, mean * least, mean * (1.0 / least))
        return m.where(valid, x, math.nan)

    def partials(self, out: Node, z: Node, u: Node, mean: Node) -> tuple:
        def slope() -> Node:
            root = sqrt(out)
            ratio = MillsRatio()((out * reciprocal(mean) + 1) * reciprocal(root))
            return ratio * out * root * reciprocal(mean * mean) * 2

        return (None, None, slope)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4), (unit_samples(3, 4) + 1) / 2, positive(4))
