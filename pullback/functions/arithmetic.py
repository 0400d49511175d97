"""Arithmetic, element by element."""

from __future__ import annotations

from pullback.functions.arguments import apply, argument_node, fresh_argument, record_as
from pullback.functions.composed import composed
from pullback.functions.function_factory import (
    BinaryFunction,
    UnaryFunction,
    binary_function,
    float_binary_function,
    float_unary,
    unary_function,
)
from pullback.graph.dtypes import complex128, float64
from pullback.graph.node import constant_node
from pullback.lazy.operators import (
    NUMBERS,
    as_tensor,
    cast_node,
    operator_number,
    operator_operands,
    scalar_operator_dtype,
    scalar_operator_operand,
)
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.elementwise.arithmetic import Abs, Add, Mul, Neg, Sign, Square, Sub
from pullback.ops.elementwise.division import Div, FloorDiv, Mod, Reciprocal
from pullback.ops.elementwise.float_bits import CopySign, NextAfter
from pullback.ops.elementwise.hypot_atan2 import Hypot
from pullback.ops.elementwise.maximum import Clamp, Maximum, Minimum
from pullback.ops.elementwise.power import IntegerPow, Pow
from pullback.ops.elementwise.roots import Cbrt, Rsqrt, Sqrt
from pullback.ops.reduce.extrema import extrema_bounds
from pullback.typing import ArrayLike

add: BinaryFunction = binary_function("add", Add, "Sum of two tensors.", "[1, 2], 3 -> [4, 5]")
subtract: BinaryFunction = binary_function(
    "subtract", Sub, "Difference of two tensors.", "[5, 7], [1, 2] -> [4, 5]"
)
multiply: BinaryFunction = binary_function(
    "multiply", Mul, "Product of two tensors.", "[1, 2], [3, 4] -> [3, 8]"
)
divide: BinaryFunction = float_binary_function(
    "divide", Div, "Quotient of two tensors; integers are converted to floats first.",
    "[1, 2], 4 -> [0.25, 0.5]",
)  # fmt: skip
floor_divide: BinaryFunction = binary_function(
    "floor_divide", FloorDiv, "Quotient rounded toward negative infinity.", "[7, -7], 2 -> [3, -4]"
)
remainder: BinaryFunction = binary_function(
    "remainder", Mod, "Remainder of floor division; it has the sign of the divisor.",
    "[7, -7], 4 -> [3, 1]",
)  # fmt: skip
maximum: BinaryFunction = binary_function(
    "maximum", Maximum, "Larger of two elements; equal elements share the gradient.",
    "[1, 5], [3, 2] -> [3, 5]",
)  # fmt: skip
minimum: BinaryFunction = binary_function(
    "minimum", Minimum, "Smaller of two elements; equal elements share the gradient.",
    "[1, 5], [3, 2] -> [1, 2]",
)  # fmt: skip
hypot: BinaryFunction = float_binary_function(
    "hypot", Hypot, "Length of the vector (x1, x2), without overflow.", "3.0, 4.0 -> 5.0"
)
copysign: BinaryFunction = float_binary_function(
    "copysign", CopySign, "Magnitude of the first with the sign of the second.",
    "[1.0, 2.0], [-0.0, 3.0] -> [-1.0, 2.0]",
)  # fmt: skip
nextafter: BinaryFunction = float_binary_function(
    "nextafter", NextAfter, "The float next to the first in the direction of the second.",
    "1.0, 2.0 -> 1.0000001...",
)  # fmt: skip

