"""Functions of matrices that are sums of their powers."""

from __future__ import annotations

from pullback.functions.arguments import float_node, record_as
from pullback.lazy.tensor import Tensor
from pullback.ops.linalg.exponential import MatrixExp
from pullback.typing import ArrayLike


def expm(x: ArrayLike) -> Tensor:
    """Return the exponential of square matrices: the sum of their powers x^k / k!.

    It solves linear differential equations: the derivative of expm(t a) @ y with respect to t is a
    times it.

    >>> pb.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return record_as("linalg.expm", MatrixExp(), float_node(x))


__all__ = ["expm"]
