"""Formulas in mpmath that functions of docs/accuracy.md are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp


def sech2(x: Any) -> Any:
    return 1 / mp.cosh(x) ** 2


def expit(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def pdf(x: Any) -> Any:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def cdf(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def quantile(p: Any) -> Any:
    """The inverse of the normal distribution function, by Newton's method on its logarithm."""
    if p > mp.mpf(1) / 2:
        return -quantile(1 - p)
    if p == mp.mpf(1) / 2:
        return mp.mpf(0)
    x = -mp.sqrt(-2 * mp.log(p)) if p < 0.2 else mp.mpf(float(p) - 0.5) * 2.5
    for _ in range(60):
        value = cdf(x)
        step = (mp.log(value) - mp.log(p)) * value / pdf(x)
        x -= step
        if abs(step) < abs(x) * mp.mpf(2) ** (-mp.mp.prec + 12):
            break
    return x


def inverse_erf(y: Any) -> Any:
    return -quantile((1 - abs(y)) / 2) / mp.sqrt(2) * mp.sign(y)


def amplitude(x: Any, shift: Any = None) -> Any:
    """The size of the oscillation of J and Y."""
    return mp.sqrt(2 / (mp.pi * max(abs(x), mp.mpf(1))))


def density(a: Any, x: Any) -> Any:
    return x ** (a - 1) * mp.exp(-x) / mp.gamma(a)


def beta_density(a: Any, b: Any, x: Any) -> Any:
    return x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b)


def lower(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, regularized=True)


def beta_lower(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def hurwitz(x: Any, q: Any) -> Any:
    with mp.workprec(mp.mp.prec + 300):  # mpmath's is absolutely, not relatively precise
        return mp.zeta(x, q)


def by(index: int, f: Callable) -> Callable:
    """The partial derivative of a function of several operands, by central differences in twice
    the digits."""

    def derivative(*xs: Any) -> Any:
        with mp.workprec(2 * mp.mp.prec + 20):
            step = abs(xs[index]) * mp.mpf(2) ** (-mp.mp.prec // 3)
            ends = [list(xs), list(xs)]
            ends[0][index] = xs[index] + step
            ends[1][index] = xs[index] - step
            return (f(*ends[0]) - f(*ends[1])) / (2 * step)

    return derivative


def one(*xs: Any) -> Any:
    return mp.mpf(1)
