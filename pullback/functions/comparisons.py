"""Comparisons, classifications and logic."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import (
    Tensor,
    apply,
    cast_node,
    float_operands,
    node,
    operands,
)
from pullback.graph.dtypes import bool_
from pullback.graph.node import Node
from pullback.lazy.operators import number
from pullback.lazy.tensor import wrap
from pullback.lazy.weak_compare import FLIPPED, beyond


def equal(x1: Any, x2: Any) -> Tensor:
    """Whether elements are equal.

    >>> import pullback as pb
    >>> pb.equal([1, 2], [1, 3]).tolist()
    [True, False]
    """
    return _compared("Equal", x1, x2)


def not_equal(x1: Any, x2: Any) -> Tensor:
    """Whether elements differ.

    >>> import pullback as pb
    >>> pb.not_equal([1, 2], [1, 3]).tolist()
    [False, True]
    """
    return _compared("NotEqual", x1, x2)


def less(x1: Any, x2: Any) -> Tensor:
    """Whether the first is less than the second.

    >>> import pullback as pb
    >>> pb.less([1, 2], 2).tolist()
    [True, False]
    """
    return _compared("Less", x1, x2)


def less_equal(x1: Any, x2: Any) -> Tensor:
    """Whether the first is at most the second.

    >>> import pullback as pb
    >>> pb.less_equal([1, 3], 2).tolist()
    [True, False]
    """
    return _compared("LessEqual", x1, x2)


def greater(x1: Any, x2: Any) -> Tensor:
    """Whether the first is greater than the second.

    >>> import pullback as pb
    >>> pb.greater([1, 3], 2).tolist()
    [False, True]
    """
    return _compared("Greater", x1, x2)


def greater_equal(x1: Any, x2: Any) -> Tensor:
    """Whether the first is at least the second.

    >>> import pullback as pb
    >>> pb.greater_equal([1, 2], 2).tolist()
    [False, True]
    """
    return _compared("GreaterEqual", x1, x2)


def _compared(name: str, x1: Any, x2: Any) -> Tensor:
    for first, other, called in ((x1, x2, name), (x2, x1, FLIPPED[name])):
        if isinstance(first, Tensor):
            made = beyond(called, node(first), number(other))
            if made is not None:
                return made
    return apply(name, *operands(x1, x2))


def isnan(x: Any) -> Tensor:
    """Whether each element is NaN.

    >>> import pullback as pb
    >>> pb.isnan([1.0, float("nan")]).tolist()
    [False, True]
    """
    return apply("IsNan", node(x))


def isinf(x: Any) -> Tensor:
    """Whether each element is infinite.

    >>> import pullback as pb
    >>> pb.isinf([1.0, float("inf")]).tolist()
    [False, True]
    """
    return apply("IsInf", node(x))


def isfinite(x: Any) -> Tensor:
    """Whether each element is neither infinite nor NaN.

    >>> import pullback as pb
    >>> pb.isfinite([1.0, float("inf")]).tolist()
    [True, False]
    """
    return apply("IsFinite", node(x))


def signbit(x: Any) -> Tensor:
    """Whether the sign of each element is minus, also of -0.0.

    >>> import pullback as pb
    >>> pb.signbit([1.0, -0.0]).tolist()
    [False, True]
    """
    return apply("SignBit", node(x))


def truth(x: Any) -> Node:
    """Anything as bools: what is not 0 holds."""
    return cast_node(node(x), bool_)


def truths(*values: Any) -> list[Node]:
    return [truth(v) for v in values]


def logical_and(x1: Any, x2: Any) -> Tensor:
    """Whether both hold.

    >>> import pullback as pb
    >>> pb.logical_and([True, False], True).tolist()
    [True, False]
    """
    return apply("LogicalAnd", *truths(x1, x2))


def logical_or(x1: Any, x2: Any) -> Tensor:
    """Whether at least one holds.

    >>> import pullback as pb
    >>> pb.logical_or([True, False], False).tolist()
    [True, False]
    """
    return apply("LogicalOr", *truths(x1, x2))


def logical_xor(x1: Any, x2: Any) -> Tensor:
    """Whether exactly one holds.

    >>> import pullback as pb
    >>> pb.logical_xor([True, False], True).tolist()
    [False, True]
    """
    return apply("LogicalXor", *truths(x1, x2))


def logical_not(x: Any) -> Tensor:
    """Whether each element does not hold.

    >>> import pullback as pb
    >>> pb.logical_not([True, False]).tolist()
    [False, True]
    """
    return apply("LogicalNot", truth(x))


def isclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether elements agree within `atol + rtol * abs(x2)`; equal infinities agree.

    >>> import pullback as pb
    >>> pb.isclose([1.0, 2.0], [1.0, 2.1]).tolist()
    [True, False]
    """
    a, b = map(wrap, float_operands(x1, x2))
    near = apply("LessEqual", (a - b).__abs__()._node, (atol + rtol * b.__abs__())._node)
    made = equal(a, b) | (near & isfinite(a) & isfinite(b))
    return made | (isnan(a) & isnan(b)) if equal_nan else made


def allclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether all elements agree, as `isclose` says.

    >>> import pullback as pb
    >>> bool(pb.allclose([1.0, 2.0], [1.0, 2.1]))
    False
    """
    return isclose(x1, x2, rtol, atol, equal_nan).all()
