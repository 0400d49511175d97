"""Moves of a value from one layout to another, with the cheapest steps first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pullback.graph.node import Node, vary_over
from pullback.ops.parts import local_part
from pullback.ops.prelude import Op, Type
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.local_value import LayoutSteps, LocalValue
from pullback.sharding.spec import Dims


class Mover(LayoutSteps):
    """Moves values to other layouts; the users of a value share its moves."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__(mesh)
        self._moved: dict[tuple[LocalValue, Dims | None], LocalValue] = {}

    def move(self, p: LocalValue, dims: Dims) -> LocalValue:
        """Return the complete value, with its dimensions split along `dims`."""
        if not p.partial and p.dims == dims:
            return p
        if (p, dims) not in self._moved:
            self._moved[p, dims] = self._move(p, dims)
        return self._moved[p, dims]

    def _move(self, p: LocalValue, dims: Dims) -> LocalValue:
        p = self._complete(p, dims)
        if p.dims == dims:
            return p
        if p.remake is not None and not p.axes:
            node = p.remake.make(dims)
            if node is not None:
                # equal shards, such as those of zeros, count as different too
                node = vary_over(node, self.local(p.whole, dims).varying)
                return replace(p, node=node, dims=dims, remake=None)
        moved = self._from_origin(p, dims)
        if moved is not None:
            return moved
        p = self._gather_uneven(p, dims)
        p = self._slice_free(p, dims)
        p = self._exchange_pairs(p, dims)
        for dim, wanted in enumerate(dims):
            while p.dims[dim] != wanted[: len(p.dims[dim])]:
                p = self.gather(p, dim)
        return self._slice_free(p, dims)

    def _from_origin(self, p: LocalValue, dims: Dims) -> LocalValue | None:
        """Move the elements of an origin that was moved before: transpose a gathered matrix."""
        if p.origin is None:
            return None
        source, op, _ = p.origin
        found = self._moved.get((source, p.origin.dims(dims)))
        if found is None or found.partial:
            return None
        node = self.apply_local(op, [found.node], p.whole, dims)
        if node.type.plain is not self.local(p.whole, dims).plain:
            return None
        return replace(p, node=node, dims=dims, remake=None, origin=None)

    def apply_local(self, op: Op, xs: Sequence[Node], whole: Type, dims: Dims) -> Node:
        """Apply an op to this device's shards of operands; return its shard of the one result."""

        def begin(dim: int) -> Node:
            return self.begin(whole.shape[dim], dims[dim])

        return local_part(op, xs, self.local(whole, dims).plain, whole, begin)

    def _complete(self, p: LocalValue, dims: Dims) -> LocalValue:
        """Combine partial results, directly into shards where `dims` splits along their axes."""
        if p.partial and p.combine != "sum":  # one reduction serves all layouts
            if (p, None) not in self._moved:
                self._moved[p, None] = self.reduce(p)
            return self._moved[p, None]
        for axis in p.partial:
            for dim, wanted in enumerate(dims):
                have = p.dims[dim]
                follows = wanted[: len(have) + 1] == (*have, axis)
                if follows and (self.even(p, dim, wanted) or wanted == (axis,)):
                    p = self.scatter(p, dim, axis)
                    break
        return self.reduce(p) if p.partial else p

    def _gather_uneven(self, p: LocalValue, dims: Dims) -> LocalValue:
        """Gather dimensions that do not divide evenly before they are split in another way.

        Their shards along fewer axes are not unions of shards.
        """
        for dim, wanted in enumerate(dims):
            have = p.dims[dim]
            uneven = not (self.even(p, dim, have) and self.even(p, dim, wanted))
            if have != wanted and uneven and not self._exchanges(p, dims, dim):
                while p.dims[dim]:
                    p = self.gather(p, dim)
        return p

    def _exchanges(self, p: LocalValue, dims: Dims, dim: int) -> bool:
        """Return whether a dimension gives its only axis to another, or gets its only axis."""
        single = len(p.dims[dim]) <= 1 and len(dims[dim]) <= 1
        return single and any(dim in pair for pair in self._pairs(p, dims))

    def _pairs(self, p: LocalValue, dims: Dims) -> list[tuple[int, int]]:
        """Return pairs of dimensions, where one gives its last axis and the other needs it next."""
        return [(source, target)
                for source, have in enumerate(p.dims) if have and have[:-1] == dims[source]
                for target, wanted in enumerate(dims)
                if target != source and wanted == (*p.dims[target], have[-1])]  # fmt: skip

    def _slice_free(self, p: LocalValue, dims: Dims) -> LocalValue:
        """Split dimensions along unused axes, which needs no communication."""
        for dim, wanted in enumerate(dims):
            for axis in wanted[len(p.dims[dim]) :]:
                if axis in p.axes or p.dims[dim] != wanted[: len(p.dims[dim])]:
                    break
                if not self.even(p, dim, wanted) and wanted != (*p.dims[dim], axis):
                    return self._slice_uneven(p, dim, dims)
                p = self.slice(p, dim, axis)
        return p

    def _slice_uneven(self, p: LocalValue, dim: int, dims: Dims) -> LocalValue:
        """Split a dimension that does not divide along several axes, padded once for all."""
        wanted = dims[dim]
        if p.dims[dim] or any(a in p.axes for a in wanted):
            return p
        n = self.mesh.extent(wanted) * self.shard_size(p.whole.shape[dim], wanted)
        p = replace(p, node=self.pad(p.node, dim, n), remake=None)
        for axis in wanted:
            p = self.slice(p, dim, axis)
        return self._slice_free(p, dims)

    def _exchange_pairs(self, p: LocalValue, dims: Dims) -> LocalValue:
        while pairs := self._pairs(p, dims):
            source, target = pairs[0]
            single = p.dims[source] == dims[target]  # the only axis of both
            even = self.even(p, source, p.dims[source]) and self.even(p, target, dims[target])
            if not even and not single:
                break
            p = self.exchange(p, source, target)
        return p
