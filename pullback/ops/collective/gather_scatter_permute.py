"""Collectives that move values between the examples along a named axis.

Most work on a dimension of the axis' size, with one entry for each example. Along an axis of a mesh
the examples are its devices.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pullback.errors import ShapeError
from pullback.graph.dtypes import int64
from pullback.graph.node import node_varying_over
from pullback.ops.collective.all_reduce import (
    OneOperandCollective,
    all_reduce_total,
    require_varying_reduce,
    without_all_reduced_axes,
)
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.functions import where
from pullback.ops.prelude import TABLE, Axis, Node, Type, spread


class GatherPermuteCollective(OneOperandCollective, abstract=True):
    """A linear collective along one axis."""

    axis: str
    linear: ClassVar[bool] = True

    def named_axes(self) -> tuple[str, ...]:
        return (self.axis,)

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        require_varying_reduce((self.axis,), axes)
        return axes

    def groups(self, b: Any) -> Any:
        """Return the groups of devices that communicate."""
        return b.mesh.groups((self.axis,))


class GatherPermuteEntries(GatherPermuteCollective, abstract=True):
    """A collective with an entry of dimension `dim` for each of `size` examples."""

    size: int
    dim: int

    def batch_apart(self, x: Node) -> Node:
        return type(self)(self.axis, self.size, self.dim + 1)(x)

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        return self.batch_rows(x if mapped else spread(x, axis))

    @abstractmethod
    def batch_rows(self, x: Node) -> Node:
        """Return the op batched over its own axis, which is the first dimension of `x`."""


class AllGather(GatherPermuteEntries):
    """The values of all examples, stacked along a new dimension `dim`."""

    wire: ClassVar[str] = "all_gather"

    def infer(self, x: Type) -> Type:
        return x.with_shape((*x.shape[: self.dim], self.size, *x.shape[self.dim :]))

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return without_all_reduced_axes(super().varies(axes), self.axis)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [PSlice(self.axis, self.size, self.dim)(all_reduce_total(g, (self.axis,)))]

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        row = b.reshape(x, (*x.shape[: self.dim], 1, *x.shape[self.dim :]))
        return b.all_gather(row, self.groups(b), self.dim)

    def batch_rows(self, x: Node) -> Node:
        rest = list(range(1, x.type.rank))
        return TABLE["Transpose"]((*rest[: self.dim], 0, *rest[self.dim :]))(x)


class PSlice(GatherPermuteEntries):
    """This example's entry of dimension `dim`."""

    def infer(self, x: Type) -> Type:
        return type_without_gathered(x, self.dim, self.size)

    def communicates(self) -> tuple[str, ...]:
        return ()

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted({*axes, self.axis}))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        if self.axis not in xs[0].type.varying:
            return [
                AllGather(self.axis, self.size, self.dim)(node_varying_over(g, out.type.varying))
            ]
        # Each example has its own operand, and uses one entry of it.
        shape = [1] * xs[0].type.rank
        shape[self.dim] = self.size
        rows = TABLE["Iota"](tuple(shape), self.dim, int64)()
        mine = TABLE["Equal"]()(rows, TABLE["AxisIndex"](self.axis)())
        return [where(mine, TABLE["ExpandDims"]((self.dim,))(g), 0)]

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        starts = [b.constant(0, int64)] * len(x.shape)
        starts[self.dim] = b.by_position([place[self.axis] for place in b.mesh.coordinates])
        sizes = (*x.shape[: self.dim], 1, *x.shape[self.dim + 1 :])
        one = Type(sizes, x.dtype)
        row = b.op("stablehlo.dynamic_slice", x, *starts, out=one, slice_sizes=sizes)
        return b.reshape(row, out.shape)

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        return self.batch_rows(x) if mapped else _gather_permute_to_front(x, self.dim)

    def batch_rows(self, x: Node) -> Node:
        """Example i takes entry i of its own operand: the result is the diagonal."""
        k = self.size
        rest = [i for i in range(1, x.type.rank) if i != self.dim + 1]
        x = TABLE["Transpose"]((0, self.dim + 1, *rest))(x)
        shape = x.type.shape[2:]
        x = TABLE["Reshape"]((k * k, *shape))(x)
        zeros, ones = (0,) * len(shape), (1,) * len(shape)
        return TABLE["Slice"]((0, *zeros), (k * k, *shape), (k + 1, *ones))(x)


