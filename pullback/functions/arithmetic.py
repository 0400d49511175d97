"""Arithmetic, element by element."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import (
    Tensor,
    apply,
    as_tensor,
    float_node,
    float_operands,
    fresh,
    node,
    number,
    operands,
)
from pullback.graph.node import constant
from pullback.graph.table import TABLE
from pullback.lazy.operators import NUMBERS, cast_node, node_of, scalar_dtype
from pullback.lazy.record import record


def add(x1: Any, x2: Any) -> Tensor:
    """The sum of two tensors.

    >>> import pullback as pb
    >>> pb.add([1, 2], 3).tolist()
    [4, 5]
    """
    return apply("Add", *operands(x1, x2))


def subtract(x1: Any, x2: Any) -> Tensor:
    """The difference of two tensors.

    >>> import pullback as pb
    >>> pb.subtract([5, 7], [1, 2]).tolist()
    [4, 5]
    """
    return apply("Sub", *operands(x1, x2))


def multiply(x1: Any, x2: Any) -> Tensor:
    """The product of two tensors.

    >>> import pullback as pb
    >>> pb.multiply([1, 2], [3, 4]).tolist()
    [3, 8]
    """
    return apply("Mul", *operands(x1, x2))


def divide(x1: Any, x2: Any) -> Tensor:
    """The quotient of two tensors; integers become floats first.

    >>> import pullback as pb
    >>> pb.divide([1, 2], 4).tolist()
    [0.25, 0.5]
    """
    return apply("Div", *float_operands(x1, x2))


def floor_divide(x1: Any, x2: Any) -> Tensor:
    """The quotient, rounded toward minus infinity.

    >>> import pullback as pb
    >>> pb.floor_divide([7, -7], 2).tolist()
    [3, -4]
    """
    return apply("FloorDiv", *operands(x1, x2))


def remainder(x1: Any, x2: Any) -> Tensor:
    """What floor division leaves; it has the divisor's sign.

    >>> import pullback as pb
    >>> pb.remainder([7, -7], 4).tolist()
    [3, 1]
    """
    return apply("Mod", *operands(x1, x2))


def pow(x1: Any, x2: Any) -> Tensor:
    """A power; an exponent that is a Python number is part of the program.

    >>> import pullback as pb
    >>> pb.pow([1.0, 2.0, 3.0], 2).tolist()
    [1.0, 4.0, 9.0]
    """
    exponent = number(x2)
    if type(exponent) not in NUMBERS:
        return apply("Pow", *operands(x1, x2))
    base = as_tensor(x1)
    dtype = scalar_dtype(exponent, base.dtype)
    x = cast_node(node_of(base), dtype)
    if _is_whole(exponent):
        return record(TABLE["IntegerPow"](int(exponent)), (x,))
    return apply("Pow", x, constant(exponent, dtype))


def _is_whole(exponent: Any) -> bool:
    """Whether an exponent is an integer, and small enough to multiply out."""
    if type(exponent) is float:
        return exponent.is_integer() and -(2**31) < exponent < 2**31
    return type(exponent) is not complex and -(2**31) < exponent < 2**31


def negative(x: Any) -> Tensor:
    """Each element with its sign changed.

    >>> import pullback as pb
    >>> pb.negative([1, -2]).tolist()
    [-1, 2]
    """
    return apply("Neg", node(x))


def positive(x: Any) -> Tensor:
    """The elements as they are, as a new tensor.

    >>> import pullback as pb
    >>> pb.positive([1, -2]).tolist()
    [1, -2]
    """
    return fresh(as_tensor(x))


def abs(x: Any) -> Tensor:
    """The magnitude of each element; its gradient at 0 is 0.

    >>> import pullback as pb
    >>> pb.abs([-1.5, 2.0]).tolist()
    [1.5, 2.0]
    """
    return apply("Abs", node(x))


def sign(x: Any) -> Tensor:
    """-1, 0 or 1 by each element's sign.

    >>> import pullback as pb
    >>> pb.sign([-3, 0, 5]).tolist()
    [-1, 0, 1]
    """
    return apply("Sign", node(x))


def square(x: Any) -> Tensor:
    """The square of each element.

    >>> import pullback as pb
    >>> pb.square([2, -3]).tolist()
    [4, 9]
    """
    return apply("Square", node(x))


def sqrt(x: Any) -> Tensor:
    """The square root of each element.

    >>> import pullback as pb
    >>> pb.sqrt([4.0, 9.0]).tolist()
    [2.0, 3.0]
    """
    return apply("Sqrt", float_node(x))


def rsqrt(x: Any) -> Tensor:
    """One over the square root of each element.

    >>> import pullback as pb
    >>> pb.rsqrt([4.0, 16.0]).tolist()
    [0.5, 0.25]
    """
    return apply("Rsqrt", float_node(x))


def reciprocal(x: Any) -> Tensor:
    """One over each element.

    >>> import pullback as pb
    >>> pb.reciprocal([2.0, 4.0]).tolist()
    [0.5, 0.25]
    """
    return apply("Reciprocal", float_node(x))


def maximum(x1: Any, x2: Any) -> Tensor:
    """The larger of two elements; equal ones share the gradient.

    >>> import pullback as pb
    >>> pb.maximum([1, 5], [3, 2]).tolist()
    [3, 5]
    """
    return apply("Maximum", *operands(x1, x2))


def minimum(x1: Any, x2: Any) -> Tensor:
    """The smaller of two elements; equal ones share the gradient.

    >>> import pullback as pb
    >>> pb.minimum([1, 5], [3, 2]).tolist()
    [1, 2]
    """
    return apply("Minimum", *operands(x1, x2))


def hypot(x1: Any, x2: Any) -> Tensor:
    """The length of the vector (x1, x2), without overflow.

    >>> import pullback as pb
    >>> pb.hypot(3.0, 4.0).item()
    5.0
    """
    return apply("Hypot", *float_operands(x1, x2))


def copysign(x1: Any, x2: Any) -> Tensor:
    """The magnitude of the first with the sign of the second.

    >>> import pullback as pb
    >>> pb.copysign([1.0, 2.0], [-0.0, 3.0]).tolist()
    [-1.0, 2.0]
    """
    return apply("CopySign", *float_operands(x1, x2))


def nextafter(x1: Any, x2: Any) -> Tensor:
    """The float next to the first in the direction of the second.

    >>> import pullback as pb
    >>> pb.nextafter(1.0, 2.0).item() - 1.0 == pb.finfo(pb.float32).eps
    True
    """
    return apply("NextAfter", *float_operands(x1, x2))


def cbrt(x: Any) -> Tensor:
    """The real cube root of each element.

    >>> import pullback as pb
    >>> pb.cbrt([8.0, -1.0]).tolist()
    [2.0, -1.0]
    """
    return apply("Cbrt", float_node(x))
