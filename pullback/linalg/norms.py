"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    axes_argument,
    float_node,
    literal_argument,
    ordered_axes_argument,
    record_as,
)
from pullback.functions.arithmetic import abs as absolute
from pullback.functions.barriers import stop_gradient
from pullback.functions.reductions import max as largest
from pullback.functions.reductions import min as smallest
from pullback.functions.reductions import sum
from pullback.functions.shape import expand_dims, moveaxis
from pullback.functions.statistics import norm as norm_over
from pullback.functions.where_take import where
from pullback.graph.argument_checks import checked_flag_argument, real, shown_argument
from pullback.graph.dtypes import float32
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.linalg.svd import SingularValues
from pullback.typing import ArrayLike, Axis

MatrixOrder = Literal["fro", "nuc"] | float | None


def vector_norm(x: ArrayLike, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Return the norm of vectors along axes: all elements together by default.

    `ord` is the exponent in the sum of powers; infinity stands for the largest element, minus
    infinity for the smallest, and 0 counts the elements that are not 0. The gradient at 0 is 0.

    >>> pb.linalg.vector_norm([3.0, 4.0]).item(), pb.linalg.vector_norm([3.0, 4.0], ord=1).item()
    (5.0, 7.0)
    """
    op = "linalg.vector_norm"
    order, kept = _norm_order(op, ord), checked_flag_argument(op, keepdims, "keepdims")
    a = wrap(float_node(x))
    axes = axes_argument(op, axis, a.ndim)
    if order > 0 or order == -math.inf:
        return norm_over(a, axes, kept, order)
    if a.dtype.bits == 16:
        return vector_norm(a.astype(float32), axes, kept, order).astype(a.dtype)
    if order == 0:
        return sum((a != 0).astype(a.dtype.real), axes, keepdims=kept)
    return sum(absolute(a) ** order, axes, keepdims=kept) ** (1 / order)


def matrix_norm(x: ArrayLike, keepdims: bool = False, ord: MatrixOrder = "fro") -> Tensor:
    """Return the norm of matrices, in the last two dimensions.

    `ord` is "fro" (the root of the sum of squares), "nuc" (the sum of the singular values), 2 or -2
    (the largest or smallest singular value), 1 or -1 (the largest or smallest sum of a column), or
    plus or minus infinity (of a row).

    >>> pb.linalg.matrix_norm([[3.0, 0.0], [0.0, -4.0]]).item()
    5.0
    >>> pb.linalg.matrix_norm([[3.0, 0.0], [0.0, -4.0]], ord="nuc").item()
    7.0
    """
    return _matrix_norm("linalg.matrix_norm", x, keepdims, ord)


def norm(
    x: ArrayLike, ord: MatrixOrder = None, axis: Axis = None, keepdims: bool = False
) -> Tensor:
    """Return the norm of vectors along an axis, or of matrices along two axes, as NumPy does.

    Without an axis, a vector or a matrix has the norm that `ord` names; without `ord` too, the
    result is the root of the sum of the squares of all elements.

    >>> pb.linalg.norm([[3.0, 0.0], [0.0, -4.0]]).item()
    5.0
    >>> pb.linalg.norm([[3.0, 0.0], [0.0, -4.0]], 1, axis=0).tolist()
    [3.0, 4.0]
    """
    op = "linalg.norm"
    a, kept = wrap(float_node(x)), checked_flag_argument(op, keepdims, "keepdims")
    if axis is None and ord is None:
        return vector_norm(a, None, kept)
    if axis is None and a.ndim not in (1, 2):
        what = f"with ord {ord!r} and no axis, x must be a vector or a matrix"
        raise ShapeError(f"{what}, got {a._node.type}", op=op, code="E3002")
    axes = ordered_axes_argument(op, tuple(range(a.ndim)) if axis is None else axis, a.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ArgumentError(f"ord must be a number for vectors, got {ord!r}", op=op)
        return vector_norm(a, axes, kept, 2 if ord is None else _norm_order(op, ord))
    if len(axes) != 2:
        raise ArgumentError(f"axis must be one or two axes, got {axis!r}", op=op)
    made = _matrix_norm(op, moveaxis(a, axes, (-2, -1)), False, "fro" if ord is None else ord)
    return expand_dims(made, tuple(sorted(axes))) if kept else made


def _norm_order(op: str, ord: object) -> float:
    """Return the order of a norm as a number that is not NaN."""
    order = float(real(op, ord, "ord"))
    if order != order:
        raise ArgumentError(f"ord must be a number, got {shown_argument(ord)}", op=op)
    return order


def _matrix_norm(op: str, x: ArrayLike, keepdims: bool, ord: MatrixOrder) -> Tensor:
    a, kept = wrap(float_node(x)), checked_flag_argument(op, keepdims, "keepdims")
    if a.ndim < 2:
        what = f"needs matrices, so a rank of 2 or more, got {a._node.type}"
        raise ShapeError(what, op=op, code="E3002")
    if a.dtype.bits == 16:
        return _matrix_norm(op, a.astype(float32), kept, ord).astype(a.dtype)
    if ord == "fro":
        return norm_over(a, (-2, -1), kept)
    order = ord if isinstance(ord, str) else _norm_order(op, ord)
    if order in (1, -1, math.inf, -math.inf):
        sums = sum(absolute(a), -2 if abs(order) == 1 else -1, keepdims=True)
        return (largest if order > 0 else smallest)(sums, (-2, -1), kept)
    if order not in (2, -2, "nuc"):
        what = 'ord must be "fro", "nuc", 1, -1, 2, -2 or plus or minus infinity'
        raise ArgumentError(f"{what}, got {shown_argument(ord)}", op=op)
    values = record_as(op, SingularValues(), a._node)
    if order == "nuc":
        made = sum(_nuclear_norm_terms(a, values), -1)
    else:
        made = (largest if order == 2 else smallest)(values, -1)
    return expand_dims(made, (a.ndim - 2, a.ndim - 1)) if kept else made


def _nuclear_norm_terms(a: Tensor, values: Tensor) -> Tensor:
    """The singular values; those that are 0 up to rounding have no gradient, as abs has none at 0:
    among all directions in which the norm grows, this one is the shortest."""
    if not values.shape[-1]:
        return values
    limit = largest(values, -1, True) * literal_argument(norm_rounding_tolerance(a), values.dtype)
    return where(values > limit, values, stop_gradient(values))


def norm_rounding_tolerance(a: Tensor) -> float:
    """Return the size, relative to the largest, of singular values that rounding errors explain."""
    return max(a.shape[-2:]) * float(np.finfo(a.dtype.real.numpy).eps)


__all__ = ["matrix_norm", "norm", "vector_norm"]
