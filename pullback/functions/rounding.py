"""Rounding to integers."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import Tensor, apply, node


def floor(x: Any) -> Tensor:
    """The largest integer that is not above each element.

    >>> import pullback as pb
    >>> pb.floor([1.7, -1.2]).tolist()
    [1.0, -2.0]
    """
    return apply("Floor", node(x))


def ceil(x: Any) -> Tensor:
    """The smallest integer that is not below each element.

    >>> import pullback as pb
    >>> pb.ceil([1.2, -1.7]).tolist()
    [2.0, -1.0]
    """
    return apply("Ceil", node(x))


def round(x: Any) -> Tensor:
    """The nearest integer; halves go to the even one.

    >>> import pullback as pb
    >>> pb.round([0.5, 1.5, 2.4]).tolist()
    [0.0, 2.0, 2.0]
    """
    return apply("Round", node(x))


def trunc(x: Any) -> Tensor:
    """Each element without its fraction.

    >>> import pullback as pb
    >>> pb.trunc([1.7, -1.7]).tolist()
    [1.0, -1.0]
    """
    return apply("Trunc", node(x))
