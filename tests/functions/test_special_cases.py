"""The special cases of the array API standard, function by function, on both engines.

Signed zeros must match. A result or a part of one in `Either` may have either sign: the standard
leaves it open. Where the standard leaves a whole case to the implementation, it is not listed;
`docs/derivatives.md` says where the engines differ there.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb

NAN, INF, PI = math.nan, math.inf, math.pi
POSITIVE, NEGATIVE = (0.5, 1.0, 3.0), (-0.5, -1.0, -3.0)
FINITE = (*NEGATIVE, -0.0, 0.0, *POSITIVE)


class Either(NamedTuple):
    """A value whose sign is unspecified."""

    size: float


@pytest.fixture(params=["xla", "reference"], autouse=True)
def _engine(request):
    with pb.config(engine=request.param), np.errstate(all="ignore"):
        yield


def differs(got: Any, want: Any, rtol: float) -> bool:
    if isinstance(want, Either):
        got, want = abs(got), want.size
    if math.isnan(want):
        return not math.isnan(got)
    close = math.isclose(got, want, rel_tol=rtol)
    return not close or math.copysign(1, got) != math.copysign(1, want)


def parts(value: Any) -> tuple:
    return value if type(value) is tuple else (value,)


def check(f: Any, dtype: str, cases: list[tuple[tuple, Any]]) -> None:
    """Compare all cases of a function in one call; report all that differ."""
    columns = zip(*[operands for operands, _ in cases], strict=True)
    got = f(*[pb.tensor(list(c), dtype=dtype) for c in columns]).numpy()
    wrong, rtol = [], 1e-3 if dtype == "float16" else 1e-6
    for (operands, want), found in zip(cases, got.tolist(), strict=True):
        have = (found.real, found.imag) if isinstance(found, complex) else (found,)
        if any(differs(x, y, rtol) for x, y in zip(have, parts(want), strict=True)):
            wrong.append(f"{operands} -> {found}, the standard has {want}")
    assert not wrong, "\n".join(wrong)


# -- one real operand -----------------------------------------------------------------------------

SAME = [(x, x) for x in (NAN, INF, -INF, 0.0, -0.0)]
UNARY: dict[str, list] = {
    "abs": [(NAN, NAN), (-0.0, 0.0), (INF, INF), (-INF, INF)],
    "acos": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (INF, NAN), (1.0, 0.0)],
    "acosh": [(NAN, NAN), (0.5, NAN), (-INF, NAN), (1.0, 0.0), (INF, INF)],
    "asin": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": SAME,
    "atan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2)],
    "atanh": [
        (NAN, NAN), (1.5, NAN), (-1.5, NAN), (1.0, INF), (-1.0, -INF), (0.0, 0.0), (-0.0, -0.0),
    ],
    "ceil": [*SAME, (3.0, 3.0), (-3.0, -3.0), (-0.5, -0.0)],
    "cos": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "cosh": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)],
    "exp": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0)],
    "expm1": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0)],
    "floor": [*SAME, (3.0, 3.0), (-3.0, -3.0)],
    "log": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log1p": [(NAN, NAN), (-1.5, NAN), (-1.0, -INF), (0.0, 0.0), (-0.0, -0.0), (INF, INF)],
    "log2": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log10": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "negative": [(0.0, -0.0), (-0.0, 0.0), (INF, -INF), (-INF, INF), (NAN, NAN)],
    "positive": SAME,
    "reciprocal": [(NAN, NAN), (INF, 0.0), (-INF, -0.0), (0.0, INF), (-0.0, -INF)],
    "round": [*SAME, (0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (3.0, 3.0)],
    "sign": [(NAN, NAN), (0.0, 0.0), (-0.0, 0.0), (INF, 1.0), (-INF, -1.0), (-2.0, -1.0)],
    "sin": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "sinh": SAME,
    "sqrt": [(NAN, NAN), (-1.0, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN)],
    "tan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "trunc": [*SAME, (3.0, 3.0), (-3.0, -3.0), (-0.5, -0.0)],
    "isfinite": [(NAN, False), (INF, False), (-INF, False), (0.0, True), (1.0, True)],
    "isinf": [(NAN, False), (INF, True), (-INF, True), (0.0, False)],
    "isnan": [(NAN, True), (INF, False), (0.0, False)],
    "signbit": [(0.0, False), (-0.0, True), (INF, False), (-INF, True), (1.0, False), (-1.0, True)],
}  # fmt: skip
# functions beyond the standard, where C and SciPy agree
UNARY |= {
    "cbrt": SAME,
    "digamma": [(NAN, NAN), (0.0, -INF), (-0.0, INF), (-1.0, NAN), (INF, INF)],
    "erf": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "erfc": [(NAN, NAN), (INF, 0.0), (-INF, 2.0), (0.0, 1.0)],
    "exp2": [(NAN, NAN), (0.0, 1.0), (INF, INF), (-INF, 0.0)],
    "lgamma": [(NAN, NAN), (0.0, INF), (-0.0, INF), (-1.0, INF), (1.0, 0.0), (2.0, 0.0)],
    "rsqrt": [(NAN, NAN), (INF, 0.0), (0.0, INF), (-1.0, NAN)],
    "sigmoid": [(NAN, NAN), (INF, 1.0), (-INF, 0.0), (0.0, 0.5)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_one_real_operand(name, dtype):
    check(getattr(pb, name), dtype, [((x,), want) for x, want in UNARY[name]])


# -- two real operands ----------------------------------------------------------------------------


def product_sign(x: float, y: float) -> float:
    return math.copysign(1, x) * math.copysign(1, y)


def odd(y: float) -> bool:
    return y % 2 == 1


def atan2_cases():
    yield from [((NAN, x), NAN) for x in (*FINITE, INF)] + [((x, NAN), NAN) for x in FINITE]
    for y in POSITIVE:
        yield from [((y, 0.0), PI / 2), ((y, -0.0), PI / 2)]
        yield from [((-y, 0.0), -PI / 2), ((-y, -0.0), -PI / 2)]
        yield from [((y, INF), 0.0), ((y, -INF), PI), ((-y, INF), -0.0), ((-y, -INF), -PI)]
        for zero in (0.0, -0.0):
            yield from [((zero, y), zero), ((zero, -y), math.copysign(PI, zero))]
    for zero in (0.0, -0.0):
        yield from [((zero, 0.0), zero), ((zero, -0.0), math.copysign(PI, zero))]
    for x in FINITE:
        yield from [((INF, x), PI / 2), ((-INF, x), -PI / 2)]
    for s in (1, -1):
        yield from [((s * INF, INF), s * PI / 4), ((s * INF, -INF), s * 3 * PI / 4)]


def add_cases():
    yield from [((NAN, x), NAN) for x in (*FINITE, INF, -INF, NAN)]
    yield from [((INF, -INF), NAN), ((-INF, INF), NAN), ((INF, INF), INF), ((-INF, -INF), -INF)]
    for x in FINITE:
        yield from [((INF, x), INF), ((x, INF), INF), ((-INF, x), -INF), ((x, -INF), -INF)]
    yield from [((-0.0, -0.0), -0.0), ((-0.0, 0.0), 0.0), ((0.0, -0.0), 0.0), ((0.0, 0.0), 0.0)]
    yield from [((zero, x), x) for zero in (0.0, -0.0) for x in (*POSITIVE, *NEGATIVE)]
    yield from [((x, -x), 0.0) for x in POSITIVE]


def multiply_cases():
    yield from [((NAN, x), NAN) for x in (*FINITE, INF, NAN)]
    for x, y in itertools.product((*FINITE, INF, -INF), repeat=2):
        if {abs(x), abs(y)} == {0.0, INF}:
            yield (x, y), NAN
        elif 0 in (x, y) or INF in (abs(x), abs(y)):
            yield (x, y), math.copysign(abs(x) * abs(y), product_sign(x, y))


def divide_cases():
    yield from [((NAN, x), NAN) for x in (*FINITE, INF)] + [((x, NAN), NAN) for x in FINITE]
    for x, y in itertools.product((*FINITE, INF, -INF), repeat=2):
        if abs(x) == abs(y) in (0.0, INF):
            yield (x, y), NAN
        elif abs(x) == INF or y == 0:
            yield (x, y), math.copysign(INF, product_sign(x, y))
        elif x == 0 or abs(y) == INF:
            yield (x, y), math.copysign(0.0, product_sign(x, y))


def floor_divide_cases():
    yield from [((NAN, x), NAN) for x in FINITE] + [((x, NAN), NAN) for x in FINITE]
    for x, y in itertools.product((*FINITE, INF, -INF), repeat=2):
        if abs(x) == abs(y) in (0.0, INF):
            yield (x, y), NAN
        elif y == 0:
            yield (x, y), math.copysign(INF, product_sign(x, y))
        elif x == 0:
            yield (x, y), math.copysign(0.0, product_sign(x, y))
        elif abs(y) == INF:  # and x is finite
            yield (x, y), 0.0 if product_sign(x, y) > 0 else -1.0
        elif abs(x) == INF:
            yield (x, y), NAN  # as in Python, which the standard allows


def remainder_cases():
    yield from [((NAN, x), NAN) for x in FINITE] + [((x, NAN), NAN) for x in FINITE]
    for x, y in itertools.product((*FINITE, INF, -INF), repeat=2):
        if abs(x) == INF or y == 0:
            yield (x, y), NAN
        elif x == 0:
            yield (x, y), math.copysign(0.0, y)
        elif abs(y) == INF:
            yield (x, y), x if product_sign(x, y) > 0 else y
        elif x / y == x // y:
            yield (x, y), math.copysign(0.0, y)


def pow_cases():
    everything = (*FINITE, INF, -INF)
    yield from [((x, NAN), NAN) for x in everything if x != 1]
    yield from [((x, zero), 1.0) for zero in (0.0, -0.0) for x in (*everything, NAN)]
    yield from [((NAN, y), NAN) for y in everything if y != 0]
    for x in everything:
        size = abs(x)
        yield (x, INF), INF if size > 1 else 1.0 if size == 1 else 0.0
        yield (x, -INF), 0.0 if size > 1 else 1.0 if size == 1 else INF
    for y in (*POSITIVE, *NEGATIVE, 2.0, -2.0):
        grows = y > 0
        yield (INF, y), INF if grows else 0.0
        yield (-INF, y), (-1 if odd(y) else 1) * (INF if grows else 0.0)
        yield (0.0, y), 0.0 if grows else INF
        yield (-0.0, y), (-1 if odd(y) else 1) * (0.0 if grows else INF)
    yield from [((x, y), NAN) for x in NEGATIVE for y in (0.5, -0.5, 1.5)]


def extremum_cases(pick):
    yield from [((NAN, x), NAN) for x in (*FINITE, INF, NAN)] + [((x, NAN), NAN) for x in FINITE]
    everything = (*FINITE, INF, -INF)
    yield from [((x, y), pick(x, y)) for x in everything for y in everything if x != y]


def hypot_cases():
    for x in (*FINITE, INF, -INF, NAN):
        yield from [((INF, x), INF), ((-INF, x), INF), ((x, INF), INF), ((x, -INF), INF)]
    yield from [((NAN, x), NAN) for x in FINITE] + [((x, NAN), NAN) for x in FINITE]
    for x in FINITE:
        yield from [((0.0, x), abs(x)), ((-0.0, x), abs(x)), ((x, 0.0), abs(x))]


def copysign_cases():
    for y in (*FINITE, INF, -INF, math.copysign(NAN, 1), math.copysign(NAN, -1)):
        yield from [((x, y), math.copysign(x, y)) for x in (*FINITE, INF, -INF)]
    yield from [((NAN, y), NAN) for y in FINITE]


def nextafter_cases():
    yield from [((NAN, x), NAN) for x in FINITE] + [((x, NAN), NAN) for x in FINITE]
    yield from [((x, x), x) for x in (*FINITE, INF, -INF)]
    yield from [((0.0, -0.0), -0.0), ((-0.0, 0.0), 0.0)]


BINARY = {
    "add": list(add_cases()),
    "atan2": list(atan2_cases()),
    "copysign": list(copysign_cases()),
    "divide": list(divide_cases()),
    "floor_divide": list(floor_divide_cases()),
    "hypot": list(hypot_cases()),
    "logaddexp": [((NAN, x), NAN) for x in (*FINITE, INF)] + [((x, NAN), NAN) for x in FINITE],
    "maximum": list(extremum_cases(max)),
    "minimum": list(extremum_cases(min)),
    "multiply": list(multiply_cases()),
    "nextafter": list(nextafter_cases()),
    "pow": list(pow_cases()),
    "remainder": list(remainder_cases()),
    "subtract": [((x, -y), want) for (x, y), want in add_cases()],
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", BINARY)
def test_two_real_operands(name, dtype):
    check(getattr(pb, name), dtype, BINARY[name])


@pytest.mark.parametrize("name", ["pow", "divide", "multiply"])
def test_a_number_as_second_operand(name):
    """NumPy and XLA have shortcuts for one exponent, divisor or factor."""
    for y in ("0.5", "-0.5", "2.0", "-1.0", "3.0", "0.0", "inf"):  # 0.0 == -0.0, but not as text
        cases = [((x,), want) for (x, other), want in BINARY[name] if str(other) == y]
        if cases:
            check(lambda x, y=y: getattr(pb, name)(x, float(y)), "float32", cases)


# -- one complex operand --------------------------------------------------------------------------


def turned(size: float, y: float) -> tuple[float, float]:
    """size * (cos y + i sin y), for a size that is 0 or infinite."""
    return math.copysign(size, math.cos(y)), math.copysign(size, math.sin(y))


ANGLES = (1.0, 2.0, 4.0, 5.0)  # one in each quadrant
SOME = (-2.0, -0.5, 0.5, 2.0)  # finite and not 0
REAL = (-2.0, -0.0, 0.0, 0.5)


def exp_cases():
    yield from [((0.0, 0.0), (1, 0.0)), ((-0.0, 0.0), (1, 0.0))]
    yield from [((x, y), (NAN, NAN)) for x in REAL for y in (INF, NAN)]
    yield (INF, 0.0), (INF, 0.0)
    yield from [((-INF, y), turned(0.0, y)) for y in ANGLES]
    yield from [((INF, y), turned(INF, y)) for y in ANGLES]
    yield from [((-INF, INF), (Either(0.0), Either(0.0))), ((INF, INF), (Either(INF), NAN))]
    yield from [((-INF, NAN), (Either(0.0), Either(0.0))), ((INF, NAN), (Either(INF), NAN))]
    yield from [((NAN, 0.0), (NAN, 0.0)), ((NAN, NAN), (NAN, NAN))]
    yield from [((NAN, y), (NAN, NAN)) for y in ANGLES]


def expm1_cases():
    yield from [((0.0, 0.0), (0.0, 0.0)), ((-0.0, 0.0), (0.0, 0.0))]
    yield from [((x, y), (NAN, NAN)) for x in REAL for y in (INF, NAN)]
    yield (INF, 0.0), (INF, 0.0)
    yield (-INF, 0.0), (-1, 0.0)
    yield from [((-INF, y), (-1, turned(0.0, y)[1])) for y in ANGLES]
    yield from [((INF, y), turned(INF, y)) for y in ANGLES]
    yield from [((-INF, INF), (-1, Either(0.0))), ((INF, INF), (Either(INF), NAN))]
    yield from [((-INF, NAN), (-1, Either(0.0))), ((INF, NAN), (Either(INF), NAN))]
    yield from [((NAN, 0.0), (NAN, 0.0)), ((NAN, NAN), (NAN, NAN)), ((NAN, 1.0), (NAN, NAN))]


def log_cases(pole=0.0):
    yield (pole, 0.0), (-INF, 0.0)
    if pole == 0:
        yield (-0.0, 0.0), (-INF, PI)
    yield from [((x, INF), (INF, PI / 2)) for x in REAL]
    yield from [((x, NAN), (NAN, NAN)) for x in REAL]
    yield from [((-INF, y), (INF, PI)) for y in (0.5, 2.0)]
    yield from [((INF, y), (INF, 0.0)) for y in (0.5, 2.0)]
    yield from [((-INF, INF), (INF, 3 * PI / 4)), ((INF, INF), (INF, PI / 4))]
    yield from [((x, NAN), (INF, NAN)) for x in (INF, -INF)]
    yield from [((NAN, y), (NAN, NAN)) for y in (0.0, 2.0, NAN)]
    yield (NAN, INF), (INF, NAN)


def sqrt_cases():
    yield from [((0.0, 0.0), (0.0, 0.0)), ((-0.0, 0.0), (0.0, 0.0))]
    yield from [((x, INF), (INF, INF)) for x in (*REAL, INF, -INF, NAN)]
    yield from [((x, NAN), (NAN, NAN)) for x in REAL]
    yield from [((-INF, y), (0.0, INF)) for y in (0.5, 2.0)]
    yield from [((INF, y), (INF, 0.0)) for y in (0.5, 2.0)]
    yield from [((-INF, NAN), (NAN, Either(INF))), ((INF, NAN), (INF, NAN))]
    yield from [((NAN, y), (NAN, NAN)) for y in (0.0, 2.0, NAN)]


def cosh_cases():
    yield (0.0, 0.0), (1, 0.0)
    yield from [((0.0, y), (NAN, Either(0.0))) for y in (INF, NAN)]
    yield from [((x, y), (NAN, NAN)) for x in SOME for y in (INF, NAN)]
    yield (INF, 0.0), (INF, 0.0)
    yield from [((INF, y), turned(INF, y)) for y in ANGLES]
    yield from [((INF, INF), (Either(INF), NAN)), ((INF, NAN), (INF, NAN))]
    yield from [
        ((NAN, 0.0), (NAN, Either(0.0))),
        ((NAN, 1.0), (NAN, NAN)),
        ((NAN, NAN), (NAN, NAN)),
    ]


def sinh_cases():
    yield (0.0, 0.0), (0.0, 0.0)
    yield from [((0.0, y), (Either(0.0), NAN)) for y in (INF, NAN)]
    yield from [((x, y), (NAN, NAN)) for x in SOME for y in (INF, NAN)]
    yield (INF, 0.0), (INF, 0.0)
    yield from [((INF, y), turned(INF, y)) for y in ANGLES]
    yield from [((INF, INF), (Either(INF), NAN)), ((INF, NAN), (Either(INF), NAN))]
    yield from [((NAN, 0.0), (NAN, 0.0)), ((NAN, 1.0), (NAN, NAN)), ((NAN, NAN), (NAN, NAN))]


def tanh_cases():
    yield (0.0, 0.0), (0.0, 0.0)
    yield from [((x, y), (NAN, NAN)) for x in SOME for y in (INF, NAN)]
    yield from [((0.0, INF), (0.0, NAN)), ((0.0, NAN), (0.0, NAN))]
    yield from [((INF, y), (1, 0.0)) for y in ANGLES]
    yield from [((INF, INF), (1, Either(0.0))), ((INF, NAN), (1, Either(0.0)))]
    yield from [((NAN, 0.0), (NAN, 0.0)), ((NAN, 1.0), (NAN, NAN)), ((NAN, NAN), (NAN, NAN))]


def acos_cases():
    yield from [((zero, 0.0), (PI / 2, -0.0)) for zero in (0.0, -0.0)]
    yield from [((zero, NAN), (PI / 2, NAN)) for zero in (0.0, -0.0)]
    yield from [((x, INF), (PI / 2, -INF)) for x in REAL]
    yield from [((x, NAN), (NAN, NAN)) for x in SOME]
    yield from [((-INF, y), (PI, -INF)) for y in (0.5, 2.0)]
    yield from [((INF, y), (0.0, -INF)) for y in (0.5, 2.0)]
    yield from [((-INF, INF), (3 * PI / 4, -INF)), ((INF, INF), (PI / 4, -INF))]
    yield from [((x, NAN), (NAN, Either(INF))) for x in (INF, -INF)]
    yield from [((NAN, y), (NAN, NAN)) for y in (*REAL, NAN)] + [((NAN, INF), (NAN, -INF))]


def acosh_cases():
    yield from [((zero, 0.0), (0.0, PI / 2)) for zero in (0.0, -0.0)]
    yield from [((x, INF), (INF, PI / 2)) for x in REAL]
    yield from [((zero, NAN), (NAN, PI / 2)) for zero in (0.0, -0.0)]
    yield from [((x, NAN), (NAN, NAN)) for x in SOME]
    yield from [((-INF, y), (INF, PI)) for y in (0.5, 2.0)]
    yield from [((INF, y), (INF, 0.0)) for y in (0.5, 2.0)]
    yield from [((-INF, INF), (INF, 3 * PI / 4)), ((INF, INF), (INF, PI / 4))]
    yield from [((x, NAN), (INF, NAN)) for x in (INF, -INF)]
    yield from [((NAN, y), (NAN, NAN)) for y in (*REAL, NAN)] + [((NAN, INF), (INF, NAN))]


def asinh_cases():
    yield (0.0, 0.0), (0.0, 0.0)
    yield from [((x, INF), (INF, PI / 2)) for x in (0.5, 2.0)]
    yield from [((x, NAN), (NAN, NAN)) for x in REAL]
    yield from [((INF, y), (INF, 0.0)) for y in (0.5, 2.0)]
    yield from [((INF, INF), (INF, PI / 4)), ((INF, NAN), (INF, NAN))]
    yield from [((NAN, 0.0), (NAN, 0.0)), ((NAN, 1.0), (NAN, NAN)), ((NAN, NAN), (NAN, NAN))]
    yield (NAN, INF), (Either(INF), NAN)


def atanh_cases():
    yield from [((0.0, 0.0), (0.0, 0.0)), ((0.0, NAN), (0.0, NAN)), ((1.0, 0.0), (INF, 0.0))]
    yield from [((x, INF), (0.0, PI / 2)) for x in (0.5, 2.0)]
    yield from [((x, NAN), (NAN, NAN)) for x in SOME]
    yield from [((INF, y), (0.0, PI / 2)) for y in (0.5, 2.0, INF)]
    yield (INF, NAN), (0.0, NAN)
    yield from [((NAN, y), (NAN, NAN)) for y in (0.5, 2.0, NAN)]
    yield (NAN, INF), (Either(0.0), PI / 2)


def over_i(cases):
    """The cases of f, from those of g, where f(z) = g(i z) / i."""

    def minus(x: Any) -> Any:
        return x if isinstance(x, Either) else -x

    yield from [((y, minus(x)), (im, minus(re))) for (x, y), (re, im) in cases]


def abs_cases():
    yield from [((x, y), INF) for x in (INF, -INF) for y in (*FINITE, INF, -INF, NAN)]
    yield from [((x, y), INF) for x in (*FINITE, NAN) for y in (INF, -INF)]
    yield from [((zero, y), abs(y)) for zero in (0.0, -0.0) for y in FINITE]
    yield from [((NAN, y), NAN) for y in (*FINITE, NAN)] + [((x, NAN), NAN) for x in FINITE]


def sign_cases():
    yield from [((x, y), (0.0, 0.0)) for x in (0.0, -0.0) for y in (0.0, -0.0)]
    yield from [((NAN, y), (NAN, NAN)) for y in (*FINITE, INF, NAN)]
    yield from [((x, NAN), (NAN, NAN)) for x in (*FINITE, INF)]


COMPLEX = {
    "abs": list(abs_cases()),
    "acos": list(acos_cases()),
    "acosh": list(acosh_cases()),
    "asin": list(over_i(asinh_cases())),
    "asinh": list(asinh_cases()),
    "atan": list(over_i(atanh_cases())),
    "atanh": list(atanh_cases()),
    "cos": [((y, -x), want) for (x, y), want in cosh_cases()],  # cos z = cosh(i z)
    "cosh": list(cosh_cases()),
    "exp": list(exp_cases()),
    "expm1": list(expm1_cases()),
    "log": list(log_cases()),
    "log1p": list(log_cases(-1.0)),
    "sign": list(sign_cases()),
    "sin": list(over_i(sinh_cases())),
    "sinh": list(sinh_cases()),
    "sqrt": list(sqrt_cases()),
    "tan": list(over_i(tanh_cases())),
    "tanh": list(tanh_cases()),
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", COMPLEX)
def test_one_complex_operand(name, dtype):
    cases = [((complex(*z),), want) for z, want in COMPLEX[name]]
    check(getattr(pb, name), dtype, cases)


@pytest.mark.parametrize("name", sorted(set(COMPLEX) - {"abs", "sign", "sqrt"}))
def test_conjugate_operands_have_conjugate_values(name):
    """All of them map the real line to itself, where they are continuous."""
    z = np.array([complex(*z) for z, _ in COMPLEX[name]])
    f = getattr(pb, name)
    above, below = f(pb.tensor(z)).numpy(), f(pb.tensor(z.conj())).numpy()
    np.testing.assert_array_equal(below, above.conj())


def test_how_many_cases_there_are():
    count = sum(len(c) for table in (UNARY, BINARY, COMPLEX) for c in table.values())
    assert count > 1000
