"""Functions that combine elements over axes."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import (
    Tensor,
    axes_of,
    axis_of,
    cast_node,
    counting_dtype,
    node,
    placed,
)
from pullback.graph.dtypes import bool_, int64
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.table import TABLE
from pullback.lazy.record import record


def _reduce(name: str, x: Any, axis: Any, keepdims: bool) -> Tensor:
    axes = axes_of(name.lower(), axis, x.type.rank)
    return record(TABLE[name](axes, keepdims), (x,))


def _widened(name: str, x: Any, dtype: Any) -> Any:
    """The operand in the type that its sum is asked for in, which is wide for small integers."""
    x = node(x)
    wide = counting_dtype(x.type.dtype) if dtype is None else placed(name, dtype_of, dtype)
    return cast_node(x, wide)


def sum(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes (all of them by default); small integers are summed in 64 bits.

    >>> import pullback as pb
    >>> pb.sum([[1, 2], [3, 4]], axis=0).tolist()
    [4, 6]
    """
    return _reduce("Sum", _widened("sum", x, dtype), axis, keepdims)


def prod(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes; its gradient is exact where elements are 0.

    >>> import pullback as pb
    >>> pb.prod([[1, 2], [3, 4]], axis=1).tolist()
    [2, 12]
    """
    return _reduce("Prod", _widened("prod", x, dtype), axis, keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes; NaN wins, and equal elements share the gradient.

    >>> import pullback as pb
    >>> pb.max([[1, 5], [3, 4]], axis=1).tolist()
    [5, 4]
    """
    return _reduce("Max", node(x), axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes; NaN wins, and equal elements share the gradient.

    >>> import pullback as pb
    >>> pb.min([[1, 5], [3, 4]], axis=0).tolist()
    [1, 4]
    """
    return _reduce("Min", node(x), axis, keepdims)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether any element over axes is not 0.

    >>> import pullback as pb
    >>> pb.any([[0, 0], [0, 1]], axis=1).tolist()
    [False, True]
    """
    return _reduce("Any", cast_node(node(x), bool_), axis, keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether no element over axes is 0.

    >>> import pullback as pb
    >>> pb.all([[0, 1], [1, 1]], axis=1).tolist()
    [False, True]
    """
    return _reduce("All", cast_node(node(x), bool_), axis, keepdims)


def count_nonzero(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements over axes are not 0.

    >>> import pullback as pb
    >>> pb.count_nonzero([[0, 1], [2, 3]], axis=1).tolist()
    [1, 2]
    """
    held = cast_node(node(x), bool_)
    return _reduce("Sum", cast_node(held, int64), axis, keepdims)


def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The index of the largest element along an axis, or in the flattened tensor.

    >>> import pullback as pb
    >>> pb.argmax([[1, 5], [7, 4]], axis=1).tolist()
    [1, 0]
    """
    return _arg("ArgMax", x, axis, keepdims)


def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The index of the smallest element along an axis, or in the flattened tensor.

    >>> import pullback as pb
    >>> pb.argmin([[1, 5], [7, 4]]).item()
    0
    """
    return _arg("ArgMin", x, axis, keepdims)


def _arg(name: str, x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = node(x)
    rank = x.type.rank
    if axis is None:
        flat = record(TABLE["Reshape"]((x.type.size,)), (x,))._node
        made = record(TABLE[name](0), (flat,))
        return record(TABLE["Reshape"]((1,) * rank), (made._node,)) if keepdims else made
    axis = axis_of(name.lower(), axis, rank)
    made = record(TABLE[name](axis), (x,))
    return record(TABLE["ExpandDims"]((axis,)), (made._node,)) if keepdims else made
