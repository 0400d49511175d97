"""Functions given by their values at points: interpolation and finite differences."""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    Tensor,
    along,
    as_tensor,
    as_tensors,
    float_arguments,
    float_node,
    literal,
    ordered_axes,
)
from pullback.functions.arithmetic import remainder
from pullback.functions.complex_parts import real
from pullback.functions.composed import composed
from pullback.functions.data_types import astype
from pullback.functions.histograms import insertion_points
from pullback.functions.joining import concat
from pullback.functions.shape import flatten, shaped
from pullback.functions.sorting import argsort
from pullback.functions.statistics import diff
from pullback.functions.where_take import take, where
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike, Axis


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
    at, points, values = as_tensors(x, xp, fp)
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
        at, points, values = _periodic(at, points, values, abs(period))
        left = right = None
    inside = _interpolated(at, points, values)
    first, last = (values[0] if left is None else left), (values[-1] if right is None else right)
    inside = where(at > points[-1], astype(last, inside.dtype), inside)
    return where(at < points[0], astype(first, inside.dtype), inside)


def _periodic(x: Tensor, xp: Tensor, fp: Tensor, period: float) -> tuple[Tensor, Tensor, Tensor]:
    """The same within one period, with the neighbours of its ends."""
    x, xp = remainder(x, period), remainder(xp, period)
    order = argsort(xp)
    xp, fp = take(xp, order), take(fp, order)
    xp = concat([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, concat([fp[-1:], fp, fp[:1]])


def _interpolated(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
    """Values between the first point and the last; beyond them, on the same lines."""
    if xp.size == 1:
        return fp[0] + (x - x)  # NaN stays
    flat = flatten(x)
    after = insertion_points(xp, flat, True).clip(1, xp.size - 1)
    x0, x1, f0, f1 = (take(v, i) for v in (xp, fp) for i in (after - 1, after))
    width = x1 - x0
    slope = (f1 - f0) / where(width == 0, literal(1, width.dtype), width)
    # on a point the value is that of the point, also if the other one is infinite
    made = where(flat == x1, f1 + slope * (flat - x1), f0 + slope * (flat - x0))
    return shaped(made, x.shape)


@composed
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int = 1
) -> Tensor | tuple[Tensor, ...]:
    """Return the derivative of sampled values along each axis by central differences; `pb.grad`
    differentiates functions. At the ends the differences are one-sided, of order 1 or 2.

    The samples are 1 apart, or by the distance or at the coordinates that are given: one for all
    axes, or one for each. Several axes give a tuple.

    >>> pb.gradient([1.0, 2.0, 4.0, 7.0]).tolist()
    [1.0, 1.5, 2.5, 3.0]
    """
    x = wrap(float_node(f))
    axes = tuple(range(x.ndim)) if axis is None else ordered_axes("gradient", axis, x.ndim)
    if edge_order not in (1, 2):
        raise ArgumentError(f"edge_order must be 1 or 2, got {edge_order}", op="gradient")
    if len(varargs) not in (0, 1, len(axes)):
        message = f"needs no spacing, one, or one for each of {len(axes)} axes, got {len(varargs)}"
        raise ArgumentError(message, op="gradient")
    given = varargs if len(varargs) == len(axes) else [varargs[0] if varargs else 1.0] * len(axes)
    made = tuple([_differences(x, i, step, edge_order) for i, step in zip(axes, given)])
    return made[0] if len(made) == 1 else made


def _differences(x: Tensor, axis: int, spacing: ArrayLike, edge_order: int) -> Tensor:
    n = x.shape[axis]
    if n < edge_order + 1:
        message = f"axis {axis} needs at least {edge_order + 1} elements, got {x._node.type}"
        raise ShapeError(message, op="gradient")
    steps = _steps(spacing, x, axis)

    def at(*places: Any) -> list[Tensor]:
        return [x[along(axis, slice(i, i + 1) if i != -1 else slice(-1, None))] for i in places]

    def gap(i: int) -> Tensor:
        return steps if not steps.ndim else steps[along(axis, slice(i, i + 1 or None))]

    if edge_order == 1:
        (a, b), (c, d) = at(0, 1), at(-2, -1)
        first, last = (b - a) / gap(0), (d - c) / gap(-1)
    else:
        first = _parabola(at(0, 1, 2), gap(0), gap(1))
        last = -_parabola(at(-1, -2, -3), gap(-1), gap(-2))
    if n == 2:
        return concat([first, last], axis=axis)
    before, here, after = (x[along(axis, s)] for s in (slice(-2), slice(1, -1), slice(2, None)))
    if not steps.ndim:
        inner = (after - before) / (2 * steps)
    else:
        h, k = steps[along(axis, slice(-1))], steps[along(axis, slice(1, None))]
        inner = (h * h * after + (k * k - h * h) * here - k * k * before) / (h * k * (h + k))
    return concat([first, inner, last], axis=axis)


def _parabola(values: list[Tensor], h: Tensor, k: Tensor) -> Tensor:
    """The slope at the first of three points of the parabola through them."""
    a, b, c = values
    return -(2 * h + k) / (h * (h + k)) * a + (h + k) / (h * k) * b - h / (k * (h + k)) * c


def _steps(spacing: ArrayLike, x: Tensor, axis: int) -> Tensor:
    """A distance, or those between neighbours along an axis."""
    h = as_tensor(spacing)
    if not h.dtype.is_complex:
        h = asarray(spacing, x.dtype.real)  # a Python number has no precision of its own
    if not h.ndim:
        return h
    if h.shape != (x.shape[axis],):
        must = f"a number or {x.shape[axis]} coordinates for axis {axis}"
        raise ShapeError(f"a spacing must be {must}, got {h._node.type}", op="gradient")
    steps = diff(h)
    return shaped(steps, (1,) * axis + (steps.size,) + (1,) * (x.ndim - axis - 1))


@composed
def ediff1d(
    x: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Tensor:
    """Return the differences of neighbours in the flattened tensor, with other elements put before
    and after them.

    >>> pb.ediff1d([1, 2, 4], to_end=[-9]).tolist()
    [1, 2, -9]
    """
    steps = diff(flatten(x))
    ends = [None if e is None else flatten(astype(e, steps.dtype)) for e in (to_begin, to_end)]
    parts = [p for p in (ends[0], steps, ends[1]) if p is not None]
    return concat(parts) if len(parts) > 1 else steps


__all__ = ["ediff1d", "gradient", "interp"]
