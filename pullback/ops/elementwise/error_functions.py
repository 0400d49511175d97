"""The error function, its relatives and its inverse, to the last digits of f32 and f64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pullback.graph.dtypes import float64, int32, int64
from pullback.ops.elementwise.elementwise import Transcendental
from pullback.ops.elementwise.functions import both, equal, greater, guarded, less, where
from pullback.ops.elementwise.series import chebyshev_series, horner_series
from pullback.ops.elementwise.special_base import SpecialFunction
from pullback.ops.prelude import TABLE, Node, constant_node, op_functions

exp, log, sqrt, absolute = op_functions("Exp", "Log", "Sqrt", "Abs")
minimum, maximum, clamp = op_functions("Minimum", "Maximum", "Clamp")
with_sign, bits_and, reciprocal = op_functions("CopySign", "BitwiseAnd", "Reciprocal")
(exp_minus_square,) = op_functions("ExpMinusSquare")
SLOPE = 2 / math.sqrt(math.pi)  # of the error function at 0

# erf(x) / x as a quotient of polynomials in x * x, for |x| <= 4: relative error 2.5e-8
NUMERATOR = (
    1.1283791394284033, 0.1935459106391173, 0.05310182567213141, 0.0038833694111451897,
    0.0002845644916961287, 1.98675100707058e-06,
)  # fmt: skip
DENOMINATOR = (
    1.0, 0.5048581537518002, 0.1153503198681476, 0.015207306784296328, 0.0011855734355581387,
    3.741977401996993e-05,
)  # fmt: skip
# exp(x * x) erfc(x) as a quotient of polynomials, for 0 <= x <= 10.2: relative error 5.9e-9
SCALED_NUMERATOR = (
    1.0000000058477896, 1.2392508492110783, 0.7324848825111373, 0.22963881027265887,
    0.032884750469734866,
)  # fmt: skip
SCALED_DENOMINATOR = (
    1.0, 2.3676306053523435, 2.404060434517313, 1.3270127724006853, 0.407050191567686,
    0.058286017922245976,
)  # fmt: skip
# (1 + 2 x) exp(x * x) erfc(x) in Chebyshev polynomials of (x - 3) / (x + 3), for x >= 0
SCALED = (
    1.17756257419656, 0.005353904539615676, -0.09377550342284209, 0.05436652555744322,
    -0.018976596707845208, 0.004453426061462712, -0.0006335531710553147, 1.7661719523171593e-05,
    1.2841532864056671e-05, -2.0072285659059913e-06, -1.807522790414837e-07,
    7.549828343825093e-08, 1.885668523838603e-09, -2.699519049798364e-09, -1.460079119939105e-11,
    1.0361607445969489e-10, 1.475715976623473e-12, -4.277340064396911e-12, -2.07922492859799e-13,
    1.8134502003176963e-13, 1.973425574544739e-14, -7.287943737592673e-15,
    -1.5169878690228116e-15, 2.3514112258781403e-16, 1.0006111691821667e-16,
)  # fmt: skip


# -(1 + 2 x)**2 times the derivative of exp(x * x) erfc(x), in Chebyshev polynomials of
# (x - 3) / (x + 3), for x >= 0
SCALED_SLOPE = (
    2.200232774538129, 0.3923925876786969, -0.49251525885297887, 0.18456782022158594,
    -0.021957713708356103, -0.011176725563987367, 0.006688633816684982, -0.001628964165161042,
    0.00012928967973167008, 3.524340197409341e-05, -9.35343864327909e-06, -3.7210774387073354e-07,
    3.9425336829282767e-07, -6.470771520685845e-09, -1.6343728435430187e-08, 5.705368971003257e-10,
    7.327454731840939e-10, -1.694415974955691e-11, -3.535303909683819e-11, -5.535136252347178e-13,
    1.7481756873156016e-12, 1.3706968413312195e-13, -8.223566592063278e-14,
    -1.4184630648871465e-14, 3.2258269721295812e-15, 1.124050031422965e-15, -6.173596904574128e-17,
    -7.300616122882738e-17,
)  # fmt: skip


# erfinv(y) / y in Chebyshev polynomials of w = -log(1 - y * y) for w < 5, of sqrt(w) beyond
CENTRE = (
    1.4912989404744903, 0.60175630341083, -0.009170559500080926, -0.004962635326766425,
    0.0009153796700079642, -3.889562757083e-06, -2.4202599404944085e-05, 3.2665715925842334e-06,
    2.7758889803736634e-07, -1.3023363013643025e-07, 8.10464342479187e-09, 2.862438517693075e-09,
)  # fmt: skip
TAIL = (
    3.9731919688437296, 1.9037535162176482, 0.0052296343254513876, -0.0029745518609798167,
    0.0012910642117734215, -0.0005492365366065795, 0.00022483067842340548, -8.14093989685151e-05,
    2.2909414086022724e-05, -3.277524028096992e-06, -1.0965015117058807e-06,
    1.0367537411930462e-06, -4.155452695483388e-07, 8.517080862695358e-08, 8.031699869853395e-09,
    -1.3944109823426699e-08,
)  # fmt: skip
TAIL_START, TAIL_END = math.sqrt(5), 6.02


def error_function_by_element(
    function: Callable[[float], float],
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function of arrays from one of Python floats."""
    vectorized = np.vectorize(function, otypes=[np.float64])
    return lambda x: vectorized(x.astype(np.float64)).astype(x.dtype)


