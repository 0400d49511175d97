"""Means, variances, ranges and norms."""

from __future__ import annotations

import math
from typing import Any

from pullback.errors import ArgumentError, DTypeError
from pullback.functions import reductions
from pullback.functions.arguments import (
    apply,
    argument_node,
    axes_argument,
    dtype_argument,
    float_node,
    literal_argument,
)
from pullback.functions.arithmetic import maximum
from pullback.functions.complex_parts import conj, real
from pullback.functions.composed import composed
from pullback.functions.masked_reductions import masked_for_reduction, reduction_mask
from pullback.functions.shape import spread_to_shape
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import DType, float32, int64
from pullback.graph.node import Node, constant_node
from pullback.lazy.operators import (
    as_tensor,
    cast_node,
    node_of,
    operator_number,
    scalar_operator_operand,
)
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.elementwise.arithmetic import Abs, Square
from pullback.ops.elementwise.logic import Equal
from pullback.ops.elementwise.maximum import Maximum
from pullback.ops.elementwise.power import Pow
from pullback.ops.elementwise.roots import Sqrt
from pullback.ops.elementwise.select import Where
from pullback.ops.reduce.extrema import Max, Min
from pullback.ops.reduce.reductions import Mean, Sum
from pullback.typing import ArrayLike, Axis, DTypeLike


