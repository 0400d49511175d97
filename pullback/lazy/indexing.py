"""Indexing: `x[index]`, `x[index] = value` and `x.at[index]`, with NumPy's rules.

There are no views: writing makes a new tensor. An index that is out of range raises, at once if
it is known, else when the value is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.graph.dtypes import bool_
from pullback.graph.node import Node, constant
from pullback.graph.table import TABLE
from pullback.lazy.index_plan import IndexPlan, plan
from pullback.lazy.operators import NUMBERS, as_tensor, cast_node, node_of, number, scalar
from pullback.lazy.record import at_one_line, cut, record, register
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import Unknown
from pullback.ops.prelude import broadcast_shapes

# What an update does: the op on a block, and the scatter on places that arrays name.
_MODES = {
    "set": ("", "ScatterSet"), "add": ("Add", "ScatterAdd"), "multiply": ("Mul", "ScatterMul"),
    "min": ("Minimum", "ScatterMin"), "max": ("Maximum", "ScatterMax"),
}  # fmt: skip
_KIND_ORDER = "biufc"


def get(x: Any, index: Any) -> Tensor:
    """The elements of `x` that an index names.

    >>> import pullback as pb
    >>> get(pb.tensor([[1, 2, 3], [4, 5, 6]]), (slice(None), -1)).tolist()
    [3, 6]
    """
    x = as_tensor(x)
    steps = plan(x.shape, index)
    start = node_of(x)
    if steps.is_one_element and steps.ranges:
        return record(TABLE["Index"](tuple(r.start for r in steps.ranges)), (start,))
    return handle(_picked(_view(start, steps), steps))


def updated(x: Any, index: Any, value: Any, mode: str = "set") -> Tensor:
    """`x` with a value set, added, multiplied in, or the minimum or maximum taken, at an index.

    >>> import pullback as pb
    >>> updated(pb.tensor([1, 2, 3]), 0, 5, mode="add").tolist()
    [6, 2, 3]
    """
    x = as_tensor(x)
    if mode not in _MODES:
        raise ArgumentError(f"at: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    target, new = node_of(x), _value(value, x)
    if _is_mask(index) and new.type.rank <= x.ndim - len(index.shape):
        return _where_mask(target, as_tensor(index), new, mode)
    steps = plan(x.shape, index)
    new = _broadcast_value(new, steps.result())
    if steps.picks:
        new = _scattered(_view(target, steps), new, steps, mode)
    elif mode != "set":
        new = _apply(_MODES[mode][0], _view(target, steps), new)
    return handle(_put_back(target, new, steps))


def handle(node: Node) -> Tensor:
    """A new handle on a node; what was not computed counts as this thread's pending work."""
    made = wrap(node if current().grad_enabled else cut(node))
    if made._node.value is None:
        register(made)
    return made


class At:
    """`x.at[index]`: updates that make a new tensor."""

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> IndexedPlace:
        return IndexedPlace(self._x, index)


class IndexedPlace:
    """One place of a tensor, to read or to update.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0, 3.0])
    >>> x.at[0].set(9.0).tolist(), x.at[[1, 1]].add(1.0).tolist()
    ([9.0, 2.0, 3.0], [1.0, 4.0, 3.0])
    """

    def __init__(self, x: Tensor, index: Any) -> None:
        self._x, self._index = x, index

    def get(self) -> Tensor:
        return get(self._x, self._index)

    def set(self, value: Any) -> Tensor:
        return updated(self._x, self._index, value, "set")

    def add(self, value: Any) -> Tensor:
        return updated(self._x, self._index, value, "add")

    def multiply(self, value: Any) -> Tensor:
        return updated(self._x, self._index, value, "multiply")

    def min(self, value: Any) -> Tensor:
        return updated(self._x, self._index, value, "min")

    def max(self, value: Any) -> Tensor:
        return updated(self._x, self._index, value, "max")


# -- reading --------------------------------------------------------------------------------------


def _apply(name: str, *nodes: Node) -> Node:
    return record(TABLE[name](), nodes)._node


def _view(x: Node, steps: IndexPlan) -> Node:
    """The block that ints and slices take out, in the view's shape."""
    if any(r != range(n) for r, n in zip(steps.ranges, x.type.shape, strict=True)):
        starts, stops, strides = _bounds(steps)
        x = record(TABLE["Slice"](starts, stops, strides), (x,))._node
    if steps.flipped:
        x = record(TABLE["Flip"](tuple(steps.flipped)), (x,))._node
    if steps.dropped and steps.added:
        return record(TABLE["Reshape"](tuple(steps.view)), (x,))._node
    if steps.dropped:
        return record(TABLE["Squeeze"](tuple(steps.dropped)), (x,))._node
    if steps.added:
        return record(TABLE["ExpandDims"](tuple(steps.added)), (x,))._node
    return x


def _bounds(steps: IndexPlan) -> tuple[tuple[int, ...], ...]:
    ranges = steps.ranges
    starts = tuple(r.start for r in ranges)
    return starts, tuple(r.stop for r in ranges), tuple(r.step for r in ranges)


