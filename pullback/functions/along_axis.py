"""Reading and writing along an axis, with an index of its own for each element."""

from __future__ import annotations

from typing import Literal

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import axis_argument, converted_argument
from pullback.functions.composed import composed_inplace
from pullback.functions.shape import flatten, reshaped_to, spread_to_shape
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import int64
from pullback.lazy.index_plan import index_out_of_range, index_plan_integers, plan_index_from_start
from pullback.lazy.indexing import updated_by_indexing
from pullback.lazy.operators import as_tensor, node_of
from pullback.lazy.record import record, record_at_one_line
from pullback.lazy.tensor import Tensor
from pullback.ops.index.along_axis import TakeAlongAxis
from pullback.ops.prelude import broadcast_shapes
from pullback.ops.shape.iota import Iota
from pullback.typing import ArrayLike

UpdateMode = Literal["set", "add", "multiply", "min", "max"]


def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Tensor:
    """Return out[.., i, ..] = x[.., indices[.., i, ..], ..]: each element has an index of its own.

    With `axis=None`, the indices are a vector, and so is the tensor: it is flattened.

    >>> pb.take_along_axis([[1, 2], [3, 4]], [[1], [0]], axis=1).tolist()
    [[2], [3]]
    """
    x, axis = _operand_along_axis("take_along_axis", as_tensor(x), axis)
    x, wide = _aligned_along_axis("take_along_axis", x, indices, axis)
    size = x.shape[axis]
    index = plan_index_from_start(node_of(wide), size) if wide.dtype.is_integer else wide._node
    return record(TakeAlongAxis(axis), (node_of(x), index))


@composed_inplace
def put_along_axis(
    x: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None = -1,
    mode: UpdateMode = "set", *, inplace: bool = True,
) -> Tensor:  # fmt: skip
    """Write x[.., indices[.., i, ..], ..] = values[.., i, ..] along an axis, and return `x`.

    With `inplace=False`, a new tensor is returned and `x` is left as it is. Instead of being set,
    elements may be combined with the values: `mode` is one of those of `scatter`.

    >>> pb.put_along_axis(pb.tensor([[1, 2], [3, 4]]), [[1], [0]], 9, axis=1).tolist()
    [[1, 9], [9, 4]]
    >>> pb.put_along_axis(pb.zeros(2), [1, 1], [2.0, 3.0], axis=0, mode="add").tolist()
    [0.0, 5.0]
    """
    given = as_tensor(x)
    whole, axis = _operand_along_axis("put_along_axis", given, axis)
    spread_out, wide = _aligned_along_axis("put_along_axis", whole, indices, axis)
    if spread_out.shape != whole.shape:
        message = f"indices must not have more elements than {whole._node.type} beside axis {axis}"
        raise ShapeError(f"{message}, got {as_tensor(indices)._node.type}", op="put_along_axis")
    if mode not in ("set", "add", "multiply", "min", "max"):
        message = f"mode must be set, add, multiply, min or max, got {shown_argument(mode)}"
        raise ArgumentError(message, op="put_along_axis")
    places = [record(Iota(_shape_along_axis(n, i, wide.ndim), i, int64), ())
              for i, n in enumerate(wide.shape)]  # fmt: skip
    places[axis] = wide
    with record_at_one_line("put_along_axis"):
        return reshaped_to(updated_by_indexing(whole, tuple(places), values, mode), given.shape)


def _shape_along_axis(size: int, axis: int, rank: int) -> tuple[int, ...]:
    return (*(1,) * axis, size, *(1,) * (rank - axis - 1))


def _operand_along_axis(op: str, x: Tensor, axis: int | None) -> tuple[Tensor, int]:
    if axis is None:
        return flatten(x), 0
    return x, axis_argument(op, axis, x.ndim)


def _aligned_along_axis(op: str, x: Tensor, indices: ArrayLike, axis: int) -> tuple[Tensor, Tensor]:
    """The tensor and the indices, with the same sizes beside the axis."""
    places = as_tensor(indices)
    if places.ndim != x.ndim:
        got = f"{x._node.type} and {places._node.type}"
        message = f"tensor and indices must have the same rank, got {got}"
        raise ShapeError(message, op=op, code="E3002")
    others = [(*t.shape[:axis], 1, *t.shape[axis + 1 :]) for t in (x, places)]
    shape = converted_argument(op, broadcast_shapes, *others)
    x, wide = (
        spread_to_shape(t, (*shape[:axis], t.shape[axis], *shape[axis + 1 :])) for t in (x, places)
    )
    values, size = index_plan_integers(indices), x.shape[axis]
    if values is not None:
        wrong = values[(values < -size) | (values >= size)]
        if wrong.size:
            raise index_out_of_range(int(wrong[0]), axis, size)
    return x, wide


__all__ = ["put_along_axis", "take_along_axis"]
