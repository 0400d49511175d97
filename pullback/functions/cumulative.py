"""Functions that combine the elements up to each one, along an axis."""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    axis_of,
    cast_node,
    counting_dtype,
    float_node,
    node,
    placed,
)
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.node import Node, constant
from pullback.graph.table import TABLE
from pullback.lazy.record import record


def cumulative_sum(
    x: Any, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sums of the elements up to each one; `include_initial` puts a 0 before them.

    >>> import pullback as pb
    >>> pb.cumulative_sum([1, 2, 3]).tolist()
    [1, 3, 6]
    """
    return _cumulative("CumSum", "cumulative_sum", x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Any, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The products of the elements up to each one; `include_initial` puts a 1 before them.

    >>> import pullback as pb
    >>> pb.cumulative_prod([2, 3, 4]).tolist()
    [2, 6, 24]
    """
    return _cumulative("CumProd", "cumulative_prod", x, axis, dtype, 1 if include_initial else None)


def cummax(x: Any, axis: int | None = None) -> Tensor:
    """The largest of the elements up to each one.

    >>> import pullback as pb
    >>> pb.cummax([1, 3, 2]).tolist()
    [1, 3, 3]
    """
    return _scan("CumMax", "cummax", node(x), axis)


def cummin(x: Any, axis: int | None = None) -> Tensor:
    """The smallest of the elements up to each one.

    >>> import pullback as pb
    >>> pb.cummin([3, 1, 2]).tolist()
    [3, 1, 1]
    """
    return _scan("CumMin", "cummin", node(x), axis)


def cumlogsumexp(x: Any, axis: int | None = None) -> Tensor:
    """log of the sums of exp of the elements up to each one, without overflow.

    >>> import pullback as pb
    >>> pb.cumlogsumexp([1000.0, -1000.0]).tolist()
    [1000.0, 1000.0]
    """
    return _scan("CumLogSumExp", "cumlogsumexp", float_node(x), axis)


def _scan(name: str, title: str, x: Node, axis: Any) -> Tensor:
    return record(TABLE[name](_axis(title, x, axis), False), (x,))


def _axis(title: str, x: Node, axis: Any) -> int:
    """The axis, which may be left out for a vector."""
    if axis is None and x.type.rank != 1:
        raise ArgumentError(f"needs an axis for a tensor of rank {x.type.rank}", op=title)
    return axis_of(title, 0 if axis is None else axis, x.type.rank)


def _cumulative(name: str, title: str, x: Any, axis: Any, dtype: Any, initial: Any) -> Tensor:
    x = node(as_tensor(x))
    wide = counting_dtype(x.type.dtype) if dtype is None else placed(title, dtype_of, dtype)
    x = cast_node(x, wide)
    made = _scan(name, title, x, axis)
    if initial is None:
        return made
    low = [0] * made.ndim
    low[_axis(title, x, axis)] = 1
    none = (0,) * made.ndim
    return record(TABLE["Pad"](tuple(low), none, none), (made._node, constant(initial, wide)))
