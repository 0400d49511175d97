"""Operations on the bits of integers."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import Tensor, apply, node, operands


def bitwise_and(x1: Any, x2: Any) -> Tensor:
    """The bits that both have.

    >>> import pullback as pb
    >>> pb.bitwise_and([6, 5], 3).tolist()
    [2, 1]
    """
    return apply("BitwiseAnd", *operands(x1, x2))


def bitwise_or(x1: Any, x2: Any) -> Tensor:
    """The bits that at least one has.

    >>> import pullback as pb
    >>> pb.bitwise_or([6, 5], 3).tolist()
    [7, 7]
    """
    return apply("BitwiseOr", *operands(x1, x2))


def bitwise_xor(x1: Any, x2: Any) -> Tensor:
    """The bits that exactly one has.

    >>> import pullback as pb
    >>> pb.bitwise_xor([6, 5], 3).tolist()
    [5, 6]
    """
    return apply("BitwiseXor", *operands(x1, x2))


def bitwise_left_shift(x1: Any, x2: Any) -> Tensor:
    """The bits moved toward the high end.

    >>> import pullback as pb
    >>> pb.bitwise_left_shift([1, 3], 2).tolist()
    [4, 12]
    """
    return apply("ShiftLeft", *operands(x1, x2))


def bitwise_right_shift(x1: Any, x2: Any) -> Tensor:
    """The bits moved toward the low end; the sign stays.

    >>> import pullback as pb
    >>> pb.bitwise_right_shift([8, -8], 2).tolist()
    [2, -2]
    """
    return apply("ShiftRight", *operands(x1, x2))


def bitwise_invert(x: Any) -> Tensor:
    """Every bit flipped; of a bool, the other one.

    >>> import pullback as pb
    >>> pb.bitwise_invert([0, 1]).tolist()
    [-1, -2]
    """
    return apply("BitwiseNot", node(x))


def bitwise_count(x: Any) -> Tensor:
    """The number of bits set in each integer.

    >>> import pullback as pb
    >>> pb.bitwise_count([7, 8]).tolist()
    [3, 1]
    """
    return apply("PopulationCount", node(x))
