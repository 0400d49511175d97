"""Values of a per-device program, and the steps that change how they lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pullback.graph.dtypes import int64
from pullback.graph.node import Node
from pullback.ops.elementwise.functions import equal, less, where
from pullback.ops.prelude import TABLE, Op, Type, constant, full
from pullback.sharding.factors import Form
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import Dims, Sharding, on_mesh


class Origin(NamedTuple):
    """A value made from another by moving elements: by `op`, whose factors `form` tells."""

    source: Placed
    op: Op
    form: Form

    def dims(self, dims: Dims) -> Dims:
        """How the source lies where the value lies along `dims`."""
        axes = {fs[0]: a for fs, a in zip(self.form.results[0], dims, strict=True) if fs}
        return tuple([axes.get(fs[0], ()) if fs else () for fs in self.form.operands[0]])


class Remake(NamedTuple):
    """How to make a value anew, in parts; its operands may be made anew for that, so many deep."""

    make: Callable[[Dims], Node | None]
    depth: int


@dataclass(frozen=True, eq=False)
class Placed:
    """One value of the program, as each device has it.

    `node` is the device's part of a value of type `whole`, whose dimensions are split along the
    axes `dims`. Over the axes `partial` every device has only its contribution, and `combine` says
    how they are joined: a name, or a reduction. `remake` makes the value anew, in parts, where
    that is as cheap.
    """

    node: Node
    whole: Type
    dims: Dims
    partial: tuple[str, ...] = ()
    combine: str | type[Op] = "sum"
    priority: tuple[int, ...] = ()
    remake: Remake | None = None
    number: int = -1  # of the application that made it, in the order of the walk
    origin: Origin | None = None  # where its elements were before they were only moved

    def sharding(self, mesh: DeviceMesh) -> Sharding:
        return on_mesh(mesh, self.dims, self.priority)

    def type(self, mesh: DeviceMesh) -> Type:
        """The whole value's type, with how it lies."""
        return self.whole.sharded(self.sharding(mesh))

    @property
    def axes(self) -> set[str]:
        """The axes along which devices have different parts."""
        return {a for axes in self.dims for a in axes} | set(self.partial)

    def moved(self, node: Node, dim: int, axes: tuple[str, ...]) -> Placed:
        dims = (*self.dims[:dim], axes, *self.dims[dim + 1 :])
        return replace(self, node=node, dims=dims, remake=None, origin=None)


