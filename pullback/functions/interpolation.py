"""Interpolation between points."""

from __future__ import annotations

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import Tensor, float_arguments, literal_argument, tensor_arguments
from pullback.functions.arithmetic import multiply, remainder
from pullback.functions.complex_parts import real
from pullback.functions.composed import composed
from pullback.functions.data_types import astype
from pullback.functions.joining import concat
from pullback.functions.shape import flatten, reshaped_to
from pullback.functions.sorted_search import sorted_insertion_points
from pullback.functions.sorting import argsort
from pullback.functions.where_take import take, where
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike


@composed
def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: ArrayLike | None = None,
    right: ArrayLike | None = None, period: float | None = None,
) -> Tensor:  # fmt: skip
    """Interpolate linearly between the points with ascending coordinates `xp` and values `fp`.

    Below the first point the value is `left`, above the last one `right`; by default, the value at
    that point. With a period, `xp` may have any order. The derivative at a point is that to its
    right. It is differentiable with respect to `x`, `xp` and `fp`.

    >>> pb.interp([0.5, 2.5], [0.0, 1.0, 2.0], [0.0, 10.0, 40.0]).tolist()
    [5.0, 40.0]
    """
    at, points, values = tensor_arguments(x, xp, fp)
    if points.ndim != 1 or points.shape != values.shape or not points.size:
        got = f"{points._node.type} and {values._node.type}"
        raise ShapeError(
            f"xp and fp must be vectors of the same size, not 0, got {got}", op="interp"
        )
    at, points, values = map(wrap, float_arguments(at, points, values))
    if values.dtype.is_complex:
        at, points = real(at), real(points)
    if period is not None:
        if not period:
            raise ArgumentError("period must not be 0", op="interp")
        at, points, values = _periodic_interpolation(at, points, values, abs(period))
        left = right = None
    inside = _interpolated_values(at, points, values)
    first, last = (values[0] if left is None else left), (values[-1] if right is None else right)
    inside = where(at > points[-1], astype(last, inside.dtype), inside)
    return where(at < points[0], astype(first, inside.dtype), inside)


def _periodic_interpolation(
    x: Tensor, xp: Tensor, fp: Tensor, period: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The same within one period, with the neighbours of its ends."""
    x, xp = remainder(x, period), remainder(xp, period)
    order = argsort(xp)
    xp, fp = take(xp, order), take(fp, order)
    xp = concat([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, concat([fp[-1:], fp, fp[:1]])


def _interpolated_values(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
    """Values between the first point and the last; beyond them, on the same lines."""
    if xp.size == 1:
        return fp[0] + (x - x)  # NaN stays
    flat = flatten(x)
    after = sorted_insertion_points(xp, flat, True).clip(1, xp.size - 1)
    x0, x1, f0, f1 = (take(v, i) for v in (xp, fp) for i in (after - 1, after))
    width = x1 - x0
    slope = (f1 - f0) / where(width == 0, literal_argument(1, width.dtype), width)
    # on a point the value is that of the point, also if the other one is infinite
    made = where(flat == x1, f1 + slope * (flat - x1), f0 + slope * (flat - x0))
    return reshaped_to(made, x.shape)


@composed
def lerp(start: ArrayLike, end: ArrayLike, weight: ArrayLike) -> Tensor:
    """Return `start + weight * (end - start)`.

    >>> pb.lerp([0.0, 10.0], [10.0, 20.0], 0.25).tolist()
    [2.5, 12.5]
    """
    first, last = map(wrap, float_arguments(start, end))
    return first + multiply(last - first, weight)


__all__ = ["interp", "lerp"]