negative: UnaryFunction = unary_function(
    "negative", Neg, "Negative of each element.", "[1, -2] -> [-1, 2]"
)
abs: UnaryFunction = unary_function(
    "abs", Abs, "Magnitude of each element; its gradient at 0 is 0.", "[-1.5, 2.0] -> [1.5, 2.0]"
)
sign: UnaryFunction = unary_function(
    "sign", Sign, "Sign of each element: -1, 0 or 1.", "[-3, 0, 5] -> [-1, 0, 1]"
)
square: UnaryFunction = unary_function(
    "square", Square, "Square of each element.", "[2, -3] -> [4, 9]"
)
sqrt: UnaryFunction = float_unary(
    "sqrt", Sqrt, "Square root of each element.", "[4.0, 9.0] -> [2.0, 3.0]"
)
rsqrt: UnaryFunction = float_unary(
    "rsqrt", Rsqrt, "Reciprocal of the square root of each element.", "[4.0, 16.0] -> [0.5, 0.25]"
)
cbrt = float_unary("cbrt", Cbrt, "Real cube root of each element.", "[8.0, -1.0] -> [2.0, -1.0]")
reciprocal: UnaryFunction = float_unary(
    "reciprocal", Reciprocal, "Reciprocal of each element.", "[2.0, 4.0] -> [0.5, 0.25]"
)


def positive(x: ArrayLike) -> Tensor:
    """Return the same elements as a new tensor.

    >>> pb.positive([1, -2]).tolist()
    [1, -2]
    """
    return fresh_argument(as_tensor(x))


def pow(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Raise `x1` to the power `x2`.

    An exponent that is a Python int, or a float with an integral value up to 64, is part of the
    program and multiplied out; every other number is an input of it.

    >>> pb.pow([1.0, 2.0, 3.0], 2).tolist()
    [1.0, 4.0, 9.0]
    """
    exponent = operator_number(x2)
    if type(exponent) not in NUMBERS:
        return apply(Pow, *operator_operands(x1, x2))
    base = argument_node(x1)
    dtype = scalar_operator_dtype(exponent, base.type.dtype)
    x = cast_node(base, dtype)
    if type(exponent) is not complex:
        limit = 64 if type(exponent) is float else 2**31 - 1
        if -limit <= exponent <= limit and exponent == int(exponent):  # multiplied out
            return record(IntegerPow(int(exponent)), (x,))
    return apply(Pow, x, scalar_operator_operand(exponent, dtype))


def clip(x: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Tensor:
    """Limit elements to the range from `min` to `max`; on a limit the gradient is that of `x`.

    >>> pb.clip([-2, 0, 5], 0, 3).tolist()
    [0, 0, 3]
    """
    if min is None and max is None:
        return fresh_argument(as_tensor(x))
    given = [v for v in (min, max) if v is not None]
    a, *limits = operator_operands(as_tensor(x), *given)
    least, most = extrema_bounds(a.type.dtype)
    low = constant_node(least, a.type.dtype) if min is None else limits[0]
    high = constant_node(most, a.type.dtype) if max is None else limits[-1]
    return record_as("clip", Clamp(), a, low, high)


@composed
def divmod(x1: ArrayLike, x2: ArrayLike) -> tuple[Tensor, Tensor]:
    """Return the quotient rounded down and the remainder of it.

    >>> [r.tolist() for r in pb.divmod([7, -7], 4)]
    [[1, -2], [3, 1]]
    """
    a, b = map(wrap, operator_operands(x1, x2))
    return floor_divide(a, b), remainder(a, b)


@composed
def float_power(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Raise `x1` to the power `x2` in double precision, whatever their dtypes.

    >>> pb.float_power([1, 2, 3], -1).tolist()
    [1.0, 0.5, 0.333...]
    """
    a, b = operator_operands(x1, x2)
    wide = complex128 if a.type.dtype.is_complex else float64
    return pow(wrap(cast_node(a, wide)), wrap(cast_node(b, wide)))


__all__ = [
    "abs", "add", "cbrt", "clip", "copysign", "divide", "divmod", "float_power", "floor_divide",
    "hypot", "maximum", "minimum", "multiply", "negative", "nextafter", "positive", "pow",
    "reciprocal", "remainder", "rsqrt", "sign", "sqrt", "square", "subtract",
]  # fmt: skip
