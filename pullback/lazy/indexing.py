"""Indexing: `x[index]`, `x[index] = value` and `x.at[index]`, with the rules of NumPy.

There are no views: writing makes a new tensor. An index out of range raises an error, immediately
if it is known, otherwise when the result is read.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.graph.boundary import boundary_methods
from pullback.graph.dtypes import bool_
from pullback.graph.node import Node, constant_node
from pullback.lazy.hooks import hooks
from pullback.lazy.index_plan import IndexPlan, plan_index
from pullback.lazy.operators import (
    NUMBERS,
    as_tensor,
    cast_node,
    node_of,
    operator_number,
    scalar_operator_operand,
)
from pullback.lazy.record import (
    record,
    record_as_constant,
    record_at_one_line,
    record_node,
    register,
    wrap,
)
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.elementwise.arithmetic import Add, Mul
from pullback.ops.elementwise.maximum import Maximum, Minimum
from pullback.ops.elementwise.select import Where
from pullback.ops.index.indexing import Gather, Index, IndexArrays
from pullback.ops.index.scatter import ScatterAdd, ScatterMul, ScatterSet
from pullback.ops.index.scatter_extrema import ScatterMax, ScatterMin
from pullback.ops.prelude import broadcast_shapes
from pullback.ops.shape.concat_pad import Pad
from pullback.ops.shape.movement import Broadcast, Reshape, Transpose
from pullback.ops.shape.slicing import Slice
from pullback.ops.shape.squeeze_flip_axes import ExpandDims, Flip, Squeeze

if TYPE_CHECKING:
    from pullback import typing

# The modes of an update: the op on a block, and the scatter for index arrays
_MODES: dict[str, tuple[Any, Any]] = {
    "set": (None, ScatterSet), "add": (Add(), ScatterAdd), "multiply": (Mul(), ScatterMul),
    "min": (Minimum(), ScatterMin), "max": (Maximum(), ScatterMax),
}  # fmt: skip
_KIND_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_NUMBER_KINDS = {bool: "b", int: "i", float: "f", complex: "c"}


def get_indexed(x: Any, index: Any) -> Tensor:
    """Return `x[index]`.

    >>> import pullback as pb
    >>> get_indexed(pb.tensor([[1, 2, 3], [4, 5, 6]]), (slice(None), -1)).tolist()
    [3, 6]
    """
    x = as_tensor(x)
    steps = plan_index(x.shape, index)
    start = node_of(x)
    if steps.is_one_element and steps.ranges:
        return record(Index(tuple(r.start for r in steps.ranges)), (start,))
    return indexed_handle(_index_picked(_indexed_view(start, steps), steps))


def updated_by_indexing(x: Any, index: Any, value: Any, mode: str = "set") -> Tensor:
    """Return `x` with the elements at an index set, or updated as `mode` says.

    >>> import pullback as pb
    >>> updated_by_indexing(pb.tensor([1, 2, 3]), 0, 5, mode="add").tolist()
    [6, 2, 3]
    """
    x = as_tensor(x)
    if mode not in _MODES:
        raise ArgumentError(f"at: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    target, new = node_of(x), _value_to_index(value, x)
    if _is_indexing_mask(index, x) and new.type.rank <= x.ndim - len(index.shape):
        return _where_index_mask(target, as_tensor(index), new, mode)
    steps = plan_index(x.shape, index)
    new = _broadcast_to_indexed(new, steps.result())
    if steps.picks:
        new = _scattered_by_indexing(_indexed_view(target, steps), new, steps, mode)
    elif mode != "set":
        new = record_node(_MODES[mode][0], _indexed_view(target, steps), new)
    return indexed_handle(_put_back_indexed(target, new, steps))


def indexed_handle(node: Node) -> Tensor:
    """Return a new handle on a node, pending on this thread if it has no value."""
    made = wrap(node if current().grad_enabled else record_as_constant(node))
    if made._node.value is None:
        register(made)
    return made


class AtIndexing:
    """`x.at[index]`: updates that make a new tensor."""

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, index: typing.Index) -> IndexingPlace:
        return IndexingPlace(self._x, index)


@boundary_methods
class IndexingPlace:
    """Elements of a tensor, to read or to update.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0, 3.0])
    >>> x.at[0].set(9.0).tolist(), x.at[[1, 1]].add(1.0).tolist()
    ([9.0, 2.0, 3.0], [1.0, 4.0, 3.0])
    """

    def __init__(self, x: Tensor, index: typing.Index) -> None:
        self._x, self._index = x, index

    def get(self) -> Tensor:
        return get_indexed(self._x, self._index)

    def set(self, value: typing.ArrayLike) -> Tensor:
        return updated_by_indexing(self._x, self._index, value, "set")

    def add(self, value: typing.ArrayLike) -> Tensor:
        return updated_by_indexing(self._x, self._index, value, "add")

    def multiply(self, value: typing.ArrayLike) -> Tensor:
        return updated_by_indexing(self._x, self._index, value, "multiply")

    def min(self, value: typing.ArrayLike) -> Tensor:
        return updated_by_indexing(self._x, self._index, value, "min")

    def max(self, value: typing.ArrayLike) -> Tensor:
        return updated_by_indexing(self._x, self._index, value, "max")


def _indexed_view(x: Node, steps: IndexPlan) -> Node:
    """Return the block that ints and slices select, in the shape of the view."""
    if any(r != range(n) for r, n in zip(steps.ranges, x.type.shape, strict=True)):
        ranges = steps.ranges
        starts, stops = tuple(r.start for r in ranges), tuple(r.stop for r in ranges)
        x = record_node(Slice(starts, stops, tuple(r.step for r in ranges)), x)
    if steps.flipped:
        x = record_node(Flip(tuple(steps.flipped)), x)
    if steps.dropped and steps.added:
        return record_node(Reshape(tuple(steps.view)), x)
    if steps.dropped:
        return record_node(Squeeze(tuple(steps.dropped)), x)
    if steps.added:
        return record_node(ExpandDims(tuple(steps.added)), x)
    return x


def _index_picked(view: Node, steps: IndexPlan) -> Node:
    """Return the elements of the view that index arrays pick."""
    if not steps.picks:
        return view
    indices = steps.indices()
    if len(steps.dims) == 1 and steps.place == steps.dims[0]:
        with record_at_one_line("x[...]"):
            return record_node(Gather(steps.dims[0]), view, *indices)
    with record_at_one_line("x[...]"):
        made = record_node(IndexArrays(tuple(steps.dims)), view, *indices)
    count = indices[0].type.rank
    if not (steps.place and count):
        return made
    rest = tuple(range(count, made.type.rank))
    perm = (*rest[: steps.place], *range(count), *rest[steps.place :])
    return record_node(Transpose(perm), made)


def _value_to_index(value: Any, x: Tensor) -> Node:
    """Return the value to write, in the dtype of the tensor."""
    value = operator_number(value)
    if type(value) in NUMBERS:
        _check_indexed_kind(_NUMBER_KINDS[type(value)], type(value).__name__, x)
        return scalar_operator_operand(value, x.dtype)
    if isinstance(value, TracedNumber):
        _check_indexed_kind(value.dtype.kind, value.kind.__name__, x)
        return value.cast(x.dtype)
    given = as_tensor(value)
    _check_indexed_kind(given.dtype.kind, str(given.dtype), x)
    return cast_node(node_of(given), x.dtype)


def _check_indexed_kind(kind: str, shown: str, x: Tensor) -> None:
    if _KIND_RANK[kind] > _KIND_RANK[x.dtype.kind]:
        what = f"x[...] = : cannot write {shown} into {x._node.type} without loss"
        hint = "Cast the value with astype, or create the tensor with that dtype."
        raise DTypeError(what, hint=hint)


def _broadcast_to_indexed(value: Node, shape: tuple[int, ...]) -> Node:
    """Return the value in the shape that is written; it may have extra leading dimensions of 1."""
    given = value.type.shape
    extra = max(len(given) - len(shape), 0)
    if extra and all(n == 1 for n in given[:extra]):
        value = record_node(Reshape(given[extra:]), value)
    if value.type.shape == shape:
        return value
    try:
        fits = broadcast_shapes(value.type.shape, shape) == shape
    except ShapeError:
        fits = False
    if not fits:
        what = f"the value must broadcast to {list(shape)}, got {value.type}"
        raise ShapeError(f"x[...] = : {what}", code="E3001")
    return record_node(Broadcast(shape), value)


def _is_indexing_mask(index: Any, x: Tensor) -> bool:
    """Whether the index is one mask that fits. Writing through it needs no positions."""
    if isinstance(index, Tensor):
        fits = index.dtype is bool_
    else:
        fits = isinstance(index, np.ndarray) and index.dtype == np.bool_
    return fits and index.shape == x.shape[: len(index.shape)]


def _where_index_mask(x: Node, mask: Tensor, value: Node, mode: str) -> Tensor:
    rest = x.type.shape[mask.ndim :]
    value = _broadcast_to_indexed(value, rest) if value.type.shape else value
    if mode != "set":
        value = record_node(_MODES[mode][0], x, value)
    condition = node_of(mask)
    if rest and mask.shape:
        condition = record_node(Reshape((*mask.shape, *(1,) * len(rest))), condition)
    return record(Where(), (condition, value, x))


def _scattered_by_indexing(view: Node, value: Node, steps: IndexPlan, mode: str) -> Node:
    """Return the view with values written at index arrays."""
    indices = steps.indices()
    count, rank = indices[0].type.rank, value.type.rank
    if steps.place and count:  # the op expects the dimensions of the index arrays first
        at = steps.place
        perm = (*range(at, at + count), *range(at), *range(at + count, rank))
        value = record_node(Transpose(perm), value)
    with record_at_one_line(f"x.at[...].{mode}"):
        return record_node(_MODES[mode][1](tuple(steps.dims)), view, value, *indices)


def _put_back_indexed(x: Node, new: Node, steps: IndexPlan) -> Node:
    """Return `x` with the block replaced by a new one, which has the shape of the view."""
    if new.type.shape != steps.block:
        new = record_node(Reshape(steps.block), new)
    if steps.flipped:
        new = record_node(Flip(tuple(steps.flipped)), new)
    shape = x.type.shape
    if steps.block == shape:
        return new
    if not new.type.size:
        return x
    low = tuple(r.start for r in steps.ranges)
    high = tuple(n - r[-1] - 1 for r, n in zip(steps.ranges, shape))
    between = tuple(r.step - 1 if len(r) > 1 else 0 for r in steps.ranges)
    pad = Pad(low, high, between)
    block = record_node(Broadcast(steps.block), constant_node(True, bool_))
    inside = record_node(pad, block, constant_node(False, bool_))
    padded = record_node(pad, new, constant_node(0, x.type.dtype))
    return record_node(Where(), inside, padded, x)


hooks.indexing = sys.modules[__name__]
