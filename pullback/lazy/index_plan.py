"""Plan an index: ints and slices select a block, then index arrays pick from it."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from pullback import errors
from pullback.errors import ArgumentError, AxisError, DTypeError, IndexOutOfRange, ShapeError
from pullback.graph.dtypes import bool_, int64
from pullback.graph.node import Node, constant_node
from pullback.graph.source_lines import user_line
from pullback.lazy.host_data import asarray, from_host
from pullback.lazy.operators import as_tensor, cast_node, node_of
from pullback.lazy.record import record_node
from pullback.lazy.tensor import Tensor
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.elementwise.arithmetic import Add
from pullback.ops.elementwise.logic import Less
from pullback.ops.elementwise.select import Where
from pullback.ops.prelude import broadcast_shapes
from pullback.ops.shape.movement import Broadcast


class Pick(NamedTuple):
    """An index array for one dimension: on the host, or a tensor."""

    array: Any
    fresh: bool = False  # whether it indexes a new dimension of size 1
    size: int | None = None  # the size of the mask that it comes from


class IndexPlan:
    """The steps of an index of a tensor.

    The block is `ranges`, ascending; its `flipped` dimensions are then reversed. The view is the
    block without the `dropped` dimensions and with the `added` ones. Index arrays pick along the
    dimensions `dims` of the view; their own dimensions are at `place` of the result.
    """

    def __init__(self) -> None:
        self.ranges: list[range] = []
        self.flipped: list[int] = []
        self.dropped: list[int] = []
        self.added: list[int] = []
        self.view: list[int] = []
        self.dims: list[int] = []
        self.picks: list[Pick] = []
        self.place = 0

    @property
    def block(self) -> tuple[int, ...]:
        return tuple(map(len, self.ranges))

    @property
    def is_one_element(self) -> bool:
        """Whether every dimension is indexed by a known int."""
        return len(self.dropped) == len(self.ranges) and not self.added

    def indices(self) -> list[Node]:
        """Return the index arrays as nodes of one shape, without negative indices."""
        shape = self.pick_shape()
        pairs = zip(self.picks, self.dims, strict=True)
        return [_index_plan_node(pick, shape, self.view[dim]) for pick, dim in pairs]

    def pick_shape(self) -> tuple[int, ...]:
        try:
            return broadcast_shapes((), *[p.array.shape for p in self.picks])
        except ShapeError as error:
            raise error.at("index", user_line()) from None

    def result(self) -> tuple[int, ...]:
        """The shape of the indexed elements."""
        kept = [n for i, n in enumerate(self.view) if i not in self.dims]
        if not self.picks:
            return tuple(kept)
        return (*kept[: self.place], *self.pick_shape(), *kept[self.place :])


def plan_index(shape: tuple[int, ...], index: Any) -> IndexPlan:
    """Plan an index of a tensor of the given shape."""
    parts = _expand_index_ellipsis(index_plan_parts(index), shape)
    made = IndexPlan()
    advanced: list[int] = []  # the parts that count as index arrays in NumPy
    before = 0  # dimensions of the result before the first of them
    axis = 0
    for number, part in enumerate(parts):
        if part is None:
            made.added.append(len(made.view))
            made.view.append(1)
            continue
        if part is Ellipsis:  # for no dimension, but it separates its neighbours
            continue
        if isinstance(part, (Pick, int)):
            if not advanced:
                before = len(made.view)
            advanced.append(number)
        if isinstance(part, Pick) and part.fresh:
            made.added.append(len(made.view))
            _add_index_pick(made, part, 1)
            continue
        _add_to_index_plan(made, part, axis, shape[axis])
        axis += 1
    together = advanced == list(range(advanced[0], advanced[-1] + 1)) if advanced else True
    made.place = before if made.picks and together else 0
    return made


def _add_to_index_plan(made: IndexPlan, part: Any, axis: int, size: int) -> None:
    """Add the part of an index for one dimension."""
    if isinstance(part, int):
        i = part + size if part < 0 else part
        if not 0 <= i < size:
            raise index_out_of_range(part, axis, size)
        made.ranges.append(range(i, i + 1))
        made.dropped.append(axis)
    elif isinstance(part, slice):
        taken = _index_plan_range(part, size)
        if taken.step < 0:
            made.flipped.append(axis)
            taken = taken[::-1]
        made.ranges.append(taken)
        made.view.append(len(taken))
    else:
        _check_index_pick(part, axis, size)
        made.ranges.append(range(size))
        _add_index_pick(made, part, size)


def _add_index_pick(made: IndexPlan, pick: Pick, size: int) -> None:
    made.dims.append(len(made.view))
    made.picks.append(pick)
    made.view.append(size)


def _index_plan_range(part: slice, size: int) -> range:
    try:
        taken = range(*part.indices(size))
    except (TypeError, ValueError) as error:
        if isinstance(error, errors.PullbackError):
            raise
        what = "the bounds and step of a slice must be integers, the step not 0"
        raise ArgumentError(f"index: {what}, got {part}") from None
    return taken if len(taken) else range(0)


def index_plan_parts(index: Any) -> list[Any]:
    """Return the parts of an index: ints, slices, picks, `None` and `...`."""
    parts: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        if item is None or item is Ellipsis or isinstance(item, slice):
            parts.append(item)
        elif isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            parts.append(operator.index(item))
        else:
            parts.extend(_index_picks(item))
    if parts.count(Ellipsis) > 1:
        raise ArgumentError("index: `...` may occur only once")
    return parts


def _expand_index_ellipsis(parts: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Replace `...` by full slices; without one, add them at the end."""
    fresh = [p is None or p is Ellipsis or (isinstance(p, Pick) and p.fresh) for p in parts]
    used = fresh.count(False)
    if used > len(shape):
        message = f"index: too many indices, a tensor of rank {len(shape)} got {used}"
        raise AxisError(message, code="E4006")
    rest: list[Any] = [slice(None)] * (len(shape) - used)
    if Ellipsis not in parts:
        return parts + rest
    at = parts.index(Ellipsis)
    return parts[:at] + (rest or [Ellipsis]) + parts[at + 1 :]


