"""Exponentials and logarithms."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import Tensor, apply, float_node, float_operands


def exp(x: Any) -> Tensor:
    """e to the power of each element.

    >>> import pullback as pb
    >>> pb.exp(0.0).item()
    1.0
    """
    return apply("Exp", float_node(x))


def exp2(x: Any) -> Tensor:
    """2 to the power of each element.

    >>> import pullback as pb
    >>> pb.exp2(3.0).item()
    8.0
    """
    return apply("Exp2", float_node(x))


def expm1(x: Any) -> Tensor:
    """exp(x) - 1, exact near 0.

    >>> import pullback as pb
    >>> pb.expm1(0.0).item()
    0.0
    """
    return apply("Expm1", float_node(x))


def log(x: Any) -> Tensor:
    """The natural logarithm of each element.

    >>> import pullback as pb
    >>> pb.log(1.0).item()
    0.0
    """
    return apply("Log", float_node(x))


def log1p(x: Any) -> Tensor:
    """log(1 + x), exact near 0.

    >>> import pullback as pb
    >>> pb.log1p(0.0).item()
    0.0
    """
    return apply("Log1p", float_node(x))


def log2(x: Any) -> Tensor:
    """The logarithm to base 2 of each element.

    >>> import pullback as pb
    >>> pb.log2(8.0).item()
    3.0
    """
    return apply("Log2", float_node(x))


def log10(x: Any) -> Tensor:
    """The logarithm to base 10 of each element.

    >>> import pullback as pb
    >>> pb.log10(1.0).item()
    0.0
    """
    return apply("Log10", float_node(x))


def logistic(x: Any) -> Tensor:
    """1 / (1 + exp(-x)), without overflow.

    >>> import pullback as pb
    >>> pb.logistic(0.0).item()
    0.5
    """
    return apply("Logistic", float_node(x))


def erf(x: Any) -> Tensor:
    """The error function of each element.

    >>> import pullback as pb
    >>> pb.erf(0.0).item()
    0.0
    """
    return apply("Erf", float_node(x))


def erfc(x: Any) -> Tensor:
    """1 - erf(x), exact for large x.

    >>> import pullback as pb
    >>> pb.erfc(0.0).item()
    1.0
    """
    return apply("Erfc", float_node(x))


def logaddexp(x1: Any, x2: Any) -> Tensor:
    """log(exp(x1) + exp(x2)), without overflow.

    >>> import pullback as pb
    >>> round(pb.logaddexp(0.0, 0.0).item(), 4)
    0.6931
    """
    return apply("LogAddExp", *float_operands(x1, x2))
