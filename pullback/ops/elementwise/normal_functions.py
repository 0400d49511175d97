"""The normal distribution: its density, its distribution function and their relatives."""

from __future__ import annotations

import math

import numpy as np

from pullback.graph.dtypes import float64
from pullback.ops.elementwise.error_functions import Erfcx, scaled_erfc, times_exp_minus_square
from pullback.ops.elementwise.functions import both, equal, greater, guarded, less, where
from pullback.ops.elementwise.series import RationalSeries, horner_series
from pullback.ops.elementwise.special_base import SharedFormula, SpecialFunction
from pullback.ops.prelude import Node, constant_node, op_functions

log, log1p, sqrt, absolute = op_functions("Log", "Log1p", "Sqrt", "Abs")
minimum, reciprocal = op_functions("Minimum", "Reciprocal")
ROOT_HALF = math.sqrt(0.5)
DENSITY = 1 / math.sqrt(2 * math.pi)  # of the normal distribution at 0
# The quantile of the normal distribution: divided by q = p - 1/2, as a function of 0.425**2 - q**2;
# and its size as a function of sqrt(-log(p)), less 1.6 up to 5, less 5 beyond
QUANTILE_MIDDLE = RationalSeries(
    (
        3.387132872796367, 157.92380629190376, 2914.9736430919625, 27209.24730183361,
        136311.93513984725, 359640.4628522911, 457088.7016205484, 227183.66533818515,
        23780.862270228175, -745.8792401288797,
    ),
    (
        1.0, 49.629884061274915, 987.6946731494415, 10114.95523289571, 56982.56632776284,
        175411.24484572822, 276361.7541978221, 191723.98408217108, 40633.49631611652,
    ),
)  # fmt: skip
QUANTILE_TAIL = RationalSeries(
    (
        1.4234371107496835, 4.658671152911319, 5.895441930593747, 3.867306448959962,
        1.4607583582995678, 0.3281996025557107, 0.04265573683356803, 0.0028477028904769918,
        7.021355815515727e-05,
    ),
    (
        1.0, 2.073096479855932, 1.7409835549495896, 0.7681616354872175, 0.19254621603461666,
        0.02720737081022722, 0.0019346295319642268, 4.964417089088834e-05, 3.604856526953905e-11,
    ),
)  # fmt: skip
QUANTILE_FAR = RationalSeries(
    (
        6.657904643501103, 7.055199549827735, 3.175425914630596, 0.7926126329944521,
        0.1201510782431347, 0.011389628038811148, 0.0006708930922654513, 2.366453955214538e-05,
        4.63831489536851e-07, 4.3857518990877305e-09, 1.4423768930103422e-11,
    ),
    (
        1.0, 0.8388585555164457, 0.2930139082242282, 0.055227462932999155, 0.006090408056180913,
        0.00039931661424735056, 1.5179030911424623e-05, 3.1276680192763057e-07,
        3.0502103292398346e-09, 1.0199130996607151e-11, 1.472329145955796e-20,
    ),
)  # fmt: skip


class ExpMinusSquare(SharedFormula):
    """exp(-x * x), accurate also where it is small."""

    points = ((-1.2, 0.0, 0.3, 4.0),)

    def expand(self, x: Node) -> Node:
        size = minimum(absolute(x), 40)
        return times_exp_minus_square(constant_node(1, x.type.dtype), size)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: guarded(out, x) * -2,)


class NormalPdf(SharedFormula):
    """The density of the standard normal distribution, accurate in both tails."""

    points = ((-1.2, 0.0, 0.3, 4.0),)

    def expand(self, x: Node) -> Node:
        size = minimum(absolute(x), 60)
        return times_exp_minus_square(constant_node(DENSITY, x.type.dtype), size, 0.5)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: -guarded(out, x),)


class NormalCdf(SharedFormula):
    """The distribution function of the standard normal distribution, accurate in both tails."""

    points = ((-6.0, -1.2, 0.0, 0.3, 4.0),)

    def expand(self, x: Node) -> Node:
        size = minimum(absolute(x), 60)
        tail = times_exp_minus_square(scaled_erfc(size * ROOT_HALF) * 0.5, size, 0.5)
        terms = [
            DENSITY * (-0.5) ** k / (math.factorial(k) * (2 * k + 1))
            for k in range(16 if x.type.dtype is float64 else 8)
        ]
        near = horner_series(terms, x * x) * x + 0.5
        return where(less(size, 0.7), near, where(less(x, 0), tail, 1 - tail))

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: NormalPdf()(x),)


class LogNormalCdf(SpecialFunction):
    """The logarithm of the normal distribution function, also where that underflows."""

    points = ((-30.0, -3.0, -1.2, -0.4, 0.5, 2.5),)

    def expand(self, x: Node) -> Node:
        far = minimum(x, -1)
        left = log(scaled_erfc(far * -ROOT_HALF) * 0.5) - far * far * 0.5
        right = log1p(-NormalCdf()(-x))
        return where(less(x, -1), left, right)

    def partials(self, out: Node, x: Node) -> tuple:
        def slope() -> Node:
            left = reciprocal(Erfcx()(x * -ROOT_HALF)) * (2 * DENSITY)
            return where(greater(x, 0), NormalPdf()(x) / NormalCdf()(x), left)

        return (slope,)


class NormalQuantile(SpecialFunction):
    """The inverse of the normal distribution function; infinite at 0 and 1, NaN beyond."""

    points = ((0.001, 0.05, 0.3, 0.5, 0.8, 0.99),)

    def expand(self, x: Node) -> Node:
        q = x - 0.5
        middle = QUANTILE_MIDDLE.at(0.180625 - q * q) * q
        right = greater(q, 0)
        root = sqrt(-log(where(right, 1 - x, x)))
        size = where(less(root, 5), QUANTILE_TAIL.at(root - 1.6), QUANTILE_FAR.at(root - 5))
        size = where(equal(root, np.inf), np.inf, size)
        made = where(less(absolute(q), 0.425), middle, where(right, size, -size))
        return where(both(less(x, 2), greater(x, -1)), made, np.nan)

    def partials(self, out: Node, x: Node) -> tuple:
        def slope() -> Node:
            # 1 / density is Mills' ratio over the tail, which does not magnify the rounding of out
            left = Erfcx()(out * -ROOT_HALF) / x * (0.5 / DENSITY)
            right = Erfcx()(out * ROOT_HALF) / (1 - x) * (0.5 / DENSITY)
            made = where(both(greater(x, 0.9), less(x, 1)), right, reciprocal(NormalPdf()(out)))
            return where(both(less(x, 0.1), greater(x, 0)), left, made)

        return (slope,)
