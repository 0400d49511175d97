"""Collectives: values that the examples along a named axis share or exchange.

A type carries the axes over which its value varies. `PSum` makes a value that is the same
everywhere out of one that varies; `PVary` lets such a value count as one that varies. Each is the
other's transpose: without that, gradients through a sum would be wrong by the size of the axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pullback.ir.dtypes import bool_, int64
from pullback.ir.errors import ArgumentError
from pullback.ir.node import vary_over
from pullback.ops.base import TABLE, Axis, Node, Op, Type, constant, spread
from pullback.ops.elementwise.base import cast, equal, where


class Collective(Op, abstract=True):
    """An op over a named axis; inside vmap it is gone when the axis was mapped."""

    def infer(self, x: Type) -> Type:
        return x

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if axis.name not in self.named_axes():
            return self.batch_apart(xs[0])
        return self.batch_over(axis, xs[0], mapped[0])

    def batch_apart(self, x: Node) -> Node:
        """Under an axis that is not the collective's own, in front of the other dimensions."""
        return self(x)

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        """Over the collective's own axis, which is in front if `mapped`."""
        raise NotImplementedError


class PVary(Collective):
    """The same value, seen as one that varies over `axes`."""

    axes: tuple[str, ...]
    linear: ClassVar[bool] = True
    cheap: ClassVar[bool] = True

    def named_axes(self) -> tuple[str, ...]:
        return self.axes

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return self.axes

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        before = xs[0].type.varying
        new = tuple([a for a in self.axes if a not in before])
        g = vary_over(g, self.axes)
        summed = PSum(new)(g) if new else g
        return [vary_over(summed, before)]

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        return vary_over(x, tuple([a for a in self.axes if a != axis.name]))


class Sharing(Collective, abstract=True):
    """A reduction along named axes: every example gets the same result."""

    axes: tuple[str, ...]

    def named_axes(self) -> tuple[str, ...]:
        return self.axes

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        missing = [a for a in self.axes if a not in axes]
        if missing:
            raise ArgumentError(f"the operand must vary over axis {missing[0]!r}")
        return tuple([a for a in axes if a not in self.axes])

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        rest = tuple([a for a in self.axes if a != axis.name])
        y = self.reduce(axis, x) if mapped else self.repeat(axis, x)
        return type(self)(rest)(y) if rest else y

    def reduce(self, axis: Axis, x: Node) -> Node:
        """The reduction of the first dimension."""
        raise NotImplementedError

    def repeat(self, axis: Axis, x: Node) -> Node:
        """The reduction of equal values, one for each example."""
        return x


class PSum(Sharing):
    """The sum along named axes."""

    linear: ClassVar[bool] = True

    def reduce(self, axis: Axis, x: Node) -> Node:
        return TABLE["Sum"]((0,), False)(x)

    def repeat(self, axis: Axis, x: Node) -> Node:
        return x * axis.size

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [vary_over(g, xs[0].type.varying)]


class _Extreme(Sharing, abstract=True):
    """The largest or smallest along named axes; ties share the derivative."""

    reduction: ClassVar[str]

    def reduce(self, axis: Axis, x: Node) -> Node:
        return TABLE[self.reduction]((0,), False)(x)

    def _winners(self, out: Node, x: Node) -> tuple[Node, Node]:
        """Whether this example has the extreme, and how many have it."""
        wins = equal(x, out)
        return wins, PSum(self.axes)(cast(wins, x.type.dtype))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        wins, count = self._winners(out, xs[0])
        return [where(wins, g / count, 0)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        if ts[0] is None:
            return None
        wins, count = self._winners(out, xs[0])
        t = where(wins, ts[0], 0)
        return PSum(self.axes)(t) / count


class PMax(_Extreme):
    """The largest value along named axes."""

    reduction = "Max"


class PMin(_Extreme):
    """The smallest value along named axes."""

    reduction = "Min"


class AxisIndex(Op):
    """The number of the example along a named axis."""

    axis: str
    differentiable: ClassVar[bool] = False

    def named_axes(self) -> tuple[str, ...]:
        return (self.axis,)

    def infer(self) -> Type:
        return Type((), int64)

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return (self.axis,)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return TABLE["Iota"]((axis.size,), 0, int64)()


class AllGather(Collective):
    """The values of all `size` examples, stacked along a new dimension `dim`."""

    axis: str
    size: int
    dim: int
    linear: ClassVar[bool] = True

    def named_axes(self) -> tuple[str, ...]:
        return (self.axis,)

    def infer(self, x: Type) -> Type:
        return x.with_shape((*x.shape[: self.dim], self.size, *x.shape[self.dim :]))

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple([a for a in axes if a != self.axis])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        own = _rows(g, AxisIndex(self.axis)(), self.dim)
        return [vary_over(own, xs[0].type.varying)]

    def batch_apart(self, x: Node) -> Node:
        return AllGather(self.axis, self.size, self.dim + 1)(x)

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        x = x if mapped else spread(x, axis)
        rest = list(range(1, x.type.rank))
        return TABLE["Transpose"]((*rest[: self.dim], 0, *rest[self.dim :]))(x)


class PPermute(Collective):
    """Example `target` gets the value of `source` for each pair; the others get zeros."""

    axis: str
    pairs: tuple[tuple[int, int], ...]
    linear: ClassVar[bool] = True

    def named_axes(self) -> tuple[str, ...]:
        return (self.axis,)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        back = tuple([(target, source) for source, target in self.pairs])
        return [PPermute(self.axis, back)(vary_over(g, xs[0].type.varying))]

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        x = x if mapped else spread(x, axis)
        sources = {target: source for source, target in self.pairs}
        order = np.array([sources.get(i, 0) for i in range(axis.size)], np.int64)
        moved = _rows(x, constant(order, int64), 0)
        given = np.array([i in sources for i in range(axis.size)])
        given = given.reshape(-1, *[1] * (x.type.rank - 1))
        return where(constant(given, bool_), moved, 0)


def _rows(x: Node, index: Node, dim: int) -> Node:
    """The entries of `x` along `dim` that the integers `index` name."""
    return TABLE["Gather"](dim)(x, index)