def mean(
    x: ArrayLike, axis: Axis = None, keepdims: bool = False,
    *, dtype: DTypeLike | None = None, where: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Mean over axes (all of them by default), of the elements where the mask `where` is true.

    It is computed in `dtype`, a float or complex one. The mean of no elements is NaN.

    >>> pb.mean([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [2.0, 3.0]
    >>> pb.mean([1.0, 2.0, 6.0], where=[True, False, True]).item()
    3.5
    """
    a = _statistics_argument("mean", x, dtype)
    axes = axes_argument("mean", axis, a.type.rank)
    if where is None:
        return record(Mean(axes, keepdims), (a,))
    wide = _widened_for_statistics(a)
    total = record(Sum(axes, keepdims), (masked_for_reduction("mean", wide, where, 0),))
    result = total / _statistics_count("mean", wide, where, axes, keepdims)
    return result if total.dtype is a.type.dtype else result.astype(a.type.dtype)


def _statistics_argument(op: str, x: ArrayLike, dtype: DTypeLike | None) -> Node:
    """The operand of a mean or variance, in the dtype that the user asked for."""
    if dtype is None:
        return float_node(x)
    wanted = dtype_argument(op, dtype, float32)
    if not wanted.is_inexact:
        raise DTypeError(f"dtype must be a float or complex one, got {wanted}", op=op)
    return cast_node(argument_node(x), wanted)


def _widened_for_statistics(x: Node) -> Node:
    """16-bit floats as f32, in which their sums are formed."""
    return cast_node(x, float32) if x.type.dtype.bits == 16 else x


def _statistics_count(
    op: str, x: Node, where: ArrayLike, axes: tuple[int, ...], keepdims: bool
) -> Tensor:
    """The number of elements that a mask selects for each result, as a real number."""
    mask = spread_to_shape(wrap(reduction_mask(op, x, where)), x.type.shape)
    counts = record(Sum(axes, keepdims), (cast_node(node_of(mask), int64),))
    return counts.astype(x.type.dtype.real)


@with_argument_checks
def var(
    x: ArrayLike, axis: Axis = None, correction: float | None = None, keepdims: bool = False,
    *, ddof: float | None = None, dtype: DTypeLike | None = None, where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the variance over axes: the sum of squared deviations over N - `correction`.

    `correction` is 0 by default; `ddof` is NumPy's name for it. N is the number of elements where
    the mask `where` is true. `mean` is the mean, with reduced axes kept, if it is known already.

    >>> pb.var([1.0, 3.0]).item(), pb.var([1.0, 3.0], correction=1).item()
    (1.0, 2.0)
    """
    correction = _variance_correction("var", correction, ddof)
    return _variance("var", x, axis, correction, keepdims, dtype, where, mean)


def _variance_correction(op: str, correction: float | None, ddof: float | None) -> float:
    if correction is not None and ddof is not None:
        message = f"correction and ddof are the same, got {correction} and {ddof}"
        raise ArgumentError(message, op=op)
    given = ddof if correction is None else correction
    return 0.0 if given is None else given


def _variance(
    op: str, x: ArrayLike, axis: Axis, correction: float, keepdims: bool,
    dtype: DTypeLike | None, where: ArrayLike | None, center: ArrayLike | None,
) -> Tensor:  # fmt: skip
    given = _statistics_argument(op, x, dtype)
    axes = axes_argument(op, axis, given.type.rank)
    a = _widened_for_statistics(given)  # squares in half precision would lose the small deviations
    if center is not None:
        center = wrap(cast_node(argument_node(center), a.type.dtype))
    elif where is None:
        center = record(Mean(axes, True), (a,))
    else:
        center = mean(wrap(a), axes, True, where=where)
    if where is None:
        squares = _squared_for_statistics(wrap(a) - center)._node
        left = math.prod(a.type.shape[i] for i in axes) - operator_number(correction)
        divisor = _degrees_of_freedom(left, a.type.dtype.real)
    else:
        a = masked_for_reduction(op, a, where, 0)  # before NaN can reach a derivative
        deviations = masked_for_reduction(op, (wrap(a) - center)._node, where, 0)
        squares = _squared_for_statistics(wrap(deviations))._node
        left = _statistics_count(op, a, where, axes, keepdims) - operator_number(correction)
        divisor = maximum(left, 0.0)
    result = record(Sum(axes, keepdims), (squares,)) / divisor
    wanted = given.type.dtype.real
    return result if result.dtype is wanted else result.astype(wanted)


def _degrees_of_freedom(left: Any, dtype: DType) -> Tensor:
    """Return the divisor of a variance, never negative: an input of the program."""
    if isinstance(left, TracedNumber):
        return apply(Maximum, left.cast(dtype), constant_node(0, dtype))
    return wrap(scalar_operator_operand(max(left, 0), dtype))


@with_argument_checks
def std(
    x: ArrayLike, axis: Axis = None, correction: float | None = None, keepdims: bool = False,
    *, ddof: float | None = None, dtype: DTypeLike | None = None, where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the standard deviation over axes; where it is 0 its gradient is 0.

    The arguments are those of `var`.

    >>> pb.std([1.0, 3.0]).item(), pb.std([1.0, 2.0, 3.0], ddof=1).item()
    (1.0, 1.0)
    """
    correction = _variance_correction("std", correction, ddof)
    return statistics_root(_variance("std", x, axis, correction, keepdims, dtype, where, mean))


@with_argument_checks
def norm(x: ArrayLike, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Return the vector norm over axes: `ord` is 1, 2, infinity or another positive number.

    The gradient at 0 is 0.

    >>> pb.norm([3.0, 4.0]).item()
    5.0
    """
    x = wrap(float_node(x))
    if x.dtype.bits == 16:  # its squares would overflow
        return norm(x.astype(float32), axis, keepdims, ord).astype(x.dtype)
    axes = axes_argument("norm", axis, x.ndim)
    if ord == 2:
        return statistics_root(record(Sum(axes, keepdims), (_squared_for_statistics(x)._node,)))
    size = apply(Abs, node_of(x))
    if ord in (math.inf, -math.inf):
        return record((Max if ord > 0 else Min)(axes, keepdims), (size._node,))
    if ord == 1:
        return record(Sum(axes, keepdims), (size._node,))
    if not ord > 0:
        raise ArgumentError(f"ord must be positive, got {ord}", op="norm")
    powers = _statistics_power(size, ord)
    return statistics_root(record(Sum(axes, keepdims), (powers._node,)), 1.0 / ord)


def _squared_for_statistics(x: Tensor) -> Tensor:
    return real(x * conj(x)) if x.dtype.is_complex else apply(Square, node_of(x))


def _statistics_power(x: Tensor, exponent: float) -> Tensor:
    """Raise to a power that is an input of the program, even if it is an integer."""
    return apply(Pow, x._node, scalar_operator_operand(float(exponent), x.dtype))


def statistics_root(x: Tensor, power: float = 0.5) -> Tensor:
    """The square root or another one, with gradient 0 at 0."""
    at_zero = apply(Equal, x._node, literal_argument(0, x.dtype)._node)
    one, zero = literal_argument(1, x.dtype), literal_argument(0, x.dtype)
    safe = apply(Where, at_zero._node, one._node, x._node)
    root = apply(Sqrt, safe._node) if power == 0.5 else _statistics_power(safe, power)
    return apply(Where, at_zero._node, zero._node, root._node)


@composed
def ptp(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the range of the elements over axes: the largest less the smallest.

    >>> pb.ptp([[4, 9], [2, 10]], axis=1).tolist()
    [5, 8]
    """
    x = as_tensor(x)
    return reductions.max(x, axis=axis, keepdims=keepdims) - reductions.min(
        x, axis=axis, keepdims=keepdims
    )


__all__ = ["mean", "norm", "ptp", "std", "var"]
