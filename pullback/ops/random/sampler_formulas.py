"""Mathematical functions of the samplers, as formulas of `stepwise`: the same bits everywhere.

`m` is the machine that evaluates a formula, NumPy or StableHLO.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.graph.dtypes import float64, int64
from pullback.ops.elementwise.error_functions import SCALED
from pullback.ops.random.stepwise import stepwise_bits, stepwise_sibling

# log(1 + f) = f + f * f * LOG(f) for |f| <= 1/3, in f32: relative error 3e-8
LOG = (
    -0.49999937415122986, 0.33333197236061096, -0.2500782012939453, 0.20011165738105774,
    -0.16415949165821075, 0.13995860517024994, -0.15388600528240204, 0.14026087522506714,
)  # fmt: skip
# log(2) as a sum of two numbers; products of the first with exponents are exact
LOG2 = {32: (0.693145751953125, 1.4286068203094172e-06),
        64: (0.6931471803691238, 1.9082149292705877e-10)}  # fmt: skip
# the bits of 2/3, and the number of mantissa bits
SPLIT = {32: (0x3F2AAAAB, 23), 64: (0x3FE5555555555555, 52)}
# z / s, where s = erf(z / sqrt 2), as a polynomial of w = -log(1 - s * s): relative error 1e-7
REACH = 10.75  # it holds for w up to twice this
QUANTILE = (
    4.4021077156066895, 2.3312981128692627, -0.5636047720909119, 0.25977787375450134,
    -0.13652034103870392, 0.06739220768213272, -0.008953406475484371, -0.06887082010507584,
    0.07689882814884186, 0.039825063198804855, 0.014189046807587147, -0.25075626373291016,
    0.11649159342050552, 0.22154752910137177, -0.15038590133190155, -0.05693410336971283,
    0.04637102782726288,
)  # fmt: skip
# z / energy, where the energy is -log(1 - erf(z / sqrt 2)) < 44.5: relative error 9e-6
START = (
    0.626376202, -0.413277699, 0.0762861672, -0.0734966035, 0.0149255158, -0.0199305466,
    0.0281490797, -0.0180299471, -0.0443773413, 0.0123064611, 0.0447697842, -0.0111862478,
    -0.0164402199,
)  # fmt: skip


def sampler_polynomial_formula(coefficients: Sequence[float], x: Any) -> Any:
    """Evaluate a polynomial, constant coefficient first, by Horner's rule."""
    *rest, y = coefficients
    for c in reversed(rest):
        y = x * y + c
    return y


def sampler_powers_formula(chebyshev: Sequence[float]) -> list[float]:
    """Return the power series of a sum of Chebyshev polynomials."""
    series = [0.0] * len(chebyshev)
    t, following = [1.0], [0.0, 1.0]  # the first two polynomials
    for c in chebyshev:
        for i, power in enumerate(t):
            series[i] += c * power
        twice = [0.0, *(2 * v for v in following)]
        after = [v - (t[i] if i < len(t) else 0.0) for i, v in enumerate(twice)]
        t, following = following, after
    return series


ATANH = [2 / (2 * k + 3) for k in range(11)]
EXP = [1 / math.factorial(k + 2) for k in range(12)]
MILLS = sampler_powers_formula(SCALED)
MILLS_AT_0 = math.sqrt(math.pi / 2)


def sampler_ends_formula(m: Any, k: Any, to: Any) -> tuple[Any, Any]:
    """Return t = (k + 1/2) / 2**n and 1 - t for random integers k of n = 31 or 63 bits. Each is
    rounded separately, so t is accurate near 0, and 1 - t near 1."""
    bits = stepwise_bits(k) - 1
    other = k ^ ((1 << bits) - 1)
    return tuple((m.convert(v, to) + 0.5) * 2.0**-bits for v in (k, other))  # type: ignore


def _sampler_log_parts_formula(m: Any, x: Any) -> tuple[Any, Any]:
    """Return e and f with x = 2**e (1 + f) and f in [-1/3, 1/3), for positive x."""
    split, bits = SPLIT[stepwise_bits(x)]
    offset = m.bitcast(x, stepwise_sibling(x, "i")) - split
    exponent = offset >> bits
    mantissa = (offset & ((1 << bits) - 1)) + split
    f = m.bitcast(mantissa, stepwise_sibling(x, "f")) - 1.0
    return m.convert(exponent, stepwise_sibling(x, "f")), f


