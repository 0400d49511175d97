"""Replacing elements. As in NumPy these functions change their first argument, which must be a
tensor; with `inplace=False` they return a new one, also inside functions that are traced."""

from __future__ import annotations

from typing import Literal

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.composed import composed_inplace
from pullback.functions.creation import arange
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.data_types import astype
from pullback.functions.index_updates import scatter
from pullback.functions.shape import flatten, reshaped_to
from pullback.functions.take_modes import index_in_mode
from pullback.functions.where_take import take, where
from pullback.graph.dtypes import bool_, int64
from pullback.typing import ArrayLike


@composed_inplace
def put(
    x: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: Literal["raise", "wrap", "clip"] = "raise",
    *, inplace: bool = True,
) -> Tensor:  # fmt: skip
    """Write values at indices of the flattened tensor; few values are used in turn.

    Indices out of range are an error, or are counted modulo the size ("wrap") or clipped.

    >>> pb.put([10, 20, 30], [0, 2], [1, 3], inplace=False).tolist()
    [1, 20, 3]
    """
    x = as_tensor(x)
    places = flatten(ind)
    if mode != "raise":
        places = index_in_mode("put", places, x.size, mode)
    elif not places.size:
        places = astype(places, int64)
    values = flatten(astype(v, x.dtype))
    if not places.size or not values.size:
        return reshaped_to(x, x.shape)
    values = take(values, arange(places.size) % values.size)
    return reshaped_to(scatter(flatten(x), places, values), x.shape)


@composed_inplace
def putmask(x: ArrayLike, mask: ArrayLike, values: ArrayLike, *, inplace: bool = True) -> Tensor:
    """Write `values` where a mask of the same shape is true; an element gets the
    value of its own index in the flattened tensor, and few values are repeated.

    >>> pb.putmask(pb.tensor([1, 2, 3]), [True, False, True], [7, 8, 9]).tolist()
    [7, 2, 9]
    """
    x, chosen, new = _put_where("putmask", x, mask, values)
    if not new.size:
        return reshaped_to(x, x.shape)
    return where(chosen, reshaped_to(take(new, arange(x.size) % new.size), x.shape), x)


@composed_inplace
def place(x: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Tensor:
    """Write `vals` where a mask of the same size is true, one after the other;
    few values are repeated.

    >>> pb.place(pb.tensor([1, 2, 3]), [True, False, True], [7, 8]).tolist()
    [7, 2, 8]
    """
    x, chosen, new = _put_where("place", x, mask, vals)
    if not new.size:
        raise ArgumentError("vals must not be empty", op="place")
    order = cumulative_sum(flatten(chosen)) - 1
    return where(chosen, reshaped_to(take(new, order.clip(0) % new.size), x.shape), x)


def _put_where(op: str, x: ArrayLike, mask: ArrayLike, values: ArrayLike) -> tuple[Tensor, ...]:
    x, chosen = as_tensor(x), astype(mask, bool_)
    if chosen.size != x.size:
        message = f"x and mask must have the same size, got {x._node.type} and {chosen._node.type}"
        raise ShapeError(message, op=op)
    return x, reshaped_to(chosen, x.shape), flatten(astype(values, x.dtype))


__all__ = ["place", "put", "putmask"]
