"""Integrals of samples."""

from __future__ import annotations

from pullback.functions.arguments import (
    as_tensor,
    axis_argument,
    axis_slice_argument,
    float_node,
    tensor_arguments,
)
from pullback.functions.composed import composed
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.differences import diff
from pullback.functions.joining import concat
from pullback.functions.reductions import sum
from pullback.functions.shape import reshaped_to, spread_to_shape
from pullback.lazy.tensor import Tensor, wrap
from pullback.typing import ArrayLike


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Tensor:
    """Return the integral of samples along an axis by the trapezoidal rule.

    The samples are at the points `x`, or `dx` apart.

    >>> pb.trapezoid([1.0, 2.0, 3.0]).item(), pb.trapezoid([1.0, 2.0], x=[0.0, 3.0]).item()
    (4.0, 4.5)
    """
    y, spacing = tensor_arguments(y, 1 if x is None else x)
    values = wrap(float_node(y))
    place = axis_argument("trapezoid", axis, values.ndim)
    steps = dx if x is None else _integration_steps(spacing, values, place)
    later, earlier = (
        values[axis_slice_argument(place, slice(1, None))],
        values[axis_slice_argument(place, slice(-1))],
    )
    return sum((later + earlier) * steps, axis=place) / 2


def _integration_steps(x: Tensor, y: Tensor, axis: int) -> Tensor:
    """The differences of the points, along the axis if they are a vector."""
    if x.ndim == 1:
        made = diff(x)
        return made.reshape((-1, *(1,) * (y.ndim - axis - 1)))
    return diff(x, axis=axis)


@composed
def cumulative_trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1,
    initial: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the integral from the first sample up to each other one, by the trapezoidal rule.

    With `initial`, that number is in front, so the result is as long as `y`.

    >>> pb.cumulative_trapezoid([1.0, 2.0, 3.0]).tolist()
    [1.5, 4.0]
    """
    values = wrap(float_node(y))
    place = axis_argument("cumulative_trapezoid", axis, values.ndim)
    if x is None:
        steps = as_tensor(dx)
    else:
        points = as_tensor(x)
        steps = diff(points, axis=-1 if points.ndim == 1 else place)
        if points.ndim == 1:
            steps = reshaped_to(steps, (steps.size, *(1,) * (values.ndim - place - 1)))
    later, earlier = (
        values[axis_slice_argument(place, slice(1, None))],
        values[axis_slice_argument(place, slice(-1))],
    )
    made = cumulative_sum(steps * (later + earlier) / 2, axis=place)
    if initial is None:
        return made
    shape = (*made.shape[:place], 1, *made.shape[place + 1 :])
    return concat([spread_to_shape(as_tensor(initial).astype(made.dtype), shape), made], axis=place)


__all__ = ["cumulative_trapezoid", "trapezoid"]
