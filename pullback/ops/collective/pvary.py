"""Values marked as varying along named axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pullback.graph.node import node_varying_over
from pullback.ops.collective.all_reduce import (
    OneOperandCollective,
    all_reduce_total,
    without_all_reduced_axes,
)
from pullback.ops.prelude import Axis, Node, Type


class PVary(OneOperandCollective):
    """The same value, marked as varying along `axes` too."""

    axes: tuple[str, ...]
    linear: ClassVar[bool] = True
    cheap: ClassVar[bool] = True

    def named_axes(self) -> tuple[str, ...]:
        return self.axes

    def communicates(self) -> tuple[str, ...]:
        return ()

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted({*axes, *self.axes}))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return x

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [all_reduce_total(g, without_all_reduced_axes(self.axes, *xs[0].type.varying))]

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        return node_varying_over(x, without_all_reduced_axes(self.axes, axis.name))
