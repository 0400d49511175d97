"""Updates of slices and elements along an axis, which return a new tensor."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.arguments import Tensor, as_tensor, axis_argument, axis_slice_argument
from pullback.functions.arithmetic import multiply
from pullback.functions.composed import composed
from pullback.functions.creation import arange, ones
from pullback.functions.data_types import astype
from pullback.functions.masking import as_masked_elements
from pullback.functions.shape import moveaxis, reshaped_to, spread_to_shape
from pullback.functions.where_take import take
from pullback.graph.argument_checks import text
from pullback.lazy.index_plan import index_plan_integers
from pullback.lazy.indexing import updated_by_indexing
from pullback.lazy.record import record_at_one_line
from pullback.typing import ArrayLike, Index

Reduce = Literal["set", "sum", "prod", "mean", "amax", "amin"]
_MODES = {
    "set": "set", "sum": "add", "mean": "add", "prod": "multiply", "amax": "max", "amin": "min",
}  # fmt: skip


@composed
def index_select(x: ArrayLike, axis: int, index: ArrayLike) -> Tensor:
    """Return the slices of x at indices along an axis.

    >>> pb.index_select([[1, 2, 3], [4, 5, 6]], 1, [0, 2]).tolist()
    [[1, 3], [4, 6]]
    """
    return take(x, index, axis)


@composed
def index_add(
    x: ArrayLike, axis: int, index: ArrayLike, source: ArrayLike, alpha: ArrayLike = 1
) -> Tensor:
    """Return x with `alpha` times slices of `source` added at indices along an axis.

    >>> pb.index_add([0.0, 0.0, 0.0], 0, [2, 0, 2], [1.0, 2.0, 3.0]).tolist()
    [2.0, 0.0, 4.0]
    """
    values = as_tensor(source)
    values = values if type(alpha) is int and alpha == 1 else multiply(values, alpha)
    return index_reduce(x, axis, index, values, "sum")


@composed
def index_copy(x: ArrayLike, axis: int, index: ArrayLike, source: ArrayLike) -> Tensor:
    """Return x with slices of `source` at indices along an axis.

    >>> pb.index_copy([0, 0, 0], 0, [2, 0], [7, 8]).tolist()
    [8, 0, 7]
    """
    return index_reduce(x, axis, index, source, "set")


@composed
def index_fill(x: ArrayLike, axis: int, index: ArrayLike, value: ArrayLike) -> Tensor:
    """Return x with one value at indices along an axis.

    >>> pb.index_fill([[1, 2], [3, 4]], 1, [0], 9).tolist()
    [[9, 2], [9, 4]]
    """
    given = as_tensor(x)
    tensor = given if given.ndim else reshaped_to(given, (1,))
    key = axis_slice_argument(
        axis_argument("index_fill", axis, tensor.ndim), _vector_of_update_indices(index)
    )
    return reshaped_to(scatter(tensor, key, as_masked_elements(given, value, "value")), given.shape)


@composed
def index_reduce(
    x: ArrayLike, axis: int, index: ArrayLike, source: ArrayLike, reduce: Reduce,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """Return x with slices of `source` combined at indices along an axis.

    `reduce` is "sum", "prod", "mean", "amax", "amin" or "set". Without `include_self`, the elements
    of x that are updated do not count.

    >>> pb.index_reduce([1.0, 2.0], 0, [1, 1], [3.0, 4.0], "prod").tolist()
    [1.0, 24.0]
    """
    given = as_tensor(x)
    tensor = given if given.ndim else reshaped_to(given, (1,))
    place = axis_argument("index_reduce", axis, tensor.ndim)
    values = as_masked_elements(tensor, source, "source")
    values = values if values.ndim == tensor.ndim else reshaped_to(values, (1,) * tensor.ndim)
    key = axis_slice_argument(place, _vector_of_update_indices(index))
    made = _reduced_index_update(tensor, key, values, reduce, include_self)
    return reshaped_to(made, given.shape)


@composed
def scatter_add(x: ArrayLike, axis: int, index: ArrayLike, src: ArrayLike) -> Tensor:
    """Return x with each element of `src` added at its index along an axis.

    `index` has the rank of x and at most the size of `src` in every dimension; elements of `src`
    beyond it are not used.

    >>> pb.scatter_add([[0.0, 0.0, 0.0]], 1, [[2, 0, 2]], [[1.0, 2.0, 3.0]]).tolist()
    [[2.0, 0.0, 4.0]]
    """
    return scatter_reduce(x, axis, index, src, "sum")


@composed
def scatter_reduce(
    x: ArrayLike, axis: int, index: ArrayLike, src: ArrayLike, reduce: Reduce,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """Return x with each element of `src` combined at its index along an axis.

    `reduce` is "sum", "prod", "mean", "amax", "amin" or "set". Without `include_self`, the elements
    of x that are updated do not count. `src` may be a number.

    >>> pb.scatter_reduce([1.0, 2.0, 3.0], 0, [0, 0], [8.0, 9.0], "amax").tolist()
    [9.0, 2.0, 3.0]
    """
    given, places = as_tensor(x), _update_indices(index)
    values = as_masked_elements(given, src, "src")
    tensor = given if given.ndim else reshaped_to(given, (1,))
    place = axis_argument("scatter_reduce", axis, tensor.ndim)
    if not places.size:
        return reshaped_to(tensor, given.shape)
    if places.ndim != tensor.ndim:
        ranks = f"got {tensor._node.type} and shape {list(places.shape)}"
        raise ShapeError(f"x and index must have the same rank, {ranks}")
    if values.ndim:
        values = values[tuple(slice(n) for n in places.shape)]
    grid: list[Any] = [
        _shaped_index_update(arange(n), i, places.ndim) for i, n in enumerate(places.shape)
    ]
    grid[place] = places
    values = spread_to_shape(values, places.shape)
    made = _reduced_index_update(tensor, tuple(grid), values, reduce, include_self)
    return reshaped_to(made, given.shape)


@composed
def select_scatter(x: ArrayLike, src: ArrayLike, axis: int, index: int) -> Tensor:
    """Return x with `src` in place of the slice at an index along an axis.

    >>> pb.select_scatter([[1, 2], [3, 4]], [8, 9], 1, 0).tolist()
    [[8, 2], [9, 4]]
    """
    x = as_tensor(x)
    return scatter(
        x,
        axis_slice_argument(axis_argument("select_scatter", axis, x.ndim), index),
        as_masked_elements(x, src, "src"),
    )


@composed
def slice_scatter(
    x: ArrayLike, src: ArrayLike, axis: int = 0, start: int | None = None,
    stop: int | None = None, step: int = 1,
) -> Tensor:  # fmt: skip
    """Return x with `src` in place of the slice `start:stop:step` along an axis.

    >>> pb.slice_scatter([1, 2, 3, 4], [8, 9], start=1, stop=3).tolist()
    [1, 8, 9, 4]
    """
    x = as_tensor(x)
    part = slice(start, stop, step)
    return scatter(
        x,
        axis_slice_argument(axis_argument("slice_scatter", axis, x.ndim), part),
        as_masked_elements(x, src, "src"),
    )


@composed
def diagonal_scatter(
    x: ArrayLike, src: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Tensor:
    """Return x with `src`, shaped like `diagonal(x, offset, axis1, axis2)`, in that diagonal.

    >>> pb.diagonal_scatter([[1, 2], [3, 4]], [8, 9]).tolist()
    [[8, 2], [3, 9]]
    """
    x = as_tensor(x)
    axes = [axis_argument("diagonal_scatter", a, x.ndim) for a in (axis1, axis2)]
    if axes[0] == axes[1]:
        raise ArgumentError("axis1 and axis2 must differ")
    rows, columns = (x.shape[a] for a in axes)
    first = np.arange(max(0, min(rows + min(offset, 0), columns - max(offset, 0))))
    i, j = first - min(offset, 0), first + max(offset, 0)
    last = moveaxis(x, axes, (-2, -1))
    made = scatter(last, (..., i, j), as_masked_elements(x, src, "src"))
    return moveaxis(made, (-2, -1), axes)


def _reduced_index_update(
    x: Tensor, key: Index, values: Tensor, reduce: str, include_self: bool
) -> Tensor:
    if reduce not in _MODES:
        names = ", ".join(f'"{name}"' for name in _MODES)
        raise ArgumentError(f"reduce must be one of {names}, got {reduce!r}")
    if reduce == "set":
        return scatter(x, key, values)
    if not include_self:
        x = scatter(x, key, astype(_neutral_index_update(x, reduce), x.dtype))
    made = scatter(x, key, values, mode=_MODES[reduce])  # type: ignore[arg-type]
    if reduce != "mean":
        return made
    counts = ones(x.shape, dtype=x.dtype)
    counts = counts if include_self else scatter(counts, key, astype(0, x.dtype))
    counts = scatter(counts, key, astype(1, x.dtype), mode="add")
    return made / counts if x.dtype.is_inexact else made // counts


def _neutral_index_update(x: Tensor, reduce: str) -> float | int:
    """The number that does not change the result of a reduction."""
    if reduce in ("amax", "amin"):
        if x.dtype.is_inexact:
            return -np.inf if reduce == "amax" else np.inf
        limits = np.iinfo(x.dtype.numpy)
        return int(limits.min if reduce == "amax" else limits.max)
    return 1 if reduce == "prod" else 0


def _shaped_index_update(x: Tensor, axis: int, rank: int) -> Tensor:
    return reshaped_to(x, tuple([x.size if i == axis else 1 for i in range(rank)]))


def _update_indices(index: ArrayLike) -> Tensor | np.ndarray:
    """The indices; on the host if they are known, so that they are checked at once."""
    known = index_plan_integers(index)
    if known is not None:
        return known if known.ndim else known.reshape(1)
    found = as_tensor(index)
    if not found.dtype.is_integer and found.size:
        raise DTypeError(f"index must hold integers, got {found._node.type}")
    return found if found.ndim else reshaped_to(found, (1,))


def _vector_of_update_indices(index: ArrayLike) -> Tensor | np.ndarray:
    found = _update_indices(index)
    if found.ndim > 1:
        raise ShapeError(f"index must be a vector, got shape {list(found.shape)}")
    return found


def scatter(
    x: ArrayLike, index: Index, updates: ArrayLike,
    mode: Literal["set", "add", "multiply", "min", "max"] = "set",
) -> Tensor:  # fmt: skip
    """Return `x` with updates at an index: set, add, multiply, min or max, as with `x.at[index]`.

    >>> pb.scatter([0, 0, 0], [1, 1], 2, mode="add").tolist()
    [0, 4, 0]
    """
    mode = text("scatter", mode, "mode")  # type: ignore[assignment]
    with record_at_one_line("scatter"):
        return updated_by_indexing(x, index, updates, mode)


__all__ = [
    "diagonal_scatter", "index_add", "index_copy", "index_fill", "index_reduce", "index_select",
    "scatter", "scatter_add", "scatter_reduce", "select_scatter", "slice_scatter",
]  # fmt: skip