def _index_picks(item: Any) -> list[Pick]:
    """Return an integer array, or a mask, as picks."""
    array = index_plan_array(item)
    dtype = array.dtype
    if dtype is bool_ or dtype == np.bool_:
        return _index_mask_picks(array)
    if not (dtype.is_integer if isinstance(array, Tensor) else dtype.kind in "iu"):
        raise _index_plan_type_error(dtype)
    return [Pick(array)]


def index_plan_array(item: Any) -> Any:
    if isinstance(item, (Tensor, TracedNumber)):
        return as_tensor(item)
    if isinstance(item, (list, tuple, range)):
        item = list(item)
        if not item:
            return np.zeros((0,), np.int64)
        if any(isinstance(x, (Tensor, TracedNumber)) for x in item):
            return asarray(item)
    elif not isinstance(item, (bool, np.ndarray, np.generic)):
        raise _index_plan_type_error(type(item).__name__)
    try:
        return np.asarray(item)
    except ValueError:
        raise _index_plan_type_error("a list whose rows have different lengths") from None


def index_plan_integers(item: Any) -> np.ndarray | None:
    """The integers that the user wrote, which can be checked at once; None for a tensor."""
    if isinstance(item, int):
        return np.asarray(item)
    if not isinstance(item, (list, tuple, range, np.ndarray, np.generic)):
        return None
    array = index_plan_array(item)
    return array if isinstance(array, np.ndarray) and array.dtype.kind in "iu" else None


def _index_plan_type_error(found: Any) -> DTypeError:
    expected = "integers, slices, `...`, None, integer arrays and masks"
    return DTypeError(f"index: must consist of {expected}, got {found}", code="E4011")


def _index_mask_picks(mask: Any) -> list[Pick]:
    """Return the positions where a mask is true, as picks."""
    if isinstance(mask, Tensor):
        mask = mask.numpy()
    if mask.ndim == 0:
        return [Pick(np.zeros((int(mask),), np.int64), fresh=True)]
    places = np.nonzero(mask)
    return [Pick(np.asarray(i, np.int64), size=n) for i, n in zip(places, mask.shape)]


def _check_index_pick(pick: Pick, axis: int, size: int) -> None:
    """Check an index array on the host; a tensor is checked when its values are computed."""
    if pick.size not in (None, size, 0):  # as in NumPy, an empty mask selects nothing
        raise AxisError(
            "index: a mask must have the shape of the dimensions that it indexes, "
            f"axis {axis} has size {size} and the mask {pick.size}", code="E3001",
        )  # fmt: skip
    if isinstance(pick.array, Tensor) or not pick.array.size:
        return
    wrong = (pick.array < -size) | (pick.array >= size)
    if wrong.any():
        raise index_out_of_range(int(pick.array[wrong].flat[0]), axis, size)


def index_out_of_range(index: int, axis: int, size: int) -> IndexOutOfRange:
    message = f"index {index} is out of range for axis {axis} with size {size}"
    return IndexOutOfRange(message, index=index, axis=axis, extent=size)


def _index_plan_node(pick: Pick, shape: tuple[int, ...], size: int) -> Node:
    array = pick.array
    if not isinstance(array, Tensor):
        array = array.astype(np.int64)
        array = np.broadcast_to(np.where(array < 0, array + size, array), shape)
        return from_host(np.array(array, order="C"))._node
    index = plan_index_from_start(node_of(array), size)
    if index.type.shape != shape:
        index = record_node(Broadcast(shape), index)
    return index


def plan_index_from_start(index: Node, size: int) -> Node:
    """Return an index array with `size` added to negative indices."""
    if index.type.dtype.kind == "u":
        return index
    if index.type.dtype.bits < 32 or size >= 2**31:
        index = cast_node(index, int64)
    dtype = index.type.dtype
    negative = record_node(Less(), index, constant_node(0, dtype))
    return record_node(
        Where(), negative, record_node(Add(), index, constant_node(size, dtype)), index
    )
