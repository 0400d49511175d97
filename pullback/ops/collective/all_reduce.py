"""Reductions along a named axis, and the base classes of collectives.

A type lists the axes along which its value varies. `PSum` turns a varying value into one that is
the same everywhere; `PVary` marks such a value as varying. Each is the transpose of the other:
without that, gradients through a sum would be wrong by a factor of the axis size.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pullback.errors import ArgumentError
from pullback.graph.dtypes import int64
from pullback.graph.node import node_varying_over
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.functions import cast, either, equal, not_equal, where
from pullback.ops.op import op_results_over_axes
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type
from pullback.ops.traits import HasNamedAxes
from pullback.sharding.cost import traffic_cost


class Collective(Op, HasNamedAxes, abstract=True):
    """An op along named axes, of a vmap or a mesh, which must be in scope. In a per-device program,
    `b.mesh.groups(axes)` are the groups of devices that communicate, and `b.mesh.coordinates` are
    the coordinates of each device."""

    wire: ClassVar[str] = ""  # what goes between devices: all_reduce, all_gather ...

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the named axes along which the result varies, given those of the operands."""
        return axes

    def sent(self, before: float, after: float, devices: int) -> float:
        """Return the bytes that each of `devices` devices sends on average, given the bytes of the
        operands and results on each."""
        return traffic_cost(self.wire, max(before, after), devices)

    def steps(self) -> int:
        """Return the number of communications, which follow each other."""
        return 1

    def _derive_type(self, types: tuple[Type, ...]) -> Any:
        axes = self.varies(types[0].varying if types else ())
        return op_results_over_axes(super()._derive_type(types), axes)


class OneOperandCollective(Collective, abstract=True):
    """A collective of one operand."""

    def communicates(self) -> tuple[str, ...]:
        return self.named_axes()

    def infer(self, x: Type) -> Type:
        return x

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        if not self.linear:
            return super().jvp(out, xs, ts)
        return None if ts[0] is None else self(node_varying_over(ts[0], xs[0].type.varying))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if axis.name not in self.named_axes():
            return self.batch_apart(xs[0])
        return self.batch_over(axis, xs[0], mapped[0])

    def batch_apart(self, x: Node) -> Node:
        """Return the op batched over another axis, which is the first dimension of `x`."""
        return self(x)

    @abstractmethod
    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        """Return the op batched over its own axis, the first dimension of `x` if `mapped`."""


class ReduceOverAxes(Collective, abstract=True):
    """A reduction along named axes, with the same result for every example."""

    axes: tuple[str, ...]
    kinds: ClassVar[str] = "iufc"
    wire: ClassVar[str] = "all_reduce"

    def __post_init__(self) -> None:
        self.set("axes", tuple(sorted(self.axes)))

    def named_axes(self) -> tuple[str, ...]:
        return self.axes

    communicates = named_axes

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        require_varying_reduce(self.axes, axes)
        return without_all_reduced_axes(axes, *self.axes)


class SharingAllReduce(ReduceOverAxes, OneOperandCollective, abstract=True):
    """A reduction of one operand."""

    reduction: ClassVar[str]  # the op that reduces a dimension
    combiner: ClassVar[str]  # the instruction that combines two elements

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        return x

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        rest = without_all_reduced_axes(self.axes, axis.name)
        y = TABLE[self.reduction]((0,), False)(x) if mapped else self.reduce_equal(axis, x)
        return type(self)(rest)(y) if rest else y

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.all_reduce([x], b.mesh.groups(self.axes), self.combiner)[0]

    def reduce_equal(self, axis: Axis, x: Node) -> Node:
        """Return the reduction of a value that is the same for all examples."""
        return x


class PSum(SharingAllReduce):
    """The sum along named axes."""

    linear: ClassVar[bool] = True
    reduction, combiner = "Sum", "add"

    def reduce_equal(self, axis: Axis, x: Node) -> Node:
        return x * axis.size

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [node_varying_over(all_reduce_total(g, self.axes), xs[0].type.varying)]


class AllReduce(ReduceOverAxes):
    """The sums of several operands along named axes, in one communication."""

    linear: ClassVar[bool] = True

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        for x in xs:
            check_elementwise_kind(x.dtype, self.kinds)
        return xs

    def hlo(self, b: Any, out: tuple[Type, ...], *xs: Any) -> Any:
        return tuple(b.all_reduce(xs, b.mesh.groups(self.axes), "add"))

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [
            node_varying_over(all_reduce_total(c, self.axes), x.type.varying)
            for c, x in zip(g, xs, strict=True)
        ]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> tuple[Node, ...]:
        pairs = zip(xs, mapped, strict=True)
        return tuple([PSum(self.axes).batch(axis, (x,), (has,)) for x, has in pairs])


class _ExtremeAllReduce(SharingAllReduce, abstract=True):
    """The largest or smallest value along named axes; NaN wins, and ties share the derivative."""

    kinds = "biuf"

    def _winners(self, out: Node, x: Node) -> tuple[Node, Node]:
        """Return whether this example has the extreme value, and how many examples have it."""
        wins = either(equal(x, out), not_equal(x, x))
        return wins, cast(PSum(self.axes)(cast(wins, int64)), x.type.dtype)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        wins, count = self._winners(out, xs[0])
        return [where(wins, all_reduce_total(g, self.axes) / count, 0)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        if ts[0] is None:
            return None
        wins, count = self._winners(out, xs[0])
        return PSum(self.axes)(where(wins, ts[0], 0)) / count


class PMax(_ExtremeAllReduce):
    """The largest value along named axes."""

    reduction, combiner = "Max", "maximum"


class PMin(_ExtremeAllReduce):
    """The smallest value along named axes."""

    reduction, combiner = "Min", "minimum"


def all_reduce_total(g: Node, axes: tuple[str, ...]) -> Node:
    """Return the sum along `axes` of the cotangents of a value that examples share."""
    along = tuple([a for a in axes if a in g.type.varying])
    return PSum(along)(g) if along else g


def require_varying_reduce(axes: Sequence[str], varying: Sequence[str]) -> None:
    for a in axes:
        if a not in varying:
            raise ArgumentError(f"the operand must vary along axis {a!r}")


def without_all_reduced_axes(axes: Sequence[str], *names: str | None) -> tuple[str, ...]:
    return tuple([a for a in axes if a not in names])
