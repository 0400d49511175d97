"""Angles: degrees, radians, and jumps of whole turns."""

from __future__ import annotations

import math

from pullback.errors import DTypeError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    axis_argument,
    axis_slice_argument,
    float_node,
)
from pullback.functions.arithmetic import abs, remainder
from pullback.functions.composed import composed
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.data_types import result_type
from pullback.functions.differences import diff
from pullback.functions.function_factory import float_unary
from pullback.functions.joining import concat
from pullback.functions.where_take import where
from pullback.lazy.settings import current
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise.complex_parts import Angle
from pullback.typing import ArrayLike

_radians = float_unary("angle", Angle, "Angle of each complex number.", "2.0 -> 0.0")


@composed
def deg2rad(x: ArrayLike) -> Tensor:
    """Convert angles from degrees to radians.

    >>> pb.deg2rad(180.0).item()
    3.14159...
    """
    return _angle_operand("deg2rad", x) * (math.pi / 180)


@composed
def rad2deg(x: ArrayLike) -> Tensor:
    """Convert angles from radians to degrees.

    >>> pb.rad2deg(pb.pi).item()
    180.0
    """
    return _angle_operand("rad2deg", x) * (180 / math.pi)


def _angle_operand(op: str, x: ArrayLike) -> Tensor:
    a = wrap(float_node(x))
    if a.dtype.is_complex:
        raise DTypeError(f"needs real elements, got {a._node.type}", op=op)
    return a


@composed
def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi
) -> Tensor:
    """Add multiples of the period such that neighbours along an axis differ by at most half of it.

    Differences below `discont`, if that is larger than half the period, are left as they are.

    >>> pb.unwrap([0, 3, 2, 5], period=4).tolist()
    [0, -1, -2, -3]
    """
    x = as_tensor(p)
    axis = axis_argument("unwrap", axis, x.ndim)
    kind = result_type(x, period)
    if not kind.is_inexact and not isinstance(period, int):
        kind = current().default_dtype
    x = x.astype(kind)
    steps = diff(x, axis=axis)
    whole = kind.is_integer
    high = period // 2 if whole else period / 2
    low = -high
    wrapped = remainder(steps - low, period) + low
    if not whole or period % 2 == 0:  # a step of exactly half a period keeps its sign
        wrapped = where((wrapped == low) & (steps > 0), high, wrapped)
    limit = period / 2 if discont is None else discont
    correction = where(abs(steps) < limit, 0, wrapped - steps).astype(kind)
    first = x[axis_slice_argument(axis, slice(0, 1))]
    rest = x[axis_slice_argument(axis, slice(1, None))] + cumulative_sum(
        correction, axis=axis
    ).astype(kind)
    return concat([first, rest], axis=axis)


@composed
def angle(x: ArrayLike, deg: bool = False) -> Tensor:
    """Angle of each complex number: in (-pi, pi], or in degrees.

    >>> pb.angle(2.0).item(), pb.angle(1j, deg=True).item()
    (0.0, 90.0)
    """
    return _radians(x) * (180 / math.pi) if deg else _radians(x)


__all__ = ["angle", "deg2rad", "rad2deg", "unwrap"]
