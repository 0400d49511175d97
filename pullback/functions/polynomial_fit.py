"""Polynomials that are closest to given points."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    checked_integer_argument,
    float_arguments,
    literal_argument,
    record_as,
)
from pullback.functions.arithmetic import abs as absolute
from pullback.functions.complex_parts import conj
from pullback.functions.products import matmul, outer
from pullback.functions.reductions import max as largest
from pullback.functions.reductions import sum
from pullback.functions.shape import expand_dims
from pullback.functions.statistics import norm
from pullback.functions.vandermonde import vander
from pullback.graph.argument_checks import (
    checked_flag_argument,
    shown_argument,
    with_argument_checks,
)
from pullback.graph.dtypes import int64
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.linalg.pseudoinverse import PseudoInverse
from pullback.ops.linalg.svd import SingularValues
from pullback.typing import ArrayLike


@with_argument_checks
def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False,
    w: ArrayLike | None = None, cov: bool | Literal["unscaled"] = False,
) -> Tensor | tuple[Tensor, ...]:  # fmt: skip
    """Return the coefficients, the highest power first, of the polynomial closest to the points.

    It has the degree `deg` and the least sum of squares of w (y - p(x)); `y` may have columns, each
    with a polynomial of its own. With `full`, the result is a tuple of the coefficients, the sums
    of squares, the rank and the singular values of the matrix of powers, scaled by columns, and
    `rcond`: singular values that are at most so many times the largest count as 0. With `cov`, it
    is the coefficients and their covariance, which is not multiplied by the mean square of the
    distances if `cov` is "unscaled".

    >>> pb.polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1).numpy().round(4).tolist()
    [2.0, 1.0]
    """
    points, values = (wrap(n) for n in float_arguments(as_tensor(x), as_tensor(y)))
    count = _fit_coefficient_count(points, values, deg)
    matrix = vander(points, count)
    if w is not None:
        weights = _fit_weights(points, w)
        matrix, values = matrix * expand_dims(weights, 1), values * _fit_rows(weights, values)
    scale = norm(matrix, 0)
    matrix = matrix / scale
    tolerance = _fit_tolerance(points, rcond)
    inverse = record_as("polyfit", PseudoInverse(), matrix._node, tolerance._node)
    found = matmul(inverse, values)
    result = found / _fit_rows(scale, found)
    if not full and cov is False:
        return result
    missed = absolute(matmul(matrix, found) - values)
    squares = sum(missed * missed, 0, keepdims=full and values.ndim == 1)
    if full:
        sizes = record_as("polyfit", SingularValues(), matrix._node)
        rank = sum((sizes > tolerance * largest(sizes)).astype(int64))
        return result, squares, rank, sizes, tolerance
    base = matmul(inverse, conj(inverse).T) / outer(scale, scale)
    return result, _fit_covariance(base, squares, points.shape[0] - count, cov)


def _fit_rows(x: Tensor, like: Tensor) -> Tensor:
    """A vector with an element for each row of a vector or matrix."""
    return x if like.ndim == 1 else expand_dims(x, 1)


def _fit_coefficient_count(points: Tensor, values: Tensor, deg: int) -> int:
    count = checked_integer_argument("polyfit", deg, "deg") + 1
    if count < 1:
        raise ArgumentError(f"deg must not be negative, got {deg}", op="polyfit")
    if points.ndim != 1 or not points.size:
        what = f"x must be a vector with elements, got {points._node.type}"
        raise ShapeError(what, op="polyfit", code="E3002")
    if values.ndim not in (1, 2) or values.shape[0] != points.shape[0]:
        got = f"{values._node.type} for {points._node.type}"
        raise ShapeError(f"y must have a row for each point, got {got}", op="polyfit", code="E3001")
    return count


def _fit_weights(points: Tensor, w: ArrayLike) -> Tensor:
    weights = as_tensor(w)
    if weights.shape != points.shape:
        what = f"w must have a weight for each point, got {weights._node.type}"
        raise ShapeError(what, op="polyfit", code="E3001")
    return weights.astype(points.dtype)


def _fit_tolerance(points: Tensor, rcond: float | None) -> Tensor:
    kind = points.dtype.real
    if rcond is None:
        return literal_argument(points.shape[0] * float(np.finfo(kind.numpy).eps), kind)
    return as_tensor(rcond).astype(kind)


def _fit_covariance(base: Tensor, squares: Tensor, freedom: int, cov: bool | str) -> Tensor:
    """The covariance of coefficients, from the number of points that are not needed to fit."""
    if cov == "unscaled":
        return base
    if isinstance(cov, str):
        raise ArgumentError(
            f'cov must be a flag or "unscaled", got {shown_argument(cov)}', op="polyfit"
        )
    checked_flag_argument("polyfit", cov, "cov")
    if freedom <= 0:
        what = "cov needs more points than coefficients; use cov='unscaled'"
        raise ArgumentError(what, op="polyfit")
    base = base if squares.ndim == 0 else expand_dims(base, 2)
    return base * (squares / freedom)


__all__ = ["polyfit"]
