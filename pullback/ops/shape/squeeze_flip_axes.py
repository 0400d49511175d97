"""Ops described by a list of axes: dimensions of size 1 come and go, elements are flipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import AxisError, ShapeError
from pullback.ops.factor_rules import alike_factor_rule, factor_rule, factor_rule_names
from pullback.ops.prelude import Imported, Node, Op, Text, Type, batch_along, counted
from pullback.ops.shape.movement import Movement


def check_axes(axes: Sequence[int], rank: int) -> None:
    """Raise if an axis is out of range or repeated."""
    for i, axis in enumerate(axes):
        if not 0 <= axis < rank:
            what = f"axis {axis} is out of range for rank {rank}"
            raise AxisError(what, code="E3004", axis=axis, rank=rank)
        if axis in axes[:i]:
            raise AxisError(f"axis {axis} is repeated", code="E3005", axis=axis)


class AlongAxes(Movement, abstract=True):
    """A movement whose only parameter is `axes`, kept in ascending order."""

    axes: tuple[int, ...]
    text = Text(("axes",))
    batch = batch_along

    def __post_init__(self) -> None:
        self.set("axes", tuple(sorted(map(int, self.axes))))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.reshape(x, out.shape)


class _ExpandAxesText(Text):
    def read(self, cls: Any, xs: Sequence[Type], *, axes: tuple[int, ...]) -> Op:
        """In text, axes are inserted one after the other, the smallest first, and each counts the
        dimensions that are there then: a repeated axis is two adjacent dimensions."""
        positions: list[int] = []
        for axis in sorted(counted(axes, xs[0].rank + len(axes))):
            positions = [*[p + (p >= axis) for p in positions], axis]
        return cls(tuple(positions))


class ExpandDims(AlongAxes):
    """Insert dimensions of size 1; `axes` are their positions in the result, ascending."""

    text = _ExpandAxesText(("axes",), "core-v1")
    cases = (((0, 2), (3, 4)), ((0, 1), ()), ((2,), (0, 3)), ((), (2,)))

    def infer(self, x: Type) -> Type:
        rank = x.rank + len(self.axes)
        check_axes(self.axes, rank)
        sizes = iter(x.shape)
        return x.with_shape(1 if i in self.axes else next(sizes) for i in range(rank))

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.expand_dims(x, self.axes)

    def factors(self, x: Type) -> str:
        old = factor_rule_names(x.rank)
        words = iter(old)
        rank = x.rank + len(self.axes)
        return factor_rule([old], [["1" if i in self.axes else next(words) for i in range(rank)]])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [Squeeze(self.axes)(g)]


class Squeeze(AlongAxes):
    """Remove the dimensions `axes`, which must have size 1."""

    text = Text(("axes",), "core-v1")
    cases = (((0, 2), (1, 3, 1, 4)), ((0, 1), (1, 1)), ((1,), (0, 1)), ((), (1, 2)))

    def infer(self, x: Type) -> Type:
        check_axes(self.axes, x.rank)
        for axis in self.axes:
            if x.shape[axis] != 1:
                what = f"squeezed axes must have size 1, axis {axis} of {x} has {x.shape[axis]}"
                raise ShapeError(what, code="E3009", axis=axis, extent=x.shape[axis])
        return x.with_shape(n for i, n in enumerate(x.shape) if i not in self.axes)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.squeeze(x, self.axes)

    def factors(self, x: Type) -> str:
        old = factor_rule_names(x.rank, self.axes)
        return factor_rule([old], [[w for w in old if w != "_"]])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [ExpandDims(self.axes)(g)]


class Flip(AlongAxes):
    """The elements in reverse order along `axes`."""

    imported = Imported(("reverse",), ("dimensions",))
    cases = (((0,), (5,)), ((0, 2), (2, 3, 4)), ((1,), (2, 0)), ((), ()))

    def infer(self, x: Type) -> Type:
        check_axes(self.axes, x.rank)
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.flip(x, self.axes)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        if not self.axes:
            return x
        return b.op("stablehlo.reverse", x, out=out, dimensions=self.axes)

    def factors(self, x: Type) -> str:
        return alike_factor_rule(x.rank, self.axes)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self(g)]
