"""Floats taken apart and put together; remainders, and extrema that know NaN."""

from __future__ import annotations

import math
from typing import NamedTuple

from pullback.errors import DTypeError
from pullback.functions.arguments import (
    Tensor,
    apply,
    as_tensor,
    float_arguments,
    float_node,
    literal_argument,
    operator_operands,
)
from pullback.functions.arithmetic import abs, copysign, nextafter
from pullback.functions.arithmetic import maximum as _maximum
from pullback.functions.arithmetic import minimum as _minimum
from pullback.functions.barriers import optimization_barrier, stop_gradient
from pullback.functions.comparisons import isinf, isnan
from pullback.functions.composed import composed
from pullback.functions.data_types import astype, bitcast, finfo
from pullback.functions.function_factory import BinaryFunction, binary_function, float_unary
from pullback.functions.rounding import trunc
from pullback.functions.where_take import where
from pullback.graph.dtypes import DType, int32, int64
from pullback.graph.dtypes import dtype as dtype_of
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise.arithmetic import Abs
from pullback.ops.elementwise.division import Rem
from pullback.ops.elementwise.rounding_predicates import Round
from pullback.typing import ArrayLike

fmod: BinaryFunction = binary_function(
    "fmod", Rem, "Remainder of truncated division; it has the sign of the dividend.",
    "[7, -7], 4 -> [3, -3]",
)  # fmt: skip
rint = float_unary(
    "rint", Round, "Nearest integer as a float; halves are rounded to the even one.",
    "[0.5, 1.5, 2.4] -> [0.0, 2.0, 2.0]",
)  # fmt: skip


@composed
def fmax(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the larger of two elements, the other one where one is NaN.

    >>> pb.fmax([1.0, pb.nan], [0.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    a, b = map(wrap, operator_operands(x1, x2))
    return where(isnan(a), b, where(isnan(b), a, _maximum(a, b)))


@composed
def fmin(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the smaller of two elements, the other one where one is NaN.

    >>> pb.fmin([1.0, pb.nan], [0.0, 2.0]).tolist()
    [0.0, 2.0]
    """
    a, b = map(wrap, operator_operands(x1, x2))
    return where(isnan(a), b, where(isnan(b), a, _minimum(a, b)))


@composed
def fabs(x: ArrayLike) -> Tensor:
    """Return the magnitude of each real element as a float.

    >>> pb.fabs([-1, 2]).tolist()
    [1.0, 2.0]
    """
    a = float_node(x)
    if a.type.dtype.is_complex:
        message = f"needs real elements, got {a.type}; pb.abs takes complex ones"
        raise DTypeError(message, op="fabs")
    return apply(Abs, a)


@composed
def heaviside(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the step function: 0 below 0, 1 above, and `x2` at 0; NaN stays.

    >>> pb.heaviside([-1.5, 0.0, 2.0], 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    a, b = map(wrap, float_arguments(x1, x2))
    zero, one = literal_argument(0, a.dtype), literal_argument(1, a.dtype)
    steps = where(a < zero, zero, where(a > zero, one, b))
    return where(isnan(a), stop_gradient(a), steps)


@composed
def spacing(x: ArrayLike) -> Tensor:
    """Return the distance from each element to the next float away from 0, with its sign.

    >>> pb.spacing(pb.tensor(1.0)).item() == pb.finfo(pb.float32).eps
    True
    """
    a = stop_gradient(wrap(float_node(x)))
    size = abs(a)
    step = nextafter(size, literal_argument(math.inf, a.dtype))
    step = where(size == 0, step, step - size)
    return copysign(where(isinf(a), literal_argument(math.nan, a.dtype), step), a)


class Modf(NamedTuple):
    """The result of `modf`."""

    fractional: Tensor
    integral: Tensor


@composed
def modf(x: ArrayLike) -> Modf:
    """Return the fraction and the integral part of each element; both have its sign.

    >>> [part.tolist() for part in pb.modf([1.5, -2.25])]
    [[0.5, -0.25], [1.0, -2.0]]
    """
    a = wrap(float_node(x))
    fraction = apply(Rem, a._node, literal_argument(1, a.dtype)._node)
    return Modf(where(isinf(a), copysign(literal_argument(0, a.dtype), a), fraction), trunc(a))


class Frexp(NamedTuple):
    """The result of `frexp`."""

    mantissa: Tensor
    exponent: Tensor


# the number of bits of the mantissa, and the largest exponent
_FLOATS = {"f16": (10, 15), "bf16": (7, 127), "f32": (23, 127), "f64": (52, 1023)}


@composed
def ldexp(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return `x1` times two to the power of the integers `x2`.

    >>> pb.ldexp([1.0, 3.0], [2, -1]).tolist()
    [4.0, 1.5]
    """
    a, n = wrap(float_node(x1)), as_tensor(x2)
    if not n.dtype.is_integer or a.dtype.is_complex:
        got = f"{a._node.type} and {n._node.type}"
        raise DTypeError(f"needs real numbers and integer exponents, got {got}", op="ldexp")
    most = _FLOATS[a.dtype.name][1]
    n = astype(n, int64).clip(-3 * most, 3 * most)
    # In three steps of the same sign, whose powers of two are all finite: only a result that is
    # too large overflows. The barriers keep XLA from multiplying the powers first.
    third = n // 3
    for part in (third, third, n - 2 * third):
        a = optimization_barrier(a * _floating_point_power(part, a.dtype))
    return a


def _floating_point_power(n: Tensor, dtype: DType) -> Tensor:
    """Return 2**n exactly, for integers from -`most` + 1 to `most`; 0 for -`most`."""
    mantissa, most = _FLOATS[dtype.name]
    pattern = (n + literal_argument(most, int64)) << literal_argument(mantissa, int64)
    return bitcast(astype(pattern, dtype_of(f"i{dtype.bits}")), dtype)


@composed
def frexp(x: ArrayLike) -> Frexp:
    """Return mantissas, from 0.5 to 1 in magnitude, and exponents, such that
    `x == mantissa * 2**exponent`.

    >>> [part.tolist() for part in pb.frexp([8.0, -0.75])]
    [[0.5, -0.75], [4, 0]]
    """
    a = wrap(float_node(x))
    if a.dtype.is_complex:
        raise DTypeError(f"needs real elements, got {a._node.type}", op="frexp")
    bits, most = _FLOATS[a.dtype.name]
    # a subnormal number has no exponent of its own: scale it up first
    small = abs(a) < finfo(a.dtype).smallest_normal
    scaled = where(small, a * float(2**bits), a)
    pattern = astype(bitcast(stop_gradient(scaled), dtype_of(f"i{a.dtype.bits}")), int64)
    exponent = ((pattern >> bits) & (2 * most + 1)) - (most - 1)
    special = (a == 0) | isinf(a) | isnan(a)
    exponent = where(special, literal_argument(0, int64), exponent)
    mantissa = where(special, a, ldexp(scaled, -exponent))
    shift = where(small & ~special, literal_argument(bits, int64), literal_argument(0, int64))
    return Frexp(mantissa, astype(exponent - shift, int32))


__all__ = [
    "fabs", "fmax", "fmin", "fmod", "frexp", "heaviside", "ldexp", "modf", "rint", "spacing",
]  # fmt: skip