def inverse_erf(y: float) -> float:
    """Apply Newton's method to erf, and to erfc where y is near 1."""
    size = abs(y)
    if not size < 1:
        return math.copysign(math.inf, y) if size == 1 else math.nan
    w = -math.log((1 - size) * (1 + size))
    x = math.sqrt(w) * (math.sqrt(math.pi) / 2 if size < 0.5 else 1.0)
    for _ in range(100):
        gap = math.erf(x) - size if size < 0.5 else (1 - size) - math.erfc(x)
        step = gap / (SLOPE * math.exp(-x * x))
        x -= step / (1 + x * step)
        if abs(step) <= 1e-15 * x:
            break
    return math.copysign(x, y)


class Erf(Transcendental):
    """The error function: the integral of 2/sqrt(pi) exp(-t**2) from 0 to x."""

    ufunc = error_function_by_element(math.erf)

    def expand(self, x: Node) -> Node:
        if x.type.dtype is float64:
            size = absolute(x)
            taylor = [SLOPE * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(18)]
            far = 1 - Erfc()(size)
            return where(less(size, 1), x * horner_series(taylor, x * x), with_sign(far, x))
        x = clamp(
            x, constant_node(-4, x.type.dtype), constant_node(4, x.type.dtype)
        )  # 1 beyond, in f32
        quotient = x * horner_series(NUMERATOR, x * x) / horner_series(DENOMINATOR, x * x)
        return clamp(quotient, constant_node(-1, x.type.dtype), constant_node(1, x.type.dtype))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: exp_minus_square(x) * SLOPE,)


class Erfc(Transcendental):
    """1 - erf(x), accurate also where it is small."""

    ufunc = error_function_by_element(math.erfc)

    def expand(self, x: Node) -> Node:
        size = minimum(absolute(x), 40)
        if x.type.dtype is float64:
            scaled = chebyshev_series(SCALED, (size - 3) / (size + 3)) / (size * 2 + 1)
        else:
            scaled = horner_series(SCALED_NUMERATOR, size) / horner_series(SCALED_DENOMINATOR, size)
        right = times_exp_minus_square(scaled, size)
        return where(less(x, 0), 2 - right, right)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: exp_minus_square(x) * -SLOPE,)


