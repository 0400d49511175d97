"""Polynomials by their coefficients, the highest power first, and integrals of samples."""

from __future__ import annotations

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import along, as_tensors, axis_of, float_node, integer
from pullback.functions.creation import ones
from pullback.functions.cumulative import cumulative_prod
from pullback.functions.joining import concat
from pullback.functions.reductions import sum
from pullback.functions.shape import broadcast_to, expand_dims, flip
from pullback.functions.statistics import diff
from pullback.graph.arguments import flag
from pullback.lazy.operators import as_tensor, operands
from pullback.lazy.tensor import Tensor, wrap
from pullback.typing import ArrayLike


def polyval(p: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the values at `x` of the polynomial with coefficients `p`, the highest power first.

    >>> pb.polyval([1, 0, 3], [2, 5]).tolist()
    [7, 28]
    """
    coefficients, points = (wrap(n) for n in operands(as_tensor(p), as_tensor(x)))
    if coefficients.ndim > 1:
        what = f"p must be a vector of coefficients, got {coefficients._node.type}"
        raise ShapeError(what, op="polyval", code="E3002")
    if coefficients.ndim == 0:
        coefficients = expand_dims(coefficients)
    if not coefficients.size:
        return points * 0
    value = broadcast_to(coefficients[0], points.shape)
    for i in range(1, coefficients.size):  # Horner's scheme
        value = value * points + coefficients[i]
    return value


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the matrix whose columns are powers of `x`, from `N` - 1 to 0; `N` is its length.

    With `increasing`, the powers go from 0 to `N` - 1.

    >>> pb.vander([1, 2, 3], 3).tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    points = as_tensor(x)
    if points.ndim != 1:
        raise ShapeError(f"x must be a vector, got {points._node.type}", op="vander", code="E3002")
    count = points.shape[0] if N is None else integer("vander", N, "N")
    if count < 0:
        raise ArgumentError(f"N must not be negative, got {count}", op="vander")
    upwards = flag("vander", increasing, "increasing")
    one = ones((points.shape[0], min(count, 1)), dtype=points.dtype)
    if count > 1:
        rest = broadcast_to(expand_dims(points, 1), (points.shape[0], count - 1))
        one = concat([one, cumulative_prod(rest, axis=1, dtype=points.dtype)], axis=1)
    return one if upwards else flip(one, axis=1)


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Tensor:
    """Return the integral of samples along an axis by the trapezoidal rule.

    The samples are at the points `x`, or `dx` apart.

    >>> pb.trapezoid([1.0, 2.0, 3.0]).item(), pb.trapezoid([1.0, 2.0], x=[0.0, 3.0]).item()
    (4.0, 4.5)
    """
    y, spacing = as_tensors(y, 1 if x is None else x)
    values = wrap(float_node(y))
    place = axis_of("trapezoid", axis, values.ndim)
    steps = dx if x is None else _steps(spacing, values, place)
    later, earlier = values[along(place, slice(1, None))], values[along(place, slice(-1))]
    return sum((later + earlier) * steps, axis=place) / 2


def _steps(x: Tensor, y: Tensor, axis: int) -> Tensor:
    """The differences of the points, along the axis if they are a vector."""
    if x.ndim == 1:
        made = diff(x)
        return made.reshape((-1, *(1,) * (y.ndim - axis - 1)))
    return diff(x, axis=axis)


__all__ = ["polyval", "trapezoid", "vander"]
