"""Comparisons, classifications and logic."""

from __future__ import annotations

from pullback.errors import ShapeError
from pullback.functions.arguments import (
    apply,
    argument_node,
    as_tensor,
    bool_argument_node,
    float_arguments,
    literal_argument,
)
from pullback.functions.composed import composed
from pullback.functions.function_factory import (
    BinaryFunction,
    UnaryFunction,
    binary_function,
    describe_factory_function,
    unary_function,
)
from pullback.functions.shape import broadcast_shapes
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import bool_
from pullback.graph.node import Node
from pullback.lazy.operators import operator_number
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.weak_compare import FLIPPED, beyond_weak_limits
from pullback.ops.elementwise import logic as ops
from pullback.ops.elementwise.float_bits import SignBit
from pullback.ops.elementwise.rounding_predicates import IsFinite, IsInf, IsNan
from pullback.ops.op import Op
from pullback.typing import ArrayLike


def _comparison_function(name: str, op: type[Op], summary: str, example: str) -> BinaryFunction:
    """Like `binary_function`, but a Python integer may be one that the dtype cannot hold."""
    plain = binary_function(name, op, summary, example)

    def function(x1: ArrayLike, x2: ArrayLike) -> Tensor:
        for first, other, called in ((x1, x2, op.name), (x2, x1, FLIPPED[op.name])):
            if isinstance(first, Tensor):
                found = beyond_weak_limits(called, argument_node(first), operator_number(other))
                if found is not None:
                    return found
        return plain(x1, x2)

    return describe_factory_function(function, name, summary, example)


equal: BinaryFunction = _comparison_function(
    "equal", ops.Equal, "Whether elements are equal.", "[1, 2], [1, 3] -> [True, False]"
)
not_equal: BinaryFunction = _comparison_function(
    "not_equal", ops.NotEqual, "Whether elements differ.", "[1, 2], [1, 3] -> [False, True]"
)
less: BinaryFunction = _comparison_function(
    "less", ops.Less, "Whether the first is less than the second.", "[1, 2], 2 -> [True, False]"
)
less_equal: BinaryFunction = _comparison_function(
    "less_equal", ops.LessEqual, "Whether the first is at most the second.",
    "[1, 3], 2 -> [True, False]",
)  # fmt: skip
greater: BinaryFunction = _comparison_function(
    "greater", ops.Greater, "Whether the first is greater than the second.",
    "[1, 3], 2 -> [False, True]",
)  # fmt: skip
greater_equal: BinaryFunction = _comparison_function(
    "greater_equal", ops.GreaterEqual, "Whether the first is at least the second.",
    "[1, 2], 2 -> [False, True]",
)  # fmt: skip

isnan: UnaryFunction = unary_function(
    "isnan", IsNan, "Whether each element is NaN.", "[1.0, pb.nan] -> [False, True]"
)
isinf: UnaryFunction = unary_function(
    "isinf", IsInf, "Whether each element is infinite.", "[1.0, pb.inf] -> [False, True]"
)
isfinite: UnaryFunction = unary_function(
    "isfinite", IsFinite, "Whether each element is neither infinite nor NaN.",
    "[1.0, pb.inf] -> [True, False]",
)  # fmt: skip
signbit: UnaryFunction = unary_function(
    "signbit", SignBit, "Whether the sign of each element is minus, also that of -0.0.",
    "[1.0, -0.0] -> [False, True]",
)  # fmt: skip


def _compared_operands(x1: ArrayLike, x2: ArrayLike) -> list[Node]:
    return [bool_argument_node(x1), bool_argument_node(x2)]


logical_and: BinaryFunction = binary_function(
    "logical_and", ops.LogicalAnd, "Whether both are true.",
    "[True, False], True -> [True, False]", _compared_operands,
)  # fmt: skip
logical_or: BinaryFunction = binary_function(
    "logical_or", ops.LogicalOr, "Whether at least one is true.",
    "[True, False], False -> [True, False]", _compared_operands,
)  # fmt: skip
logical_xor: BinaryFunction = binary_function(
    "logical_xor", ops.LogicalXor, "Whether exactly one is true.",
    "[True, False], True -> [False, True]", _compared_operands,
)  # fmt: skip
logical_not: UnaryFunction = unary_function(
    "logical_not", ops.LogicalNot, "Whether each element is false.",
    "[True, False] -> [False, True]", bool_argument_node,
)  # fmt: skip


@with_argument_checks
def isclose(
    x1: ArrayLike, x2: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return whether elements differ by at most `atol + rtol * abs(x2)`, or are equal infinities.

    >>> pb.isclose([1.0, 2.0], [1.0, 2.1]).tolist()
    [True, False]
    """
    a, b = map(wrap, float_arguments(x1, x2))
    near = apply(ops.LessEqual, abs(a - b)._node, (atol + rtol * abs(b))._node)
    close = equal(a, b) | (near & isfinite(a) & isfinite(b))
    return close | (isnan(a) & isnan(b)) if equal_nan else close


@with_argument_checks
def allclose(
    x1: ArrayLike, x2: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return whether all elements are close, as defined by `isclose`.

    >>> bool(pb.allclose([1.0, 2.0], [1.0, 2.1]))
    False
    """
    return isclose(x1, x2, rtol, atol, equal_nan).all()


@composed
def array_equal(x1: ArrayLike, x2: ArrayLike, equal_nan: bool = False) -> Tensor:
    """Return whether two tensors have the same shape and equal elements.

    >>> pb.array_equal([1, 2], [1, 2]).item(), pb.array_equal([1, 2], [1]).item()
    (True, False)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if a.shape != b.shape:
        return literal_argument(False, bool_)
    same = equal(a, b)
    return (same | (isnan(a) & isnan(b)) if equal_nan else same).all()


@composed
def array_equiv(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return whether two tensors have equal elements after broadcasting.

    >>> pb.array_equiv([1, 2], [[1, 2], [1, 2]]).item()
    True
    """
    a, b = as_tensor(x1), as_tensor(x2)
    try:
        broadcast_shapes(a.shape, b.shape)
    except ShapeError:
        return literal_argument(False, bool_)
    return equal(a, b).all()


__all__ = [
    "allclose", "array_equal", "array_equiv", "equal", "greater", "greater_equal", "isclose",
    "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "logical_xor", "not_equal", "signbit",
]  # fmt: skip
