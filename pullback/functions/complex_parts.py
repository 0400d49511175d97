"""Complex numbers and their parts."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import Tensor, apply, float_node, float_operands, node


def real(x: Any) -> Tensor:
    """The real part of each element.

    >>> import pullback as pb
    >>> pb.real(1 + 2j).item()
    1.0
    """
    return apply("Real", node(x))


def imag(x: Any) -> Tensor:
    """The imaginary part of each element.

    >>> import pullback as pb
    >>> pb.imag(1 + 2j).item()
    2.0
    """
    return apply("Imag", node(x))


def conj(x: Any) -> Tensor:
    """The complex conjugate of each element.

    >>> import pullback as pb
    >>> pb.conj(1 + 2j).item()
    (1-2j)
    """
    return apply("Conj", node(x))


def angle(x: Any) -> Tensor:
    """The angle of each complex number, in (-pi, pi].

    >>> import pullback as pb
    >>> pb.angle(2.0).item()
    0.0
    """
    return apply("Angle", float_node(x))


def complex(x1: Any, x2: Any) -> Tensor:
    """The complex number with the given real and imaginary parts.

    >>> import pullback as pb
    >>> pb.complex(1.0, 2.0).item()
    (1+2j)
    """
    return apply("Complex", *float_operands(x1, x2))
