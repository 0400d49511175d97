"""Means, variances and norms."""

from __future__ import annotations

import math
from typing import Any

from pullback.errors import ArgumentError
from pullback.functions.arguments import (
    Tensor,
    apply,
    as_tensor,
    axes_of,
    axis_of,
    cast_node,
    float_node,
    literal,
    node_of,
)
from pullback.functions.complex_parts import real
from pullback.graph.dtypes import float32
from pullback.graph.table import TABLE
from pullback.lazy.record import record
from pullback.lazy.tensor import wrap


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over axes (all of them by default).

    >>> import pullback as pb
    >>> pb.mean([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [2.0, 3.0]
    """
    x = float_node(x)
    return record(TABLE["Mean"](axes_of("mean", axis, x.type.rank), keepdims), (x,))


def var(x: Any, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes: squared distances from the mean, over N - `correction`.

    >>> import pullback as pb
    >>> pb.var([1.0, 3.0]).item(), pb.var([1.0, 3.0], correction=1).item()
    (1.0, 2.0)
    """
    x = float_node(x)
    axes = axes_of("var", axis, x.type.rank)
    given = x.type.dtype
    if given.bits == 16:  # in half precision the squares would lose what the mean leaves
        x = cast_node(x, float32)
    squares = squared_magnitude(wrap(x) - record(TABLE["Mean"](axes, True), (x,)))
    count = math.prod(x.type.shape[i] for i in axes)
    total = record(TABLE["Sum"](axes, keepdims), (squares._node,))
    made = total / literal(max(count - correction, 0), total.dtype)
    return made if made.dtype is given.real else made.astype(given)


def std(x: Any, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes; where it is 0 its gradient is 0.

    >>> import pullback as pb
    >>> pb.std([1.0, 3.0]).item()
    1.0
    """
    return root(var(x, axis, correction, keepdims))


def norm(x: Any, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The vector norm over axes: `ord` is 1, 2, infinity or another positive number.

    At 0 the gradient of the 2-norm is 0.

    >>> import pullback as pb
    >>> pb.norm([3.0, 4.0]).item()
    5.0
    """
    x = wrap(float_node(x))
    if x.dtype.bits == 16:  # its squares would overflow
        return norm(x.astype(float32), axis, keepdims, ord).astype(x.dtype)
    axes = axes_of("norm", axis, x.ndim)
    if ord == 2:
        return root(record(TABLE["Sum"](axes, keepdims), (squared_magnitude(x)._node,)))
    size = apply("Abs", node_of(x))
    if ord in (math.inf, -math.inf):
        return record(TABLE["Max" if ord > 0 else "Min"](axes, keepdims), (size._node,))
    if ord == 1:
        return record(TABLE["Sum"](axes, keepdims), (size._node,))
    if not ord > 0:
        raise ArgumentError(f"ord must be positive, got {ord}", op="norm")
    return record(TABLE["Sum"](axes, keepdims), ((size**ord)._node,)) ** (1.0 / ord)


def squared_magnitude(x: Tensor) -> Tensor:
    """The square of each element's magnitude."""
    if x.dtype.is_complex:
        return real(x * apply("Conj", node_of(x)))
    return apply("Square", node_of(x))


def root(x: Tensor) -> Tensor:
    """The square root, with gradient 0 at 0."""
    at_zero = apply("Equal", x._node, literal(0, x.dtype)._node)
    one, zero = literal(1, x.dtype), literal(0, x.dtype)
    safe = apply("Where", at_zero._node, one._node, x._node)
    return apply("Where", at_zero._node, zero._node, apply("Sqrt", safe._node)._node)


def diff(x: Any, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours along an axis, taken `n` times.

    >>> import pullback as pb
    >>> pb.diff([1, 4, 9]).tolist()
    [3, 5]
    """
    from pullback.functions.joining import concat

    parts = [as_tensor(p) for p in (prepend, x, append) if p is not None]
    made = parts[0] if len(parts) == 1 else concat(parts, axis=axis)
    axis = axis_of("diff", axis, made.ndim)
    for _ in range(n):
        before = (slice(None),) * axis
        later, earlier = made[(*before, slice(1, None))], made[(*before, slice(None, -1))]
        made = later ^ earlier if made.dtype.kind == "b" else later - earlier
    return made