class ErfInv(Transcendental):
    """The inverse of the error function; infinite at -1 and 1, NaN beyond."""

    domain = (-0.95, 0.95)
    singular = True
    ufunc = error_function_by_element(inverse_erf)

    def expand(self, x: Node) -> Node:
        size = absolute(x)
        w = -log((1 - size) * (1 + size))
        middle, reach = (TAIL_START + TAIL_END) / 2, (TAIL_END - TAIL_START) / 2
        centre, tail = (
            chebyshev_series(CENTRE, w / 2.5 - 1),
            chebyshev_series(TAIL, (sqrt(w) - middle) / reach),
        )
        root = size * where(less(w, 5), centre, tail)
        if x.type.dtype is float64:  # one step of Halley's method triples the number of digits
            near, far = Erf()(root) - size, (1 - size) - Erfc()(root)
            step = where(less(size, 0.5), near, far) / (exp(-(root * root)) * SLOPE)
            root = root - step / (root * step + 1)
        return with_sign(where(equal(size, 1), np.inf, root), x)

    def partials(self, out: Node, x: Node) -> tuple:
        def slope() -> Node:
            near = reciprocal(exp_minus_square(out) * SLOPE)
            # exp(y * y) is erfcx(y) / erfc(y), which does not magnify the rounding of y
            size, rest = absolute(out), 1 - absolute(x)
            far = Erfcx()(size) / rest * (1 / SLOPE)
            return where(both(greater(rest, 0), less(rest, 0.5)), far, near)

        return (slope,)


class Erfcx(SpecialFunction):
    """exp(x * x) erfc(x), the scaled complementary error function."""

    points = ((-1.5, -0.3, 0.0, 0.7, 4.0, 30.0),)

    def expand(self, x: Node) -> Node:
        size = absolute(x)
        made = scaled_erfc(size)
        growth = error_exp_of_square(minimum(size, 30))
        made = where(less(x, 0), growth * 2 - made, made)
        return where(less(size, 0.3), growth * (1 - Erf()(x)), made)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: -ErfcxSlope()(x),)


class ErfcxSlope(SpecialFunction):
    """Minus the derivative of Erfcx, without cancellation for large x."""

    points = ((-1.5, -0.3, 0.0, 0.7, 4.0, 30.0),)

    def expand(self, x: Node) -> Node:
        size = maximum(x, 0)
        scale = size * 2 + 1
        right = chebyshev_series(SCALED_SLOPE, erfcx_variable(size)) / scale / scale
        return where(less(x, 0), SLOPE - x * 2 * Erfcx()(x), right)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: (guarded(out, x) - Erfcx()(x)) * 2,)


def scaled_erfc(x: Node) -> Node:
    """Return exp(x * x) erfc(x) for x >= 0, in f32 for x <= 10.2 only."""
    if x.type.dtype is float64:
        return chebyshev_series(SCALED, erfcx_variable(x)) / (x * 2 + 1)
    return horner_series(SCALED_NUMERATOR, x) / horner_series(SCALED_DENOMINATOR, x)


def erfcx_variable(x: Node) -> Node:
    """Map [0, inf] to [-1, 1]."""
    return where(equal(x, np.inf), 1, (x - 3) / (x + 3))


def error_exp_of_square(x: Node) -> Node:
    """Return exp(x * x) in f64, with the digits that rounding the square loses."""
    return times_exp_minus_square(constant_node(1, x.type.dtype), x, -1)


def times_exp_minus_square(factor: Node, x: Node, scale: float = 1.0) -> Node:
    """Return factor * exp(-scale * x * x) for a power of 2 as scale; x is split so that the square
    of its leading bits is exact."""
    dtype = x.type.dtype
    integer, low = (int64, 27) if dtype is float64 else (int32, 12)
    kept = bits_and(TABLE["Bitcast"](integer)(x), -(2**low))
    leading = TABLE["Bitcast"](dtype)(kept)
    rest = (leading - x) * (leading + x) * scale
    # The rest is small wherever the result is not 0, so a few terms do. XLA would make one
    # exponential out of a product of two.
    series = [1 / math.factorial(k) for k in range(6)]
    return factor * exp(leading * leading * -scale) * horner_series(series, rest)
