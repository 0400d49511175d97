"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import Tensor, apply, float_node, float_operands


def sin(x: Any) -> Tensor:
    """The sine of each element.

    >>> import pullback as pb
    >>> pb.sin(0.0).item()
    0.0
    """
    return apply("Sin", float_node(x))


def cos(x: Any) -> Tensor:
    """The cosine of each element.

    >>> import pullback as pb
    >>> pb.cos(0.0).item()
    1.0
    """
    return apply("Cos", float_node(x))


def tan(x: Any) -> Tensor:
    """The tangent of each element.

    >>> import pullback as pb
    >>> pb.tan(0.0).item()
    0.0
    """
    return apply("Tan", float_node(x))


def asin(x: Any) -> Tensor:
    """The inverse sine of each element.

    >>> import pullback as pb
    >>> pb.asin(0.0).item()
    0.0
    """
    return apply("Asin", float_node(x))


def acos(x: Any) -> Tensor:
    """The inverse cosine of each element.

    >>> import pullback as pb
    >>> pb.acos(1.0).item()
    0.0
    """
    return apply("Acos", float_node(x))


def atan(x: Any) -> Tensor:
    """The inverse tangent of each element.

    >>> import pullback as pb
    >>> pb.atan(0.0).item()
    0.0
    """
    return apply("Atan", float_node(x))


def sinh(x: Any) -> Tensor:
    """The hyperbolic sine of each element.

    >>> import pullback as pb
    >>> pb.sinh(0.0).item()
    0.0
    """
    return apply("Sinh", float_node(x))


def cosh(x: Any) -> Tensor:
    """The hyperbolic cosine of each element.

    >>> import pullback as pb
    >>> pb.cosh(0.0).item()
    1.0
    """
    return apply("Cosh", float_node(x))


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent of each element.

    >>> import pullback as pb
    >>> pb.tanh(0.0).item()
    0.0
    """
    return apply("Tanh", float_node(x))


def asinh(x: Any) -> Tensor:
    """The inverse hyperbolic sine of each element.

    >>> import pullback as pb
    >>> pb.asinh(0.0).item()
    0.0
    """
    return apply("Asinh", float_node(x))


def acosh(x: Any) -> Tensor:
    """The inverse hyperbolic cosine of each element.

    >>> import pullback as pb
    >>> pb.acosh(1.0).item()
    0.0
    """
    return apply("Acosh", float_node(x))


def atanh(x: Any) -> Tensor:
    """The inverse hyperbolic tangent of each element.

    >>> import pullback as pb
    >>> pb.atanh(0.0).item()
    0.0
    """
    return apply("Atanh", float_node(x))


def atan2(x1: Any, x2: Any) -> Tensor:
    """The angle of the point (x2, x1), in (-pi, pi].

    >>> import pullback as pb
    >>> pb.atan2(0.0, 1.0).item()
    0.0
    """
    return apply("Atan2", *float_operands(x1, x2))
