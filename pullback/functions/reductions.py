"""Functions that combine elements over axes."""

from __future__ import annotations

from pullback.functions.arguments import (
    argument_node,
    axes_argument,
    axis_argument,
    bool_argument_node,
    sum_argument_node,
)
from pullback.functions.function_factory import (
    ExtremumFunction,
    ReductionFunction,
    extremum_function,
    reduction_function,
)
from pullback.functions.masked_reductions import masked_for_reduction, masked_reduction_with_initial
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import int64
from pullback.graph.node import Node
from pullback.lazy.operators import cast_node
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.elementwise.arithmetic import Add, Mul
from pullback.ops.reduce.extrema import ArgMax, ArgMin, Max, Min
from pullback.ops.reduce.reductions import All, Any_, Prod, Sum
from pullback.ops.shape.movement import Reshape
from pullback.ops.shape.squeeze_flip_axes import ExpandDims
from pullback.typing import ArrayLike, Axis, DTypeLike


def sum(
    x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False,
    *, initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Sum over axes (all of them by default); bools and integers are summed in 64 bits.

    Only elements where the mask `where` is true count; `initial` is added to each sum.

    >>> pb.sum([[1, 2], [3, 4]], axis=0).tolist()
    [4, 6]
    >>> pb.sum([1, 2, 3], where=[True, False, True], initial=10).item()
    14
    """
    a = sum_argument_node("sum", x, dtype)
    if where is not None:
        a = masked_for_reduction("sum", a, where, 0)
    total = record(Sum(axes_argument("sum", axis, a.type.rank), keepdims), (a,))
    return total if initial is None else masked_reduction_with_initial("sum", Add, total, initial)


def prod(
    x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False,
    *, initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Product over axes (all of them by default); its gradient is exact where elements are 0.

    Only elements where the mask `where` is true count; each product is multiplied by `initial`.

    >>> pb.prod([[1, 2], [3, 4]], axis=1).tolist()
    [2, 12]
    """
    a = sum_argument_node("prod", x, dtype)
    if where is not None:
        a = masked_for_reduction("prod", a, where, 1)
    total = record(Prod(axes_argument("prod", axis, a.type.rank), keepdims), (a,))
    return total if initial is None else masked_reduction_with_initial("prod", Mul, total, initial)


max: ExtremumFunction = extremum_function(
    "max", Max, True,
    "Largest element over axes; NaN wins, and equal elements share the gradient.\n\n"
    "`initial` is the least that the result can be; it is needed with a mask `where`.",
    "[[1, 5], [3, 4]], axis=1 -> [5, 4]",
)  # fmt: skip
min: ExtremumFunction = extremum_function(
    "min", Min, False,
    "Smallest element over axes; NaN wins, and equal elements share the gradient.\n\n"
    "`initial` is the most that the result can be; it is needed with a mask `where`.",
    "[[1, 5], [3, 4]], axis=0 -> [1, 4]",
)  # fmt: skip
any: ReductionFunction = reduction_function(
    "any", Any_, False, "Whether any element over axes, where the mask is true, is nonzero.",
    "[[0, 0], [0, 1]], axis=1 -> [False, True]", bool_argument_node,
)  # fmt: skip
all: ReductionFunction = reduction_function(
    "all", All, True, "Whether all elements over axes, where the mask is true, are nonzero.",
    "[[0, 1], [1, 1]], axis=1 -> [False, True]", bool_argument_node,
)  # fmt: skip
count_nonzero: ReductionFunction = reduction_function(
    "count_nonzero", Sum, 0, "Number of nonzero elements over axes, where the mask is true.",
    "[[0, 1], [2, 3]], axis=1 -> [1, 2]", lambda x: cast_node(bool_argument_node(x), int64),
)  # fmt: skip


@with_argument_checks
def argmax(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the largest element along an axis, or in the flattened tensor.

    >>> pb.argmax([[1, 5], [7, 4]], axis=1).tolist()
    [1, 0]
    """
    return _arg_reduction("argmax", ArgMax, argument_node(x), axis, keepdims)


@with_argument_checks
def argmin(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the smallest element along an axis, or in the flattened tensor.

    >>> pb.argmin([[1, 5], [7, 4]]).item()
    0
    """
    return _arg_reduction("argmin", ArgMin, argument_node(x), axis, keepdims)


def _arg_reduction(
    op: str, kind: type[ArgMax] | type[ArgMin], x: Node, axis: int | None, keepdims: bool
) -> Tensor:
    rank = x.type.rank
    if axis is None:
        flat = record(Reshape((x.type.size,)), (x,))._node
        index = record(kind(0), (flat,))
        return record(Reshape((1,) * rank), (index._node,)) if keepdims else index
    axis = axis_argument(op, axis, rank)
    index = record(kind(axis), (x,))
    return record(ExpandDims((axis,)), (index._node,)) if keepdims else index


__all__ = ["all", "any", "argmax", "argmin", "count_nonzero", "max", "min", "prod", "sum"]