class LayoutSteps:
    """Single steps on a mesh: each makes one collective at most."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh = mesh

    def part(self, n: int, axes: tuple[str, ...]) -> int:
        """How much of a dimension of extent n each device has."""
        return -(-n // self.mesh.extent(axes))

    def even(self, p: Placed, dim: int, axes: tuple[str, ...]) -> bool:
        return p.whole.shape[dim] % self.mesh.extent(axes) == 0

    def local(self, whole: Type, dims: Dims) -> Type:
        """The type of a device's part."""
        shape = [self.part(n, axes) for n, axes in zip(whole.shape, dims, strict=True)]
        varying = tuple(sorted({a for axes in dims for a in axes}))
        return Type(shape, whole.dtype, None, varying)

    def note(self, made: Node, p: Placed, why: str) -> Node:
        """Remember for what a collective was made."""
        return made

    # -- one axis at a time ---------------------------------------------------------------------

    def slice(self, p: Placed, dim: int, axis: str) -> Placed:
        """Split a dimension along one more axis: every device takes its part."""
        size = self.mesh.sizes[axis]
        x = self.pad(p.node, dim, size * -(-p.node.type.shape[dim] // size))
        made = TABLE["PSlice"](axis, size, dim)(self.unfold(x, dim, size))
        return p.moved(made, dim, (*p.dims[dim], axis))

    def gather(self, p: Placed, dim: int) -> Placed:
        """Join a dimension along the last axis that it is split by."""
        *rest, axis = p.dims[dim]
        size = self.mesh.sizes[axis]
        made = self.note(TABLE["AllGather"](axis, size, dim)(p.node), p, f"dimension {dim} whole")
        made = self.fold(made, dim)
        if not rest:
            made = self.crop(made, dim, p.whole.shape[dim])
        return p.moved(made, dim, tuple(rest))

    def exchange(self, p: Placed, source: int, target: int) -> Placed:
        """Join one dimension along its last axis, and split another along it instead."""
        *rest, axis = p.dims[source]
        size = self.mesh.sizes[axis]
        x = self.pad(p.node, target, size * -(-p.node.type.shape[target] // size))
        x = TABLE["AllToAll"](axis, size, target, source)(self.unfold(x, target, size))
        made = self.fold(self.note(x, p, f"dimension {target} split in place of {source}"), source)
        if not rest:
            made = self.crop(made, source, p.whole.shape[source])
        q = p.moved(made, source, tuple(rest))
        return q.moved(made, target, (*q.dims[target], axis))

    def scatter(self, p: Placed, dim: int, axis: str) -> Placed:
        """Sum the contributions along an axis, and split a dimension along it."""
        size = self.mesh.sizes[axis]
        x = self.pad(p.node, dim, size * -(-p.node.type.shape[dim] // size))
        made = TABLE["ReduceScatter"](axis, size, dim)(self.unfold(x, dim, size))
        self.note(made, p, f"the sum over {axis}, split along dimension {dim}")
        left = tuple([a for a in p.partial if a != axis])
        return replace(p.moved(made, dim, (*p.dims[dim], axis)), partial=left)

    def join(self, p: Placed) -> Placed:
        """Combine the contributions along all axes."""
        name = {"sum": "PSum", "max": "PMax", "min": "PMin"}.get(p.combine)  # type: ignore[arg-type]
        if name is not None:
            made = TABLE[name](p.partial)(p.node)
            self.note(made, p, f"the {p.combine} over {', '.join(p.partial)}")
        else:
            made = p.node
            for axis in p.partial:
                made = TABLE["AllGather"](axis, self.mesh.sizes[axis], 0)(made)
                self.note(made, p, f"the result over {axis}")
            made = p.combine(tuple(range(len(p.partial))), False)(made)  # type: ignore[operator, call-arg]
        return replace(p, node=made, partial=(), combine="sum", remake=None)

    # -- words ------------------------------------------------------------------------------------

    def unfold(self, x: Node, dim: int, size: int) -> Node:
        """A dimension as two, of which the first runs over `size` parts."""
        shape = x.type.shape
        shape = (*shape[:dim], size, shape[dim] // size, *shape[dim + 1 :])
        return TABLE["Reshape"](shape)(x)

    def fold(self, x: Node, dim: int) -> Node:
        """Two neighbouring dimensions as one."""
        shape = x.type.shape
        shape = (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :])
        return TABLE["Reshape"](shape)(x)

    def pad(self, x: Node, dim: int, n: int) -> Node:
        more = n - x.type.shape[dim]
        if not more:
            return x
        none = (0,) * x.type.rank
        high = (*none[:dim], more, *none[dim + 1 :])
        return TABLE["Pad"](none, high, none)(x, constant(0, x.type.dtype))

    def crop(self, x: Node, dim: int, n: int) -> Node:
        shape = x.type.shape
        if shape[dim] == n:
            return x
        stops = (*shape[:dim], n, *shape[dim + 1 :])
        return TABLE["Slice"]((0,) * len(shape), stops, (1,) * len(shape))(x)

    def masked(self, p: Placed, dim: int, value: Any) -> Placed:
        """The value with `value` in place of what pads a dimension that does not divide."""
        n, axes = p.whole.shape[dim], p.dims[dim]
        x, own = p.node, self.part(n, axes)
        if own * self.mesh.extent(axes) == n:
            return p
        shape = [1] * x.type.rank
        shape[dim] = own
        at = TABLE["Iota"](tuple(shape), dim, int64)() + self.begin(n, axes)
        kept = where(less(at, constant(n, int64)), x, full(x.type.plain, value))
        return replace(p, node=kept, remake=None)

    def on_first(self, p: Placed, axes: tuple[str, ...], op: Op) -> Placed:
        """The value on the first device along some axes; what changes nothing on the others."""
        first = equal(self.index(axes), 0)
        none = full(p.node.type.plain, neutral(op, p.whole.dtype))
        return replace(p, node=where(first, p.node, none), remake=None, origin=None)

    def begin(self, n: int, axes: tuple[str, ...]) -> Node:
        """Where this device's part of a dimension of extent n begins."""
        return self.index(axes) * self.part(n, axes) if axes else constant(0, int64)

    def index(self, axes: tuple[str, ...]) -> Node:
        """The number of this device's part along some axes."""
        made: Node | None = None
        for a in axes:
            here = TABLE["AxisIndex"](a)()
            made = here if made is None else made * self.mesh.sizes[a] + here
        assert made is not None
        return made


def neutral(op: Op, dtype: Any) -> Any:
    """What changes nothing when it is combined with others."""
    if op.parts.combine not in ("max", "min"):
        return op.parts.neutral
    largest = op.parts.combine == "min"
    if dtype.kind == "b":
        return largest
    if dtype.is_float:
        return math.inf if largest else -math.inf
    limits = np.iinfo(dtype.numpy)
    return limits.max if largest else limits.min
