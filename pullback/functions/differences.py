"""Differences of neighbours."""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    axis_argument,
    axis_slice_argument,
    checked_integer_argument,
    float_node,
    fresh_argument,
    ordered_axes_argument,
    tensor_arguments,
)
from pullback.functions.composed import composed
from pullback.functions.data_types import astype
from pullback.functions.joining import concat
from pullback.functions.shape import flatten, reshaped_to, spread_to_shape
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike, Axis


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
    axes = tuple(range(x.ndim)) if axis is None else ordered_axes_argument("gradient", axis, x.ndim)
    if edge_order not in (1, 2):
        raise ArgumentError(f"edge_order must be 1 or 2, got {edge_order}", op="gradient")
    if len(varargs) not in (0, 1, len(axes)):
        message = f"needs no spacing, one, or one for each of {len(axes)} axes, got {len(varargs)}"
        raise ArgumentError(message, op="gradient")
    given = varargs if len(varargs) == len(axes) else [varargs[0] if varargs else 1.0] * len(axes)
    made = tuple([_central_differences(x, i, step, edge_order) for i, step in zip(axes, given)])
    return made[0] if len(made) == 1 else made


def _central_differences(x: Tensor, axis: int, spacing: ArrayLike, edge_order: int) -> Tensor:
    n = x.shape[axis]
    if n < edge_order + 1:
        message = f"axis {axis} needs at least {edge_order + 1} elements, got {x._node.type}"
        raise ShapeError(message, op="gradient")
    steps = _spacing_of_differences(spacing, x, axis)

    def at(*places: Any) -> list[Tensor]:
        return [
            x[axis_slice_argument(axis, slice(i, i + 1) if i != -1 else slice(-1, None))]
            for i in places
        ]

    def gap(i: int) -> Tensor:
        return (
            steps if not steps.ndim else steps[axis_slice_argument(axis, slice(i, i + 1 or None))]
        )

    if edge_order == 1:
        (a, b), (c, d) = at(0, 1), at(-2, -1)
        first, last = (b - a) / gap(0), (d - c) / gap(-1)
    else:
        first = _one_sided_difference(at(0, 1, 2), gap(0), gap(1))
        last = -_one_sided_difference(at(-1, -2, -3), gap(-1), gap(-2))
    if n == 2:
        return concat([first, last], axis=axis)
    before, here, after = (
        x[axis_slice_argument(axis, s)] for s in (slice(-2), slice(1, -1), slice(2, None))
    )
    if not steps.ndim:
        inner = (after - before) / (2 * steps)
    else:
        h, k = (
            steps[axis_slice_argument(axis, slice(-1))],
            steps[axis_slice_argument(axis, slice(1, None))],
        )
        inner = (h * h * after + (k * k - h * h) * here - k * k * before) / (h * k * (h + k))
    return concat([first, inner, last], axis=axis)


def _one_sided_difference(values: list[Tensor], h: Tensor, k: Tensor) -> Tensor:
    """The slope at the first of three points of the parabola through them."""
    a, b, c = values
    return -(2 * h + k) / (h * (h + k)) * a + (h + k) / (h * k) * b - h / (k * (h + k)) * c


def _spacing_of_differences(spacing: ArrayLike, x: Tensor, axis: int) -> Tensor:
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
    return reshaped_to(steps, (1,) * axis + (steps.size,) + (1,) * (x.ndim - axis - 1))


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


def diff(
    x: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the differences of neighbours along an axis, taken `n` times.

    `prepend` and `append` are joined to `x` first; with `n` = 0, `x` is returned without them.

    >>> pb.diff([1, 4, 9]).tolist()
    [3, 5]
    """
    if n == 0:
        return fresh_argument(as_tensor(x))
    result = _differences_with_ends(as_tensor(x), axis, prepend, append)
    axis = axis_argument("diff", axis, result.ndim)
    count = checked_integer_argument("diff", n, "n", bounded=False)
    if count < 0:
        raise ArgumentError(f"n must not be negative, got {count}", op="diff")
    for _ in range(min(count, result.shape[axis])):  # nothing is left after so many
        later, earlier = (
            result[axis_slice_argument(axis, slice(1, None))],
            result[axis_slice_argument(axis, slice(-1))],
        )
        result = later ^ earlier if result.dtype.kind == "b" else later - earlier
    return result


def _differences_with_ends(
    x: Tensor, axis: int, prepend: ArrayLike | None, append: ArrayLike | None
) -> Tensor:
    """Join tensors to both ends along an axis; a number stands for one element everywhere."""
    if prepend is None and append is None:
        return x
    place = axis_argument("diff", axis, x.ndim)
    shape = (*x.shape[:place], 1, *x.shape[place + 1 :])
    xs = tensor_arguments(*[v for v in (prepend, x, append) if v is not None])
    return concat([v if v.ndim else spread_to_shape(v, shape) for v in xs], axis=place)


__all__ = ["diff", "ediff1d", "gradient"]