class ReduceScatter(GatherPermuteEntries):
    """This example's entry, along dimension `dim`, of the sum along the axis."""

    wire: ClassVar[str] = "reduce_scatter"
    kinds: ClassVar[str] = "iufc"

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        return type_without_gathered(x, self.dim, self.size)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        whole = AllGather(self.axis, self.size, self.dim)(node_varying_over(g, (self.axis,)))
        return [node_varying_over(whole, xs[0].type.varying)]

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        row = b.reduce_scatter(x, self.groups(b), self.dim, "add")
        return b.reshape(row, out.shape)

    def batch_rows(self, x: Node) -> Node:
        return _gather_permute_to_front(TABLE["Sum"]((0,), False)(x), self.dim)


class AllToAll(GatherPermuteCollective):
    """Example i sends entry j of dimension `split` to example j, which stacks the entries that it
    receives along a new dimension `concat`."""

    wire: ClassVar[str] = "all_to_all"
    size: int
    split: int
    concat: int

    def infer(self, x: Type) -> Type:
        shape = type_without_gathered(x, self.split, self.size).shape
        return x.with_shape((*shape[: self.concat], self.size, *shape[self.concat :]))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        g = node_varying_over(g, (self.axis,))
        return [AllToAll(self.axis, self.size, self.concat, self.split)(g)]

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        rows = b.all_to_all(x, self.groups(b), self.split, self.split)
        rest = [i for i in range(len(x.shape)) if i != self.split]
        return b.transpose(rows, [*rest[: self.concat], self.split, *rest[self.concat :]])

    def batch_apart(self, x: Node) -> Node:
        return AllToAll(self.axis, self.size, self.split + 1, self.concat + 1)(x)

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        x = x if mapped else spread(x, axis)
        rest = [i for i in range(1, x.type.rank) if i != self.split + 1]
        order = (self.split + 1, *rest[: self.concat], 0, *rest[self.concat :])
        return TABLE["Transpose"](order)(x)


class PPermute(GatherPermuteCollective):
    """Sends the value of `source` to `target` for each pair; other examples receive zeros."""

    wire: ClassVar[str] = "permute"
    pairs: tuple[tuple[int, int], ...]

    def sent(self, before: float, after: float, devices: int) -> float:
        return before * sum([s != t for s, t in self.pairs]) / devices

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        pairs = [(g[s], g[t]) for g in self.groups(b) for s, t in self.pairs]
        return b.collective_permute(x, pairs)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        back = tuple([(target, source) for source, target in self.pairs])
        return [PPermute(self.axis, back)(g)]

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        x = x if mapped else spread(x, axis)
        sources = {target: source for source, target in self.pairs}
        return TABLE["PermuteRows"](tuple([sources.get(i, -1) for i in range(axis.size)]))(x)


def type_without_gathered(x: Type, dim: int, size: int) -> Type:
    """Return the type without a dimension that has an entry for each of `size` examples."""
    if not 0 <= dim < x.rank or x.shape[dim] != size:
        raise ShapeError(f"dimension {dim} must have size {size}, that of the axis, got {x}")
    return x.with_shape((*x.shape[:dim], *x.shape[dim + 1 :]))


def _gather_permute_to_front(x: Node, dim: int) -> Node:
    """Move a dimension to the front."""
    rest = [i for i in range(x.type.rank) if i != dim]
    return TABLE["Transpose"]((dim, *rest))(x)
