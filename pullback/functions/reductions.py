"""Functions that combine elements over axes."""

from __future__ import annotations

from pullback.functions.arguments import (
    axes_argument,
    axis_of,
    bool_argument,
    node,
    summand_argument,
)
from pullback.functions.factory import ReductionFunction, reduction
from pullback.graph.arguments import validated
from pullback.graph.dtypes import int64
from pullback.graph.node import Node
from pullback.lazy.operators import cast_node
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.reduce.extrema import ArgMax, ArgMin, Max, Min
from pullback.ops.reduce.reductions import All, Any_, Prod, Sum
from pullback.ops.shape.axes import ExpandDims
from pullback.ops.shape.movement import Reshape
from pullback.typing import ArrayLike, Axis, DTypeLike


def sum(
    x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """Sum over axes (all of them by default); bools and integers are summed in 64 bits.

    >>> pb.sum([[1, 2], [3, 4]], axis=0).tolist()
    [4, 6]
    """
    a = summand_argument("sum", x, dtype)
    return record(Sum(axes_argument("sum", axis, a.type.rank), keepdims), (a,))


def prod(
    x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """Product over axes (all of them by default); its gradient is exact where elements are 0.

    >>> pb.prod([[1, 2], [3, 4]], axis=1).tolist()
    [2, 12]
    """
    a = summand_argument("prod", x, dtype)
    return record(Prod(axes_argument("prod", axis, a.type.rank), keepdims), (a,))


max: ReductionFunction = reduction(
    "max", Max, "Largest element over axes; NaN wins, and equal elements share the gradient.",
    "[[1, 5], [3, 4]], axis=1 -> [5, 4]",
)  # fmt: skip
min: ReductionFunction = reduction(
    "min", Min, "Smallest element over axes; NaN wins, and equal elements share the gradient.",
    "[[1, 5], [3, 4]], axis=0 -> [1, 4]",
)  # fmt: skip
any: ReductionFunction = reduction(
    "any", Any_, "Whether any element over axes is nonzero.",
    "[[0, 0], [0, 1]], axis=1 -> [False, True]", bool_argument,
)  # fmt: skip
all: ReductionFunction = reduction(
    "all", All, "Whether all elements over axes are nonzero.",
    "[[0, 1], [1, 1]], axis=1 -> [False, True]", bool_argument,
)  # fmt: skip
count_nonzero = reduction(
    "count_nonzero", Sum, "Number of nonzero elements over axes.",
    "[[0, 1], [2, 3]], axis=1 -> [1, 2]", lambda x: cast_node(bool_argument(x), int64),
)  # fmt: skip


@validated
def argmax(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the largest element along an axis, or in the flattened tensor.

    >>> pb.argmax([[1, 5], [7, 4]], axis=1).tolist()
    [1, 0]
    """
    return _arg_reduction("argmax", ArgMax, node(x), axis, keepdims)


@validated
def argmin(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the smallest element along an axis, or in the flattened tensor.

    >>> pb.argmin([[1, 5], [7, 4]]).item()
    0
    """
    return _arg_reduction("argmin", ArgMin, node(x), axis, keepdims)


def _arg_reduction(
    op: str, kind: type[ArgMax] | type[ArgMin], x: Node, axis: int | None, keepdims: bool
) -> Tensor:
    rank = x.type.rank
    if axis is None:
        flat = record(Reshape((x.type.size,)), (x,))._node
        index = record(kind(0), (flat,))
        return record(Reshape((1,) * rank), (index._node,)) if keepdims else index
    axis = axis_of(op, axis, rank)
    index = record(kind(axis), (x,))
    return record(ExpandDims((axis,)), (index._node,)) if keepdims else index


__all__ = ["all", "any", "argmax", "argmin", "count_nonzero", "max", "min", "prod", "sum"]
