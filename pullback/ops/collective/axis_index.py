"""The index of an example along a named axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pullback.graph.dtypes import int64
from pullback.ops.collective.all_reduce import Collective
from pullback.ops.prelude import TABLE, Axis, Node, Type


class AxisIndex(Collective):
    """The index of this example along a named axis."""

    axis: str
    differentiable: ClassVar[bool] = False

    def named_axes(self) -> tuple[str, ...]:
        return (self.axis,)

    def infer(self) -> Type:
        return Type((), int64)

    def hlo(self, b: Any, out: Type) -> Any:
        return b.by_position([place[self.axis] for place in b.mesh.coordinates])

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return (self.axis,)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return TABLE["Iota"]((axis.size,), 0, int64)()
