"""The functions of docs/accuracy.md: what they are in mpmath, and where they are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
from accuracy_formulas import (
    amplitude,
    beta_density,
    beta_lower,
    by,
    cdf,
    density,
    erfcx,
    expit,
    hurwitz,
    inverse_erf,
    lower,
    one,
    pdf,
    quantile,
    sech2,
    upper,
)

import pullback as pb

Sampler = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class AccuracyCase:
    """A function, its value and partial derivatives in mpmath, and the domain of each operand."""

    name: str
    function: Callable
    value: Callable
    partials: Sequence[Callable | None]
    domains: Sequence[Sampler]
    scale: Callable | None = None  # errors near zeros are measured against it
    slope_scale: Callable | None = None  # and those of derivatives
    reason: str = ""  # why errors may be larger, or what the scale is
    cost: int = 1  # divides the number of points
    limits: tuple[float, float] = (4, 16)  # ulp of values and of derivatives


def between(low: float, high: float) -> Sampler:
    return lambda rng, n: rng.uniform(low, high, n)


def logarithmic(low: float, high: float, signed: bool = False) -> Sampler:
    """Numbers whose logarithm is uniform, of either sign if `signed`."""

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        made = np.exp(rng.uniform(np.log(low), np.log(high), n))
        return made * rng.choice([-1, 1], n) if signed else made

    return sample


def mixed(*samplers: Sampler) -> Sampler:
    """The same number of points from each."""

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        share = -(-n // len(samplers))
        return np.concatenate([s(rng, share) for s in samplers])[:n]

    return sample


def unary(
    name: str, value: Callable, slope: Callable, domain: Sampler, **more: Any
) -> AccuracyCase:  # fmt: skip
    function = more.pop("function", None) or getattr(pb, name, None)
    return AccuracyCase(name, function, value, (slope,), (domain,), **more)


def special(
    name: str, value: Callable, slope: Callable, domain: Sampler, **more: Any
) -> AccuracyCase:  # fmt: skip
    return unary(name, value, slope, domain, function=getattr(pb.special, name), **more)


WIDE = logarithmic(1e-6, 80, signed=True)
POSITIVE = logarithmic(1e-30, 1e30)
UNIT = mixed(between(-1, 1), logarithmic(1e-6, 0.999, signed=True))

ELEMENTARY = [
    unary("exp", mp.exp, mp.exp, WIDE),
    unary("exp2", lambda x: mp.mpf(2) ** x, lambda x: mp.log(2) * mp.mpf(2) ** x, WIDE),
    unary("expm1", mp.expm1, mp.exp, WIDE),
    unary("log", mp.log, lambda x: 1 / x, mixed(POSITIVE, between(0.5, 2))),
    unary("log2", lambda x: mp.log(x, 2), lambda x: 1 / (x * mp.log(2)),
          mixed(POSITIVE, between(0.5, 2))),
    unary("log10", lambda x: mp.log(x, 10), lambda x: 1 / (x * mp.log(10)),
          mixed(POSITIVE, between(0.5, 2))),
    unary("log1p", mp.log1p, lambda x: 1 / (1 + x),
          mixed(logarithmic(1e-9, 1e9), between(-0.99, 1))),
    unary("sqrt", mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), POSITIVE),
    unary("rsqrt", lambda x: 1 / mp.sqrt(x), lambda x: -1 / (2 * x * mp.sqrt(x)),
          logarithmic(1e-20, 1e20)),
    unary("cbrt", mp.cbrt, lambda x: 1 / (3 * mp.cbrt(x) ** 2), POSITIVE),
    unary("sin", mp.sin, mp.cos, mixed(WIDE, between(-7, 7))),
    unary("cos", mp.cos, lambda x: -mp.sin(x), mixed(WIDE, between(-7, 7))),
    unary("tan", mp.tan, lambda x: 1 + mp.tan(x) ** 2, mixed(WIDE, between(-7, 7))),
    unary("asin", mp.asin, lambda x: 1 / mp.sqrt(1 - x * x), UNIT),
    unary("acos", mp.acos, lambda x: -1 / mp.sqrt(1 - x * x), UNIT),
    unary("atan", mp.atan, lambda x: 1 / (1 + x * x), WIDE),
    unary("sinh", mp.sinh, mp.cosh, WIDE),
    unary("cosh", mp.cosh, mp.sinh, WIDE),
    unary("tanh", mp.tanh, sech2, mixed(logarithmic(1e-6, 40, signed=True), between(-3, 3)),
          slope_scale=one, reason="the derivative, 1 - tanh(x)^2, is measured against 1"),
    unary("asinh", mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x), mixed(WIDE, between(-2, 2))),
    unary("acosh", mp.acosh, lambda x: 1 / mp.sqrt((x - 1) * (x + 1)),
          mixed(between(1, 3), logarithmic(1, 1e6))),
    unary("atanh", mp.atanh, lambda x: 1 / ((1 - x) * (1 + x)), UNIT),
]  # fmt: skip

ACTIVATIONS = [
    unary("sigmoid", expit, lambda x: expit(x) * expit(-x), WIDE,
          slope_scale=expit, reason="the derivative is measured against the value"),
    unary("log_sigmoid", lambda x: -mp.log1p(mp.exp(-x)), lambda x: expit(-x), WIDE),
    unary("softplus", lambda x: mp.log1p(mp.exp(x)), expit, WIDE),
    unary("silu", lambda x: x * expit(x), lambda x: expit(x) * (1 + x * expit(-x)), WIDE,
          slope_scale=lambda x: expit(x), reason="the derivative is measured against expit(x)"),
    unary("gelu", lambda x: x * cdf(x), lambda x: cdf(x) + x * pdf(x),
          mixed(between(-12, 6), logarithmic(1e-6, 12, signed=True)),
          slope_scale=cdf, limits=(6, 16),
          reason="in f32, contains `ndtr`; the derivative is measured against ndtr(x)"),
    unary("elu", lambda x: x if x > 0 else mp.expm1(x), lambda x: mp.mpf(1) if x > 0 else mp.exp(x),
          WIDE),
]  # fmt: skip

NORMAL = [
    unary("erf", mp.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x),
          mixed(between(-6, 6), logarithmic(1e-6, 9, signed=True)), limits=(5, 16),
          reason="in f32, a quotient of polynomials"),
    unary("erfc", mp.erfc, lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x),
          mixed(between(-5, 9), between(-2, 2))),
    unary("erfinv", inverse_erf, lambda y: mp.sqrt(mp.pi) / 2 * mp.exp(inverse_erf(y) ** 2),
          UNIT, cost=4),
    special("erfcinv", lambda y: -quantile(y / 2) / mp.sqrt(2),
            lambda y: -mp.sqrt(mp.pi) / 2 * mp.exp(quantile(y / 2) ** 2 / 2),
            mixed(between(0, 2), logarithmic(1e-30, 1)), cost=4),
    special("erfcx", erfcx, lambda x: 2 * x * erfcx(x) - 2 / mp.sqrt(mp.pi),
            mixed(between(-5, 20), logarithmic(1e-3, 1e3))),
    special("ndtr", cdf, pdf, mixed(between(-12, 8), logarithmic(1e-6, 12, signed=True)),
            limits=(6, 16), reason="in f32, an exponential times a quotient of polynomials"),
    special("ndtri", quantile, lambda p: 1 / pdf(quantile(p)),
            mixed(between(0, 1), logarithmic(1e-30, 1)), cost=4),
    special("log_ndtr", lambda x: mp.log(cdf(x)), lambda x: pdf(x) / cdf(x),
            mixed(between(-40, 10), between(-3, 3))),
]  # fmt: skip

ODDS = [
    special("logit", lambda x: mp.log(x / (1 - x)), lambda x: 1 / (x * (1 - x)),
            mixed(between(0, 1), logarithmic(1e-20, 1))),
    special("entr", lambda x: -x * mp.log(x), lambda x: -mp.log(x) - 1,
            mixed(between(0, 3), logarithmic(1e-20, 1e20)), slope_scale=one,
            reason="the derivative is measured against 1"),
    special("exp1", mp.e1, lambda x: -mp.exp(-x) / x, logarithmic(1e-6, 80), cost=2),
    special("exprel", lambda x: mp.expm1(x) / x,
            lambda x: (mp.exp(x) * (x - 1) + 1) / (x * x), WIDE),
    AccuracyCase("xlogy", pb.special.xlogy, lambda x, y: x * mp.log(y),
                 (lambda x, y: mp.log(y), lambda x, y: x / y),
                 (between(-3, 3), mixed(between(0.5, 2), logarithmic(1e-10, 1e10)))),
    AccuracyCase("xlog1py", pb.special.xlog1py, lambda x, y: x * mp.log1p(y),
                 (lambda x, y: mp.log1p(y), lambda x, y: x / (1 + y)),
                 (between(-3, 3), mixed(between(-0.9, 2), logarithmic(1e-10, 1e10)))),
    AccuracyCase("rel_entr", pb.special.rel_entr, lambda x, y: x * mp.log(x / y),
                 (lambda x, y: mp.log(x / y) + 1, lambda x, y: -x / y),
                 (between(0.5, 2), mixed(between(0.5, 2), logarithmic(1e-10, 1e10))),
                 slope_scale=one, reason="the derivative is measured against 1"),
    AccuracyCase("kl_div", pb.special.kl_div, lambda x, y: x * mp.log(x / y) - x + y,
                 (lambda x, y: mp.log(x / y), lambda x, y: 1 - x / y),
                 (between(0.5, 2), mixed(between(0.5, 2), logarithmic(1e-10, 1e10))),
                 limits=(8, 16), reason="a difference of terms that are up to 4 times as large"),
    AccuracyCase("logaddexp", pb.logaddexp, lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
                 (lambda x, y: expit(x - y), lambda x, y: expit(y - x)),
                 (between(-20, 20), between(-20, 20)), scale=lambda x, y: max(abs(x), abs(y)),
                 limits=(4, 64),
                 reason="the value is measured against the larger operand; derivatives are "
                 "functions of the rounded difference of the operands"),
]  # fmt: skip

LEFT = mixed(logarithmic(1e-6, 100), between(0.5, 3.5))
NEGATIVE_SCALE = "below 0 errors are measured against 1 + abs(x), because of the zeros there"

GAMMA = [
    unary("lgamma", lambda x: mp.log(abs(mp.gamma(x))), mp.digamma,
          mixed(LEFT, between(-6, 0), logarithmic(1, 1e6)),
          scale=lambda x: 1 - x if x < 0 else 0, slope_scale=lambda x: 3 - x if x < 0 else 0,
          reason=NEGATIVE_SCALE),
    unary("digamma", mp.digamma, lambda x: mp.psi(1, x),
          mixed(LEFT, between(-6, 0), between(1.4, 1.5)),
          scale=lambda x: 3 - x if x < 0 else 0, reason=NEGATIVE_SCALE),
    AccuracyCase("polygamma(1)", lambda x: pb.polygamma(1, x), lambda x: mp.psi(1, x),
                 (lambda x: mp.psi(2, x),), (mixed(LEFT, between(-3, 0)),),
                 slope_scale=lambda x: 50 if x < 0 else 0,
                 reason="below 0 the derivative is measured against 50"),
    AccuracyCase("polygamma(3)", lambda x: pb.polygamma(3, x), lambda x: mp.psi(3, x),
                 (lambda x: mp.psi(4, x),), (LEFT,)),
    special("gamma", mp.gamma, lambda x: mp.gamma(x) * mp.digamma(x),
            mixed(LEFT, between(-6, 30), between(1.4, 1.5)),
            slope_scale=lambda x: abs(mp.gamma(x)) if x < 0 else 0, limits=(5, 16),
            reason="a power and an exponential; below 0 the derivative is measured against "
            "gamma(x)"),
    AccuracyCase("beta", pb.special.beta, mp.beta,
                 (lambda a, b: mp.beta(a, b) * (mp.psi(0, a) - mp.psi(0, a + b)),
                  lambda a, b: mp.beta(a, b) * (mp.psi(0, b) - mp.psi(0, a + b))),
                 (logarithmic(0.01, 60), logarithmic(0.01, 60)), cost=2, limits=(10, 16),
                 reason="three values of the gamma function"),
    AccuracyCase("betaln", pb.special.betaln, lambda a, b: mp.log(mp.beta(a, b)),
                 (lambda a, b: mp.psi(0, a) - mp.psi(0, a + b),
                  lambda a, b: mp.psi(0, b) - mp.psi(0, a + b)),
                 (logarithmic(0.01, 1e4), logarithmic(0.01, 1e4)), cost=2, scale=one,
                 reason="the value is measured against 1"),
    AccuracyCase("zeta", pb.special.zeta, hurwitz,
                 (by(0, hurwitz), lambda x, q: -x * hurwitz(x + 1, q)),
                 (mixed(between(1.05, 12), between(12, 40)), logarithmic(0.1, 50)), cost=20),
    AccuracyCase("gammainc", pb.special.gammainc, lower,
                 (by(0, lower), density), (logarithmic(0.05, 100), logarithmic(0.05, 100)),
                 cost=40),
    AccuracyCase("gammaincc", pb.special.gammaincc, upper,
                 (by(0, upper), lambda a, x: -density(a, x)),
                 (logarithmic(0.05, 100), logarithmic(0.05, 100)), cost=40, limits=(10, 16),
                 reason="for x < a it is a difference from 1"),
    AccuracyCase("betainc", pb.special.betainc, beta_lower,
                 (by(0, beta_lower), by(1, beta_lower), beta_density),
                 (logarithmic(0.1, 50), logarithmic(0.1, 50), between(0.02, 0.98)), cost=40,
                 limits=(10, 16), reason="contains a value of `beta`"),
    AccuracyCase("binom", pb.special.binom, mp.binomial,
                 (by(0, mp.binomial), by(1, mp.binomial)), (between(20, 40), between(0.1, 20)),
                 cost=4, limits=(10, 48),
                 reason="three values of the gamma function; a derivative that crosses 0"),
]  # fmt: skip

RANGE = mixed(between(-30, 30), between(-6, 6), logarithmic(1e-3, 200))
RIGHT = mixed(between(0.01, 30), between(0.01, 6), logarithmic(1e-3, 200))
LOGARITHM = "below 5 a sum with a logarithm; measured as `j0` is"
OSCILLATION = "measured against the amplitude sqrt(2 / (pi max(abs(x), 1)))"


def bessel(name: str, f: Callable, slope: Callable, domain: Sampler, **more: Any) -> AccuracyCase:
    return special(name, f, slope, domain, cost=2, **more)


def oscillating(
    name: str, f: Callable, n: int, domain: Sampler, **more: Any
) -> AccuracyCase:  # fmt: skip
    def slope(x: Any) -> Any:
        return (f(n - 1, x) - f(n + 1, x)) / 2

    return bessel(name, lambda x: f(n, x), slope, domain, scale=amplitude, slope_scale=amplitude,
                  **more)  # fmt: skip


def scaled_i(n: int) -> Callable:
    return lambda x: mp.besseli(n, x) * mp.exp(-abs(x))


def slope_of_scaled_i(n: int) -> Callable:
    def slope(x: Any) -> Any:
        near = (mp.besseli(n - 1, x) + mp.besseli(n + 1, x)) / 2
        return (near - mp.sign(x) * mp.besseli(n, x)) * mp.exp(-abs(x))

    return slope


def slope_of_i(n: int) -> Callable:
    return lambda x: (mp.besseli(n - 1, x) + mp.besseli(n + 1, x)) / 2


def of_k(n: int, scaled: int) -> Callable:
    return lambda x: mp.besselk(n, x) * mp.exp(scaled * x)


def slope_of_k(n: int, scaled: int) -> Callable:
    def slope(x: Any) -> Any:
        fall = (mp.besselk(n - 1, x) + mp.besselk(n + 1, x)) / 2
        return (scaled * mp.besselk(n, x) - fall) * mp.exp(scaled * x)

    return slope


def slope_of_sinc(x: Any) -> Any:
    return (mp.cos(mp.pi * x) - mp.sincpi(x)) / x


BESSEL = [
    oscillating("j0", mp.besselj, 0, RANGE, reason=OSCILLATION),
    oscillating("j1", mp.besselj, 1, RANGE, reason=OSCILLATION),
    oscillating("y0", mp.bessely, 0, RIGHT, limits=(8, 16), reason=LOGARITHM),
    oscillating("y1", mp.bessely, 1, RIGHT, limits=(8, 16), reason=LOGARITHM),
    bessel("i0", lambda x: mp.besseli(0, x), slope_of_i(0), RIGHT),
    bessel("i1", lambda x: mp.besseli(1, x), slope_of_i(1), RIGHT),
    bessel("i0e", scaled_i(0), slope_of_scaled_i(0), RIGHT),
    bessel("i1e", scaled_i(1), slope_of_scaled_i(1), RIGHT,
           slope_scale=lambda x: scaled_i(1)(x) / x,
           reason="the derivative is measured against i1e(x) / x"),
    *[bessel(name, of_k(n, scaled), slope_of_k(n, scaled), RIGHT)
      for name, n, scaled in (("k0", 0, 0), ("k1", 1, 0), ("k0e", 0, 1), ("k1e", 1, 1))],
    unary("sinc", mp.sincpi, slope_of_sinc, mixed(between(-5, 5), logarithmic(1e-3, 50)),
          slope_scale=lambda x: 1 / max(1, abs(x)),
          reason="the derivative is measured against 1 / max(1, abs(x))"),
    AccuracyCase("spherical_jn(2)", lambda x: pb.special.spherical_jn(2, x),
                 lambda x: mp.sqrt(mp.pi / (2 * x)) * mp.besselj(2.5, x),
                 (lambda x: mp.sqrt(mp.pi / (2 * x))
                  * (mp.besselj(1.5, x) - 3 * mp.besselj(2.5, x) / x),),
                 (RIGHT,), scale=lambda x: min(x, 1 / x) ** 2 if x < 1 else 1 / x,
                 slope_scale=lambda x: x if x < 1 else 1 / x,
                 reason="measured against the amplitude 1 / x beyond 1"),
]  # fmt: skip


def minus(sampler: Sampler) -> Sampler:
    return lambda rng, n: -sampler(rng, n)


PARAMETERS = mixed(between(-2, 1), minus(logarithmic(1e-6, 1e6)))


def ellipkm1(p: Any) -> Any:
    return mp.pi / 2 / mp.agm(1, mp.sqrt(p))


def slope_of_ellipk(m: Any) -> Any:
    return (mp.ellipe(m) - (1 - m) * mp.ellipk(m)) / (2 * m * (1 - m))


def lambert(name: str, k: int, domain: Sampler) -> AccuracyCase:
    return unary(
        name, lambda x: mp.lambertw(x, k),
        lambda x: 1 / ((mp.lambertw(x, k) + 1) * mp.exp(mp.lambertw(x, k))).real, domain,
        function=lambda x: pb.special.lambertw(x, k), cost=2,
        reason="the derivative contains 1 + w, which is small near -1/e",
    )  # fmt: skip


def part_of(name: str, i: int) -> Callable:
    return lambda x: getattr(pb.special, name)(x)[i]


FAR = mixed(between(-12, 12), logarithmic(1e-3, 1e3, signed=True))
INTEGRALS = [
    unary("sici (sine)", mp.si, lambda x: mp.sinc(x), FAR, function=part_of("sici", 0),
          slope_scale=lambda x: 1 / max(1, abs(x)),
          reason="the derivative is measured against 1 / max(1, abs(x))"),
    unary("sici (cosine)", mp.ci, lambda x: mp.cos(x) / x, logarithmic(1e-3, 1e3),
          function=part_of("sici", 1), scale=lambda x: 1 / max(1, abs(x)),
          slope_scale=lambda x: 1 / x, limits=(6, 16),
          reason="measured against 1 / max(1, x), derivatives against 1 / x"),
    unary("fresnel (sine)", mp.fresnels, lambda x: mp.sin(mp.pi * x * x / 2), FAR,
          function=part_of("fresnel", 0), slope_scale=lambda x: min(1, 4 * x * x), cost=4,
          reason="the derivative is measured against 1 beyond 0.5"),
    unary("fresnel (cosine)", mp.fresnelc, lambda x: mp.cos(mp.pi * x * x / 2), FAR,
          function=part_of("fresnel", 1), slope_scale=one, cost=4,
          reason="the derivative is measured against 1"),
    special("rgamma", mp.rgamma, lambda x: -mp.rgamma(x) * mp.digamma(x),
            mixed(between(-8, 8), between(1, 170)), limits=(6, 16),
            scale=lambda x: abs(mp.gamma(1 - x)) if x < 0.5 else 0,
            slope_scale=lambda x: abs(mp.gamma(1 - x)) if x < 0.5 else mp.rgamma(x),
            reason="below 0.5 errors are measured against gamma(1 - x), because of the zeros"),
    special("expi", mp.ei, lambda x: mp.exp(x) / x,
            mixed(logarithmic(1e-6, 80), between(30, 60), between(-40, 0)), limits=(16, 16),
            scale=lambda x: 1 if 0 < x < 1 else 0,
            reason="a sum of up to 115 terms; below 1 errors are measured against 1"),
    special("ellipk", mp.ellipk, slope_of_ellipk, PARAMETERS),
    special("ellipe", mp.ellipe, lambda m: (mp.ellipe(m) - mp.ellipk(m)) / (2 * m), PARAMETERS,
            limits=(16, 40), reason="a difference near m = 1 and for large -m"),
    special("ellipkm1", ellipkm1,
            lambda p: (ellipkm1(p) - mp.ellipe(1 - p) / p) / (2 * (1 - p)),
            logarithmic(1e-30, 0.9), limits=(6, 16), reason="a mean that takes up to twelve steps"),
    lambert("lambertw", 0, mixed(between(-0.36, 3), logarithmic(1e-6, 1e30))),
    lambert("lambertw(k=-1)", -1, mixed(between(-0.36, 0), minus(logarithmic(1e-30, 0.3)))),
]  # fmt: skip

CASES = [*ELEMENTARY, *ACTIVATIONS, *NORMAL, *ODDS, *GAMMA, *BESSEL, *INTEGRALS]
