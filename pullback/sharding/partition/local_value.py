"""Values of a per-device program, and the single steps that change their layout."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pullback.graph.dtypes import DType, int64
from pullback.graph.node import Node, node_varying_over
from pullback.ops.collective.all_reduce import PMax, PMin, PSum
from pullback.ops.collective.axis_index import AxisIndex
from pullback.ops.collective.gather_scatter_permute import (
    AllGather,
    AllToAll,
    PSlice,
    ReduceScatter,
)
from pullback.ops.elementwise.functions import equal, less, where
from pullback.ops.prelude import Op, Type, constant_node, full
from pullback.ops.shape.concat_pad import Pad
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.movement import Reshape, Transpose
from pullback.ops.shape.slicing import Slice
from pullback.sharding.factors import FactorForm
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.cells import cell_exchange
from pullback.sharding.spec import Dims, spec_on_mesh

_REDUCTIONS: dict[Any, type[PSum] | type[PMax] | type[PMin]] = {
    "sum": PSum, "max": PMax, "min": PMin
}  # fmt: skip


class LocalValueOrigin(NamedTuple):
    """The source of a value whose `op`, with factors `form`, only moves elements."""

    source: LocalValue
    op: Op
    form: FactorForm

    def dims(self, dims: Dims) -> Dims:
        """Return the layout of the source that corresponds to the layout `dims` of the value."""
        axes = {fs[0]: a for fs, a in zip(self.form.results[0], dims, strict=True) if fs}
        return tuple([axes.get(fs[0], ()) if fs else () for fs in self.form.operands[0]])


class LocalValueRemake(NamedTuple):
    """A function that recomputes a value as shards, and the depth of its chain of such values."""

    make: Callable[[Dims], Node | None]
    depth: int


@dataclass(frozen=True, eq=False)
class LocalValue:
    """A value of the program, as each device holds it.

    `node` is the device's shard of a value of type `whole`, whose dimensions are split along the
    axes `dims`. Over the axes `partial` each device holds only a partial result; `combine`, a name
    or a reduction, combines them. `remake` recomputes the value as shards if that is as cheap.
    """

    node: Node
    whole: Type
    dims: Dims
    partial: tuple[str, ...] = ()
    combine: str | type[Op] = "sum"
    priority: tuple[int, ...] = ()
    remake: LocalValueRemake | None = None
    number: int = -1  # of the application that computed it, in the order of the walk
    origin: LocalValueOrigin | None = None  # the value from which its elements were moved

    def type(self, mesh: DeviceMesh) -> Type:
        """Return the type of the whole value, with its sharding."""
        return self.whole.sharded(spec_on_mesh(mesh, self.dims, self.priority))

    @property
    def axes(self) -> set[str]:
        """The axes along which devices hold different values."""
        return {a for axes in self.dims for a in axes} | set(self.partial)

    def moved(self, node: Node, dim: int, axes: tuple[str, ...]) -> LocalValue:
        """Return the value as `node`, with dimension `dim` split along `axes`."""
        dims = (*self.dims[:dim], axes, *self.dims[dim + 1 :])
        return replace(self, node=node, dims=dims, remake=None, origin=None)


class LocalValueSteps:
    """Single layout changes on a mesh: each takes at most one collective."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh = mesh

    def shard_size(self, n: int, axes: tuple[str, ...]) -> int:
        """Return the size of a shard of a dimension of size n."""
        return -(-n // self.mesh.extent(axes))

    def even(self, p: LocalValue, dim: int, axes: tuple[str, ...]) -> bool:
        return p.whole.shape[dim] % self.mesh.extent(axes) == 0

    def local(self, whole: Type, dims: Dims) -> Type:
        """Return the type of a shard."""
        shape = [self.shard_size(n, axes) for n, axes in zip(whole.shape, dims, strict=True)]
        varying = tuple(sorted({a for axes in dims for a in axes}))
        return Type(shape, whole.dtype, None, varying)

    def note(self, collective: Node, p: LocalValue, why: str) -> Node:
        """Record the reason for a collective."""
        return collective

    def slice(self, p: LocalValue, dim: int, axis: str) -> LocalValue:
        """Split a dimension along one more axis: every device takes its shard."""
        size = self.mesh.sizes[axis]
        x = PSlice(axis, size, dim)(self.unfold(p.node, dim, size))
        return p.moved(x, dim, (*p.dims[dim], axis))

    def slice_padded(self, p: LocalValue, dim: int, axes: tuple[str, ...]) -> LocalValue:
        """Split a whole dimension that does not divide along several axes, padded once for all."""
        n = self.mesh.extent(axes) * self.shard_size(p.whole.shape[dim], axes)
        p = replace(p, node=self.pad(p.node, dim, n), remake=None)
        for axis in axes:
            p = self.slice(p, dim, axis)
        return p

    def gather(self, p: LocalValue, dim: int) -> LocalValue:
        """Concatenate the shards of a dimension along its last axis."""
        *rest, axis = p.dims[dim]
        x = AllGather(axis, self.mesh.sizes[axis], dim)(p.node)
        x = self.fold(self.note(x, p, f"dimension {dim} whole"), dim)
        return p.moved(x if rest else self.crop(x, dim, p.whole.shape[dim]), dim, tuple(rest))

    def exchange(self, p: LocalValue, source: int, target: int) -> LocalValue:
        """Concatenate the shards of one dimension along its last axis, and split another by it."""
        *rest, axis = p.dims[source]
        size = self.mesh.sizes[axis]
        x = AllToAll(axis, size, target, source)(self.unfold(p.node, target, size))
        x = self.fold(self.note(x, p, f"dimension {target} split instead of {source}"), source)
        x = x if rest else self.crop(x, source, p.whole.shape[source])
        return p.moved(x, source, tuple(rest)).moved(x, target, (*p.dims[target], axis))

    def relayout(self, p: LocalValue, dims: Dims) -> LocalValue:
        """Change to a layout in which every dimension divides evenly, by moving cells."""
        found = cell_exchange(self.mesh, p.dims, dims)
        assert found is not None, "the route has no such step"
        rows = _local_value_as_rows(p.node, found.before)
        x = self.note(found.op(rows), p, f"the layout {spec_on_mesh(self.mesh, dims).spec}")
        local = self.local(p.whole, dims)
        x = node_varying_over(_local_value_from_rows(x, found.after, local.shape), local.varying)
        return replace(p, node=x, dims=dims, remake=None, origin=None)

    def scatter(self, p: LocalValue, dim: int, axis: str) -> LocalValue:
        """Reduce partial sums along an axis, and split a dimension along it."""
        size = self.mesh.sizes[axis]
        x = ReduceScatter(axis, size, dim)(self.unfold(p.node, dim, size))
        self.note(x, p, f"the sum over {axis}, split along dimension {dim}")
        partial = tuple([a for a in p.partial if a != axis])
        return replace(p.moved(x, dim, (*p.dims[dim], axis)), partial=partial)

    def reduce(self, p: LocalValue) -> LocalValue:
        """Combine the partial results along all axes."""
        x = p.node
        if p.combine in _REDUCTIONS:
            x = _REDUCTIONS[p.combine](p.partial)(x)
            self.note(x, p, f"the {p.combine} over {', '.join(p.partial)}")
        else:
            for axis in p.partial:
                x = AllGather(axis, self.mesh.sizes[axis], 0)(x)
                self.note(x, p, f"the result over {axis}")
            x = p.combine(tuple(range(len(p.partial))), False)(x)  # type: ignore[operator, call-arg]
        return replace(p, node=x, partial=(), combine="sum", remake=None)

    def unfold(self, x: Node, dim: int, size: int) -> Node:
        """Split a dimension, padded if necessary, into `size` shards along a new dimension."""
        x = self.pad(x, dim, size * -(-x.type.shape[dim] // size))
        shape = x.type.shape
        return Reshape((*shape[:dim], size, shape[dim] // size, *shape[dim + 1 :]))(x)

    def fold(self, x: Node, dim: int) -> Node:
        """Merge a dimension with the next one."""
        shape = x.type.shape
        return Reshape((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))(x)

    def pad(self, x: Node, dim: int, n: int) -> Node:
        more = n - x.type.shape[dim]
        if not more:
            return x
        none = (0,) * x.type.rank
        high = (*none[:dim], more, *none[dim + 1 :])
        return Pad(none, high, none)(x, constant_node(0, x.type.dtype))

    def crop(self, x: Node, dim: int, n: int) -> Node:
        shape = x.type.shape
        if shape[dim] == n:
            return x
        stops = (*shape[:dim], n, *shape[dim + 1 :])
        return Slice((0,) * len(shape), stops, (1,) * len(shape))(x)

    def masked(self, p: LocalValue, dim: int, value: Any) -> LocalValue:
        """Replace the padding of a dimension that does not divide evenly by `value`."""
        n, axes = p.whole.shape[dim], p.dims[dim]
        if self.even(p, dim, axes):
            return p
        shape = [1] * p.whole.rank
        shape[dim] = self.shard_size(n, axes)
        index = Iota(tuple(shape), dim, int64)() + self.begin(n, axes)
        x = where(less(index, constant_node(n, int64)), p.node, full(p.node.type.plain, value))
        return replace(p, node=x, remake=None)

    def on_first(self, p: LocalValue, axes: tuple[str, ...], op: Op) -> LocalValue:
        """Keep the value on the first device along `axes`; others get the neutral element."""
        first = equal(self.index(axes), 0)
        rest = full(p.node.type.plain, neutral_local_value(op, p.whole.dtype))
        return replace(p, node=where(first, p.node, rest), remake=None, origin=None)

    def begin(self, n: int, axes: tuple[str, ...]) -> Node:
        """Return where this device's shard of a dimension of size n begins."""
        return self.index(axes) * self.shard_size(n, axes) if axes else constant_node(0, int64)

    def index(self, axes: tuple[str, ...]) -> Node:
        """Return the index of this device's shard along some axes."""
        index = AxisIndex(axes[0])()
        for a in axes[1:]:
            index = index * self.mesh.sizes[a] + AxisIndex(a)()
        return index


def _local_value_as_rows(x: Node, cells: tuple[int, ...]) -> Node:
    """Return the cells of a shard as rows, given how many lie along each dimension."""
    shape = [n // c for n, c in zip(x.type.shape, cells, strict=True)]
    apart = [size for pair in zip(cells, shape, strict=True) for size in pair]
    rank = len(cells)
    x = Reshape(tuple(apart))(x)
    x = _local_value_transpose(x, (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)))
    return Reshape((math.prod(cells), *shape))(x)


def _local_value_from_rows(x: Node, cells: tuple[int, ...], shape: tuple[int, ...]) -> Node:
    """Return the shard of the given shape whose cells are rows."""
    rank = len(cells)
    x = Reshape((*cells, *x.type.shape[1:]))(x)
    x = _local_value_transpose(x, tuple([i + k for i in range(rank) for k in (0, rank)]))
    return Reshape(shape)(x)


def _local_value_transpose(x: Node, order: tuple[int, ...]) -> Node:
    """Transpose a value whose elements may stay in their order, as then its copy is saved."""
    long = [i for i in order if x.type.shape[i] > 1]
    return x if long == sorted(long) else Transpose(order)(x)


def neutral_local_value(op: Op, dtype: DType) -> Any:
    """Return the operand value that does not change the result of an op."""
    if op.parts.combine not in ("max", "min"):
        return op.parts.neutral
    largest = op.parts.combine == "min"
    if dtype.kind == "b":
        return largest
    if dtype.is_float:
        return math.inf if largest else -math.inf
    limits = np.iinfo(dtype.numpy)
    return limits.max if largest else limits.min
