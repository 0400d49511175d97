"""Means, variances and norms."""

from __future__ import annotations

import math

from pullback.errors import ArgumentError
from pullback.functions.arguments import (
    along,
    apply,
    axes_argument,
    axis_of,
    float_node,
    fresh,
    integer,
    literal,
)
from pullback.functions.complex_parts import conj, real
from pullback.functions.factory import ReductionFunction, reduction
from pullback.functions.joining import concat
from pullback.graph.arguments import validated
from pullback.graph.dtypes import DType, float32
from pullback.graph.node import constant
from pullback.lazy.operators import as_tensor, cast_node, node_of, number, scalar_operand
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
from pullback.typing import ArrayLike, Axis

mean: ReductionFunction = reduction(
    "mean", Mean, "Mean over axes (all of them by default).",
    "[[1.0, 2.0], [3.0, 4.0]], axis=0 -> [2.0, 3.0]", float_node,
)  # fmt: skip


@validated
def var(x: ArrayLike, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the variance over axes: the sum of squared deviations over N - `correction`.

    >>> pb.var([1.0, 3.0]).item(), pb.var([1.0, 3.0], correction=1).item()
    (1.0, 2.0)
    """
    a = float_node(x)
    axes = axes_argument("var", axis, a.type.rank)
    dtype = a.type.dtype
    if dtype.bits == 16:  # squares in half precision would lose the small deviations
        a = cast_node(a, float32)
    squares = _squared_magnitude(wrap(a) - record(Mean(axes, True), (a,)))
    count = math.prod(a.type.shape[i] for i in axes)
    total = record(Sum(axes, keepdims), (squares._node,))
    result = total / _degrees_of_freedom(count, correction, total.dtype)
    return result if result.dtype is dtype.real else result.astype(dtype)


def _degrees_of_freedom(count: int, correction: float, dtype: DType) -> Tensor:
    """Return the divisor of a variance, never negative: an input of the program."""
    left = count - number(correction)
    if isinstance(left, TracedNumber):
        return apply(Maximum, left.cast(dtype), constant(0, dtype))
    return wrap(scalar_operand(max(left, 0), dtype))


@validated
def std(x: ArrayLike, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the standard deviation over axes; where it is 0 its gradient is 0.

    >>> pb.std([1.0, 3.0]).item()
    1.0
    """
    return norm_root(var(x, axis, correction, keepdims))


@validated
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
        return norm_root(record(Sum(axes, keepdims), (_squared_magnitude(x)._node,)))
    size = apply(Abs, node_of(x))
    if ord in (math.inf, -math.inf):
        return record((Max if ord > 0 else Min)(axes, keepdims), (size._node,))
    if ord == 1:
        return record(Sum(axes, keepdims), (size._node,))
    if not ord > 0:
        raise ArgumentError(f"ord must be positive, got {ord}", op="norm")
    powers = _norm_power(size, ord)
    return norm_root(record(Sum(axes, keepdims), (powers._node,)), 1.0 / ord)


def _squared_magnitude(x: Tensor) -> Tensor:
    return real(x * conj(x)) if x.dtype.is_complex else apply(Square, node_of(x))


def _norm_power(x: Tensor, exponent: float) -> Tensor:
    """Raise to a power that is an input of the program, even if it is an integer."""
    return apply(Pow, x._node, scalar_operand(float(exponent), x.dtype))


def norm_root(x: Tensor, power: float = 0.5) -> Tensor:
    """The square root or another one, with gradient 0 at 0."""
    at_zero = apply(Equal, x._node, literal(0, x.dtype)._node)
    one, zero = literal(1, x.dtype), literal(0, x.dtype)
    safe = apply(Where, at_zero._node, one._node, x._node)
    root = apply(Sqrt, safe._node) if power == 0.5 else _norm_power(safe, power)
    return apply(Where, at_zero._node, zero._node, root._node)


def diff(
    x: ArrayLike, axis: int = -1, n: int = 1, prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the differences of neighbours along an axis, taken `n` times.

    `prepend` and `append` are joined to `x` first; with `n` = 0, `x` is returned without them.

    >>> pb.diff([1, 4, 9]).tolist()
    [3, 5]
    """
    if n == 0:
        return fresh(as_tensor(x))
    parts = [as_tensor(p) for p in (prepend, x, append) if p is not None]
    result = parts[0] if len(parts) == 1 else concat(parts, axis=axis)
    axis = axis_of("diff", axis, result.ndim)
    count = integer("diff", n, "n", bounded=False)
    if count < 0:
        raise ArgumentError(f"n must not be negative, got {count}", op="diff")
    for _ in range(min(count, result.shape[axis])):  # nothing is left after so many
        later, earlier = result[along(axis, slice(1, None))], result[along(axis, slice(-1))]
        result = later ^ earlier if result.dtype.kind == "b" else later - earlier
    return result


__all__ = ["diff", "mean", "norm", "std", "var"]