def _picked(view: Node, steps: IndexPlan) -> Node:
    """The elements that index arrays pick out of the view."""
    if not steps.picks:
        return view
    indices = steps.indices()
    if len(steps.dims) == 1 and steps.place == steps.dims[0]:
        with at_one_line("x[...]"):
            return record(TABLE["Gather"](steps.dims[0]), (view, *indices))._node
    with at_one_line("x[...]"):
        made = record(TABLE["IndexArrays"](tuple(steps.dims)), (view, *indices))._node
    count = indices[0].type.rank
    if not (steps.place and count):
        return made
    rest = tuple(range(count, made.type.rank))
    perm = (*rest[: steps.place], *range(count), *rest[steps.place :])
    return record(TABLE["Transpose"](perm), (made,))._node


# -- writing --------------------------------------------------------------------------------------


def _value(value: Any, x: Tensor) -> Node:
    """What is written, in the element type of the tensor that it is written into."""
    value = number(value)
    if type(value) in NUMBERS:
        kind = {bool: "b", int: "i", float: "f", complex: "c"}[type(value)]
        _check_kind(kind, type(value).__name__, x)
        return scalar(value, x.dtype)
    if isinstance(value, Unknown):
        _check_kind(value.dtype.kind, value.kind.__name__, x)
        return value.cast(x.dtype)
    given = as_tensor(value)
    _check_kind(given.dtype.kind, str(given.dtype), x)
    return cast_node(node_of(given), x.dtype)


def _check_kind(kind: str, shown: str, x: Tensor) -> None:
    ranks = {k: i for i, k in enumerate(_KIND_ORDER)} | {"u": 1}
    if ranks[kind] > ranks[x.dtype.kind]:
        raise DTypeError(
            f"x[...] = : cannot write {shown} into {x._node.type} without loss",
            hint="Cast the value with astype, or make the tensor of that type.",
        )  # fmt: skip


def _broadcast_value(value: Node, shape: tuple[int, ...]) -> Node:
    """The value in the shape of what is written; leading dimensions of extent 1 may be spare."""
    given = value.type.shape
    spare = max(len(given) - len(shape), 0)
    if spare and all(n == 1 for n in given[:spare]):
        value = record(TABLE["Reshape"](given[spare:]), (value,))._node
    if value.type.shape == shape:
        return value
    try:
        fits = broadcast_shapes(value.type.shape, shape) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"x[...] = : the value must broadcast to {list(shape)}, got {value.type}", code="E3001",
        )  # fmt: skip
    return record(TABLE["Broadcast"](shape), (value,))._node


def _is_mask(index: Any) -> bool:
    """Whether the index is one mask: then no place needs to be known to write a value there."""
    if isinstance(index, Tensor):
        return index.dtype is bool_
    return isinstance(index, np.ndarray) and index.dtype == np.bool_


def _where_mask(x: Node, mask: Tensor, value: Node, mode: str) -> Tensor:
    if mask.shape != x.type.shape[: mask.ndim]:
        plan(x.type.shape, mask)  # raises, and says why
    rest = x.type.shape[mask.ndim :]
    value = _broadcast_value(value, rest) if value.type.shape else value
    if mode != "set":
        value = _apply(_MODES[mode][0], x, value)
    held = node_of(mask)
    if rest and mask.shape:
        held = record(TABLE["Reshape"]((*mask.shape, *(1,) * len(rest))), (held,))._node
    return record(TABLE["Where"](), (held, value, x))


def _scattered(view: Node, value: Node, steps: IndexPlan, mode: str) -> Node:
    """The view with values written where index arrays say."""
    indices = steps.indices()
    count, rank = indices[0].type.rank, value.type.rank
    if steps.place and count:  # the op wants the index arrays' dimensions first
        at = steps.place
        perm = (*range(at, at + count), *range(at), *range(at + count, rank))
        value = record(TABLE["Transpose"](perm), (value,))._node
    scatter = TABLE[_MODES[mode][1]](tuple(steps.dims))
    with at_one_line(f"x.at[...].{mode}"):
        return record(scatter, (view, value, *indices))._node


def _put_back(x: Node, new: Node, steps: IndexPlan) -> Node:
    """`x` with the block replaced by a new one, which is given in the view's shape."""
    if new.type.shape != steps.block:
        new = record(TABLE["Reshape"](steps.block), (new,))._node
    if steps.flipped:
        new = record(TABLE["Flip"](tuple(steps.flipped)), (new,))._node
    shape = x.type.shape
    if steps.block == shape:
        return new
    if not new.type.size:
        return x
    low = tuple(r.start for r in steps.ranges)
    high = tuple(n - r[-1] - 1 for r, n in zip(steps.ranges, shape))
    between = tuple(r.step - 1 if len(r) > 1 else 0 for r in steps.ranges)
    pad = TABLE["Pad"](low, high, between)
    everywhere = record(TABLE["Broadcast"](steps.block), (constant(True, bool_),))._node
    inside = record(pad, (everywhere, constant(False, bool_)))._node
    padded = record(pad, (new, constant(0, x.type.dtype)))._node
    return _apply("Where", inside, padded, x)
