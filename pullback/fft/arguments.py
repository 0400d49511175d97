"""Arguments that the transforms share: operands, lengths, axes and norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.arguments import (
    float_node,
    index_argument_along,
    integer,
    literal,
    one_or_many_arguments,
    ordered_axes,
)
from pullback.functions.padding import pad
from pullback.graph.arguments import shown
from pullback.graph.dtypes import DType, complex64, complex128, float32, float64
from pullback.lazy.tensor import Tensor, wrap
from pullback.typing import ArrayLike, Shape

COMPLEX: dict[DType, DType] = {float32: complex64, float64: complex128}
NORMS = ("backward", "ortho", "forward")


def transform_operand(x: ArrayLike) -> Tensor:
    """Return the operand as f32, f64 or complex: integers become the default float, f16 f32."""
    made = wrap(float_node(x))
    return made.astype(float32) if made.dtype.bits == 16 else made


def real_operand(op: str, x: ArrayLike) -> Tensor:
    """Like `transform_operand`, but complex numbers are refused."""
    made = transform_operand(x)
    if made.dtype.is_complex:
        what = f"needs real numbers, got {made._node.type}; take pb.real(x) or use pb.fft.fft"
        raise DTypeError(what, op=op)
    return made


def complex_operand(x: ArrayLike) -> Tensor:
    """Like `transform_operand`, but as complex numbers."""
    made = transform_operand(x)
    return made if made.dtype.is_complex else made.astype(COMPLEX[made.dtype])


def norm_of(op: str, norm: str | None) -> str:
    """Return the direction that is divided by the number of elements; None is "backward"."""
    if norm is None:
        return "backward"
    if norm not in NORMS:
        what = f'norm must be "backward", "ortho" or "forward", got {shown(norm)}'
        raise ArgumentError(what, op=op)
    return norm


def opposite_norm(norm: str) -> str:
    """Return the norm with which a transform in the other direction has the same scale."""
    return {"backward": "forward", "forward": "backward"}.get(norm, norm)


def scaled(x: Tensor, norm: str, size: int, inverse: bool = False) -> Tensor:
    """Scale a transform over `size` elements, which is normalised if it is inverse."""
    powers = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}
    power = powers[norm] if inverse else -powers[norm]
    if power == 0 or size == 1:
        return x
    factor = math.sqrt(size) if abs(power) == 0.5 else float(size)
    return x * literal(factor if power > 0 else 1 / factor, x.dtype)


def length_of(op: str, n: SupportsIndex, what: str = "n") -> int:
    """Return the length of a transform, which is at least 1."""
    length = integer(op, n, what)
    if length < 1:
        raise ShapeError(f"{what} must be at least 1, got {length}", op=op)
    return length


def resized(x: Tensor, axis: int, n: int) -> Tensor:
    """Cut an axis, or add zeros to it, so that it has `n` elements."""
    size = x.shape[axis]
    if n <= size:
        return x if n == size else x[index_argument_along(axis, slice(n))]
    return pad(x, [(0, n - size if i == axis else 0) for i in range(x.ndim)])


def lengths_and_axes(
    op: str, x: Tensor, s: Shape | None, axes: Sequence[SupportsIndex] | None
) -> tuple[list[int], tuple[int, ...]]:
    """Return the length and the axis of each transform; in `s`, -1 is the size of the axis.

    Without `axes`, `s` is for the last ones.
    """
    sizes = None if s is None else [integer(op, n, "a length") for n in one_or_many_arguments(s)]
    if axes is not None:
        found = ordered_axes(op, axes, x.ndim)
    elif sizes is None:
        found = tuple(range(x.ndim))
    elif len(sizes) <= x.ndim:
        found = tuple(range(x.ndim - len(sizes), x.ndim))
    else:
        raise ShapeError(f"s has {len(sizes)} lengths for {x._node.type}", op=op)
    if not found:
        raise ArgumentError(f"needs at least one axis, got {x._node.type} and axes {axes}", op=op)
    if sizes is None:
        sizes = [-1] * len(found)
    if len(sizes) != len(found):
        what = f"s and axes must have the same length, got {list(sizes)} and {list(found)}"
        raise ShapeError(what, op=op)
    for i, (n, axis) in enumerate(zip(sizes, found, strict=True)):
        sizes[i] = x.shape[axis] if n == -1 else length_of(op, n, "a length")
        if sizes[i] == 0:
            what = f"axis {axis} has no elements to transform in {x._node.type}"
            raise ShapeError(what, op=op, hint="Give its length, to which it is padded by zeros.")
    return sizes, found
