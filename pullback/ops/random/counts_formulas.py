"""Logarithms of probabilities of counts, as formulas of `stepwise`.

They are written with the deviance and what Stirling's formula leaves of a factorial (Loader, 2000),
so that nothing large cancels.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.graph.dtypes import float64, int64
from pullback.ops.random.sampler_formulas import sampler_log_formula, sampler_polynomial_formula

# log(k!) - k log(k) + k for small k; for the others Stirling's series has an error below 1e-10
REST = [0.0, *(math.lgamma(k + 1) - k * math.log(k) + k for k in range(1, 4))]
STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)  # fmt: skip
# y - log(1 + y) - y**2 / 2 + y**3 / 3 is y**4 times this, for |y| < 1/16
QUARTIC = [(-1) ** k / (k + 4) for k in range(14)]


def count_floor_formula(m: Any, x: Any) -> Any:
    """Return the largest integer that is at most x, for |x| < 2**62."""
    near = m.convert(m.convert(x, int64), float64)
    return m.where(near > x, near - 1.0, near)


def poisson_count_formula(m: Any, k: Any, mean: Any) -> Any:
    """Return the logarithm of the probability of a count k, given a positive mean."""
    return -(_count_deviance_formula(m, k, mean) + _count_factorial_formula(m, k))


def binomial_count_formula(m: Any, k: Any, n: Any, p: Any, q: Any) -> Any:
    """Return the logarithm of the probability of k successes of n, for p + q = 1, both positive, up
    to a constant that depends on n alone."""
    rest = _count_factorial_formula(m, k) + _count_factorial_formula(m, n - k)
    return -(
        (_count_deviance_formula(m, k, n * p) + _count_deviance_formula(m, n - k, n * q)) + rest
    )


def _count_deviance_formula(m: Any, k: Any, mean: Any) -> Any:
    """Return k log(k / mean) + mean - k for k >= 0."""
    count = m.where(k > 0.0, k, 1.0)
    inverse = 1.0 / count
    y = (mean - count) * inverse
    square = y * y
    near = (square * 0.5 - square * y * (1 / 3)) + square * square * sampler_polynomial_formula(
        QUARTIC, y
    )
    far = y - sampler_log_formula(m, mean * inverse)
    return m.where(k > 0.0, count * m.where(square < 1 / 256, near, far), mean)


def _count_factorial_formula(m: Any, k: Any) -> Any:
    """Return log(k!) - k log(k) + k for integers k >= 0."""
    count = m.where(k > 1.0, k, 1.0)
    inverse = 1.0 / count
    series = sampler_polynomial_formula(STIRLING, inverse * inverse) * inverse
    rest = sampler_log_formula(m, count * (2 * math.pi)) * 0.5 + series
    for i, value in reversed(list(enumerate(REST))):
        rest = m.where(k < i + 0.5, value, rest)
    return rest
