"""Objects whose index makes a tensor: `pb.mgrid[0:2, 0:3]`, `pb.r_[x, 0, 1:5]`."""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    checked_integer_argument,
    one_or_many_arguments,
    operator_number,
)
from pullback.functions.creation import arange, linspace, meshgrid
from pullback.functions.data_types import astype, result_type
from pullback.functions.joining import concat
from pullback.functions.shape import permute_dims, reshaped_to, swapaxes
from pullback.functions.stacking import stack
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import DType
from pullback.lazy.operators import NUMBERS


class SliceNotation:
    """An object that is called by its index, which may contain slices."""

    def __init__(self, name: str) -> None:
        self.name = name

    def points_of_slice(self, item: Any, dtype: DType | None = None) -> Tensor:
        """The points of one slice."""
        if not isinstance(item, slice) or item.stop is None:
            raise ArgumentError(
                f"needs slices with an end, got {shown_argument(item)}", op=self.name
            )
        start, step = item.start or 0, 1 if item.step is None else item.step
        if isinstance(step, complex):
            return linspace(start, item.stop, int(abs(step)), dtype=dtype)
        return arange(start, item.stop, step, dtype=dtype)

    def __repr__(self) -> str:
        return f"pullback.{self.name}"


class GridNotation(SliceNotation):
    """Makes grids from slices: `mgrid[0:2, 0:3]` and, with axes of size 1, `ogrid[0:2, 0:3]`.

    The step of a slice may be complex: `0:1:5j` is 5 points from 0 to 1, both included.

    >>> pb.mgrid[0:2, 0:3].tolist()
    [[[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [0, 1, 2]]]
    >>> [row.tolist() for row in pb.ogrid[0:2, 0:1:3j]]
    [[[0.0], [1.0]], [[0.0, 0.5, 1.0]]]
    """

    def __init__(self, name: str, sparse: bool) -> None:
        super().__init__(name)
        self.sparse = sparse

    def __getitem__(self, slices: Any) -> Tensor | tuple[Tensor, ...]:
        rows = [self.points_of_slice(item) for item in one_or_many_arguments(slices)]
        if not isinstance(slices, tuple):
            return rows[0]
        rows = [astype(r, result_type(*rows)) for r in rows]
        grids = meshgrid(*rows, indexing="ij", sparse=self.sparse)
        return tuple(grids) if self.sparse else stack(grids)


class JoinNotation(SliceNotation):
    """Joins tensors, lists, numbers and slices: `r_` along the first axis, `c_` as columns.

    A string in front gives the axis, the least rank, and the place of the dimensions of an operand
    of a lower rank, as in NumPy: `c_[...]` is `r_["-1,2,0", ...]`. The step of a slice may be
    complex: `0:1:5j` is 5 points from 0 to 1, both included.

    >>> x = pb.tensor([1.0, 2.0])
    >>> pb.r_[x, 0, 3:5].tolist(), pb.c_[x, x * x].tolist()
    ([1.0, 2.0, 0.0, 3.0, 4.0], [[1.0, 1.0], [2.0, 4.0]])
    """

    def __init__(self, name: str, axis: int, rank: int, place: int) -> None:
        super().__init__(name)
        self.layout = axis, rank, place

    def __getitem__(self, items: Any) -> Tensor:
        items = items if isinstance(items, tuple) else (items,)
        axis, rank, place = self.layout
        if items and isinstance(items[0], str):
            axis, rank, place = self._read_layout(items[0])
            items = items[1:]
        if not items:
            raise ArgumentError("there is nothing to join", op=self.name)
        dtype = result_type(*[self._typed(x) for x in items])
        parts = [
            _raised_slice_notation(self.points_of_slice(x, dtype), rank, place, True)
            if isinstance(x, slice)
            else _raised_slice_notation(astype(x, dtype), rank, place, False)
            for x in items
        ]
        return concat(parts, axis=axis)

    def _typed(self, item: Any) -> Any:
        """What decides about the dtype: floats in a slice have none of their own."""
        if isinstance(item, slice):
            points = self.points_of_slice(item)
            return 0.5 if points.dtype.is_float else points
        return operator_number(item) if type(operator_number(item)) in NUMBERS else as_tensor(item)

    def _read_layout(self, text: str) -> tuple[int, int, int]:
        """The axis, rank and place that a string such as "0,2,1" gives."""
        try:
            found = [int(part) for part in text.split(",")]
        except ValueError:
            found = []
        if not 1 <= len(found) <= 3:
            what = f"a layout must be one to three integers, got {shown_argument(text)}"
            raise ArgumentError(what, op=self.name, hint='Write it as in r_["0,2", x, y].')
        axis, rank, place = [*found, *self.layout[len(found) :]]
        return axis, checked_integer_argument(self.name, rank, "the rank"), place


def _raised_slice_notation(x: Tensor, rank: int, place: int, is_slice: bool) -> Tensor:
    """`x` with dimensions of size 1 up to a rank; its own dimensions are at a place among them."""
    more = rank - x.ndim
    if more <= 0:
        return x
    made = reshaped_to(x, (*(1,) * more, *x.shape))
    if is_slice:
        return swapaxes(made, -1, place)
    if not x.ndim or place == -1:
        return made
    before = place if place >= 0 else place + more + 1
    axes = list(range(rank))
    return permute_dims(made, axes[:before] + axes[more:] + axes[before:more])


mgrid, ogrid = GridNotation("mgrid", False), GridNotation("ogrid", True)
r_, c_ = JoinNotation("r_", 0, 1, -1), JoinNotation("c_", -1, 2, 0)

__all__ = ["c_", "mgrid", "ogrid", "r_"]