def _sampler_log1p_formula(f: Any) -> Any:
    """Return log(1 + f) for |f| <= 1/3."""
    if stepwise_bits(f) == 32:
        return f + f * f * sampler_polynomial_formula(LOG, f)
    s = f * (1.0 / (f + 2.0))
    square = s * s
    return f - s * (f - square * sampler_polynomial_formula(ATANH, square))


def _sampler_log_from_parts_formula(e: Any, f: Any) -> Any:
    high, low = LOG2[stepwise_bits(f)]
    return e * high + (_sampler_log1p_formula(f) + e * low)


def sampler_log_formula(m: Any, x: Any) -> Any:
    """Return the logarithm of a positive number."""
    return _sampler_log_from_parts_formula(*_sampler_log_parts_formula(m, x))


def sampler_minus_log_formula(m: Any, t: Any, s: Any) -> Any:
    """Return -log(t) for t in (0, 1) and s = 1 - t, accurate also where it is small."""
    e, f = _sampler_log_parts_formula(m, t)
    return -_sampler_log_from_parts_formula(e, m.where(e < 0.0, f, -s))


def sampler_exp_formula(m: Any, x: Any) -> Any:
    """Return the exponential of an f64 number; 0 below -700, and at most exp(700)."""
    inside = m.where(x > -700.0, m.where(x < 700.0, x, 700.0), -700.0)
    turns = inside * 1.4426950408889634
    k = m.convert(m.where(x < 0.0, turns - 0.5, turns + 0.5), int64)
    high, low = LOG2[64]
    steps = m.convert(k, float64)
    r = (inside - steps * high) - steps * low
    scale = m.bitcast((k + 1023) << 52, float64)
    y = ((r * r * sampler_polynomial_formula(EXP, r) + r) + 1.0) * scale
    return m.where(x > -700.0, y, 0.0)


def sampler_mills_formula(y: Any) -> Any:
    """Return Mills' ratio of the normal distribution, upper tail / density, at f64 y >= 0."""
    x = y * math.sqrt(0.5)
    series = sampler_polynomial_formula(MILLS, (x - 3.0) * (1.0 / (x + 3.0)))
    return series * MILLS_AT_0 * (1.0 / (x * 2.0 + 1.0))


def normal_formula(m: Any, k: Any) -> Any:
    """Return a standard normal number from a random integer of 32 or 64 bits."""
    s, t = sampler_ends_formula(m, k ^ (k >> (stepwise_bits(k) - 1)), stepwise_sibling(k, "f"))
    if stepwise_bits(k) == 32:
        x = sampler_minus_log_formula(m, t * (2.0 - t), s * s) * (1 / REACH) - 1.0
        size = s * sampler_polynomial_formula(QUANTILE, x)
    else:
        energy = sampler_minus_log_formula(m, t, s)
        near = 1.0 / (energy + 4.0)
        start = energy * sampler_polynomial_formula(
            START, 1.1797752808988764 - near * 8.719101123595506
        )
        size = sampler_refined_formula(m, start, energy)
    return m.where(k < 0, -size, size)


def quantile_formula(m: Any, base: Any, energy: Any) -> Any:
    """Return the distance from base >= 0 at which the normal upper tail is exp(-energy) times that
    of base. The logarithm of the tail is nearly a parabola, whose root has an error below 4 %."""
    ratio = sampler_mills_formula(base)
    slope = 1.0 / ratio
    twice = energy * 2.0
    bend = twice - energy * (1.0 / (energy * 0.2754 + 1.377))
    step = twice * (1.0 / (slope + m.sqrt(slope * slope + bend)))
    for _ in range(2):
        step = sampler_refined_formula(m, step, energy, base, ratio)
    return step


def sampler_refined_formula(
    m: Any, step: Any, energy: Any, base: Any = 0.0, ratio: Any = MILLS_AT_0
) -> Any:
    """Take one step of Halley's method on the logarithm of the tail, which triples the digits."""
    y = base + step
    here = sampler_mills_formula(y)
    slope = 1.0 / here
    gap = (step * (base + step * 0.5) + sampler_log_formula(m, ratio * slope)) - energy
    newton = gap * here
    return step - newton * (1.0 / (1.0 - newton * (slope - y) * 0.5))
