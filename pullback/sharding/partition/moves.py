"""Changing how a value lies: the steps from one layout to another, cheapest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pullback.graph.node import Node, vary_over
from pullback.ops.parts import local_part
from pullback.ops.prelude import Op, Type
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.local_value import LayoutSteps, Placed
from pullback.sharding.spec import Dims


class Placer(LayoutSteps):
    """Lays values out anew. What was done once for a value is there for its other users."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__(mesh)
        self._known: dict[tuple[Placed, Dims | None], Placed] = {}

    def place(self, p: Placed, dims: Dims) -> Placed:
        """The value, complete, with its dimensions split along `dims`."""
        if not p.partial and p.dims == dims:
            return p
        found = self._known.get((p, dims))
        if found is None:
            found = self._known[p, dims] = self._place(p, dims)
        return found

    def whole(self, p: Placed) -> Placed:
        return self.place(p, ((),) * len(p.dims))

    def complete(self, p: Placed) -> Placed:
        """The value without contributions that are still to be joined."""
        if not p.partial:
            return p
        found = self._known.get((p, None))
        if found is None:
            found = self._known[p, None] = self.join(p)
        return found

    def _place(self, p: Placed, dims: Dims) -> Placed:
        p = self._scattered(p, dims)
        if p.dims == dims:
            return p
        if p.remake is not None and not p.axes:
            made = p.remake.make(dims)
            if made is not None:
                # its parts may be alike, as those of zeros, and count as different all the same
                made = vary_over(made, self.local(p.whole, dims).varying)
                return replace(p, node=made, dims=dims, remake=None)
        moved = self._from_origin(p, dims)
        if moved is not None:
            return moved
        p = self._without_remainders(p, dims)
        p = self._sliced(p, dims)
        p = self._exchanged(p, dims)
        for dim, wanted in enumerate(dims):
            while p.dims[dim] != wanted[: len(p.dims[dim])]:
                p = self.gather(p, dim)
        return self._sliced(p, dims)

    def _from_origin(self, p: Placed, dims: Dims) -> Placed | None:
        """A transposed matrix, say, from the matrix that was gathered before."""
        if p.origin is None:
            return None
        source, op, _ = p.origin
        found = self._known.get((source, p.origin.dims(dims)))
        if found is None or found.partial:
            return None
        made = self.made(op, [found.node], p.whole, dims)
        if made.type.plain is not self.local(p.whole, dims).plain:
            return None
        return replace(p, node=made, dims=dims, remake=None, origin=None)

    def made(self, op: Op, xs: Sequence[Node], whole: Type, dims: Dims) -> Node:
        """What this device makes of its parts of the operands: its part of one result."""

        def begin(dim: int) -> Node:
            return self.begin(whole.shape[dim], dims[dim])

        return local_part(op, xs, self.local(whole, dims).plain, whole, begin)

    def _scattered(self, p: Placed, dims: Dims) -> Placed:
        """Join contributions; into parts, where parts are wanted and nobody has them whole."""
        if (p, None) in self._known or p.combine != "sum":
            return self.complete(p)
        for axis in p.partial:
            for dim, wanted in enumerate(dims):
                have = p.dims[dim]
                next_one = (
                    wanted[len(have) : len(have) + 1] == (axis,) and wanted[: len(have)] == have
                )
                if next_one and (self.even(p, dim, wanted) or wanted == (axis,)):
                    p = self.scatter(p, dim, axis)
                    break
        return self.join(p) if p.partial else p

    def _without_remainders(self, p: Placed, dims: Dims) -> Placed:
        """Where a dimension does not divide, parts along fewer axes are not unions of parts:
        such a dimension is joined before it is split in another way."""
        for dim, wanted in enumerate(dims):
            have = p.dims[dim]
            uneven = not (self.even(p, dim, have) and self.even(p, dim, wanted))
            if have != wanted and uneven and not self._exchanges(p, dims, dim):
                while p.dims[dim]:
                    p = self.gather(p, dim)
        return p

    def _exchanges(self, p: Placed, dims: Dims, dim: int) -> bool:
        """Whether a dimension gives its one axis to another, or takes its one from it."""
        pairs = self._pairs(p, dims)
        one = len(p.dims[dim]) <= 1 and len(dims[dim]) <= 1
        return one and any(dim in pair for pair in pairs)

    def _pairs(self, p: Placed, dims: Dims) -> list[tuple[int, int]]:
        """Dimensions of which one gives its last axis away, and the other wants it next."""
        found = []
        for source, have in enumerate(p.dims):
            if not have or have == dims[source] or have[:-1] != dims[source]:
                continue
            for target, wanted in enumerate(dims):
                if target != source and wanted == (*p.dims[target], have[-1]):
                    found.append((source, target))
        return found

    def _sliced(self, p: Placed, dims: Dims) -> Placed:
        """Split dimensions along axes that are free: nothing has to be moved for it."""
        for dim, wanted in enumerate(dims):
            for axis in wanted[len(p.dims[dim]) :]:
                if axis in p.axes or p.dims[dim] != wanted[: len(p.dims[dim])]:
                    break
                if not self.even(p, dim, wanted) and wanted != (*p.dims[dim], axis):
                    return self._sliced_at_once(p, dim, dims)
                p = self.slice(p, dim, axis)
        return p

    def _sliced_at_once(self, p: Placed, dim: int, dims: Dims) -> Placed:
        """A dimension that does not divide, along several axes: padded once for all of them."""
        wanted = dims[dim]
        if p.dims[dim] or any(a in p.axes for a in wanted):
            return p
        n = self.mesh.extent(wanted) * self.part(p.whole.shape[dim], wanted)
        p = replace(p, node=self.pad(p.node, dim, n), remake=None)
        for axis in wanted:
            p = self.slice(p, dim, axis)
        return self._sliced(p, dims)

    def _exchanged(self, p: Placed, dims: Dims) -> Placed:
        while pairs := self._pairs(p, dims):
            source, target = pairs[0]
            single = p.dims[source] == dims[target]  # the only axis of both
            fits = self.even(p, source, p.dims[source]) and self.even(p, target, dims[target])
            if not fits and not single:
                break
            p = self.exchange(p, source, target)
        return p
