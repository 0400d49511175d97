"""Reading and replacing the elements that a mask selects."""

from __future__ import annotations

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.composed import composed
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.data_types import astype
from pullback.functions.insert_delete import check_insert_delete_places, insert_delete_axis
from pullback.functions.shape import broadcast_shapes, flatten, reshaped_to, spread_to_shape
from pullback.functions.where_take import take, where
from pullback.graph.dtypes import bool_, int64
from pullback.lazy.host_reads import read_on_host
from pullback.typing import ArrayLike


@composed
def masked_fill(x: ArrayLike, mask: ArrayLike, value: ArrayLike) -> Tensor:
    """Return x with `value` where the mask is true; the result has the dtype of x.

    >>> pb.masked_fill([1.0, 2.0, 3.0], [True, False, False], 0).tolist()
    [0.0, 2.0, 3.0]
    """
    x, mask = as_tensor(x), _masking_argument(mask)
    return where(mask, as_masked_elements(x, value, "value"), x)


@composed
def masked_select(x: ArrayLike, mask: ArrayLike) -> Tensor:
    """Return the elements where the mask is true, as a vector; x and the mask broadcast.

    The mask decides the shape of the result, so its values are read.

    >>> pb.masked_select([[1.0, 2.0], [3.0, 4.0]], [True, False]).tolist()
    [1.0, 3.0]
    """
    x, mask = as_tensor(x), _masking_argument(mask)
    shape = broadcast_shapes(x.shape, mask.shape)
    return flatten(spread_to_shape(x, shape))[flatten(spread_to_shape(mask, shape))]


@composed
def masked_scatter(x: ArrayLike, mask: ArrayLike, source: ArrayLike) -> Tensor:
    """Return x with the elements of `source`, one after the other, where the mask is true.

    `source` must have at least as many elements as the mask has true ones.

    >>> pb.masked_scatter([0, 0, 0, 0], [True, False, True, True], [7, 8, 9]).tolist()
    [7, 0, 8, 9]
    """
    x, mask = as_tensor(x), _masking_argument(mask)
    shape = broadcast_shapes(x.shape, mask.shape)
    x, mask = spread_to_shape(x, shape), spread_to_shape(mask, shape)
    values = flatten(as_masked_elements(x, source, "source"))
    if not x.size or not values.size:
        return where(mask, x, x)
    chosen = flatten(mask)
    places = where(chosen, cumulative_sum(astype(chosen, int64), axis=0) - 1, 0)
    return where(mask, reshaped_to(take(values, places), shape), x)


def as_masked_elements(x: Tensor, value: ArrayLike, what: str) -> Tensor:
    """Return new elements of x in its dtype; complex ones of a real tensor are an error."""
    given = as_tensor(value)
    if given.dtype.is_complex and not x.dtype.is_complex:
        raise DTypeError(f"{what} must be real for {x._node.type}, got {given._node.type}")
    return astype(value, x.dtype)


def _masking_argument(mask: ArrayLike) -> Tensor:
    found = as_tensor(mask)
    if found.dtype is not bool_:
        hint = "Compare it with something, as in mask != 0."
        raise DTypeError(f"the mask must be bool, got {found._node.type}", hint=hint)
    return found


@composed
def compress(condition: ArrayLike, x: ArrayLike, axis: int | None = None) -> Tensor:
    """Return the slices along an axis where a vector is true; without an axis `x` is flattened.
    The condition is evaluated.

    >>> pb.compress([False, True, True], [10, 20, 30]).tolist()
    [20, 30]
    """
    mask = read_on_host(as_tensor(condition))
    if mask.ndim != 1:
        message = f"the condition must be a vector, got rank {mask.ndim}"
        raise ShapeError(message, op="compress", code="E3002")
    x, axis = insert_delete_axis("compress", x, axis)
    places = np.flatnonzero(mask)
    check_insert_delete_places("compress", places, 0, x.shape[axis], x.shape[axis], axis)
    return take(x, places, axis)


@composed
def extract(condition: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the elements of a tensor where a condition of the same size is true, as a vector.
    The condition is evaluated.

    >>> x = pb.tensor([[1, 2], [3, 4]])
    >>> pb.extract(x % 2 == 0, x).tolist()
    [2, 4]
    """
    places, x = np.flatnonzero(read_on_host(as_tensor(condition))), as_tensor(x)
    check_insert_delete_places("extract", places, 0, x.size, x.size, 0)
    return take(flatten(x), places, 0)


__all__ = ["compress", "extract", "masked_fill", "masked_scatter", "masked_select"]
