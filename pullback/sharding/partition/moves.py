"""Moves of a value from one layout to another, with the cheapest steps first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pullback.graph.node import Node, node_varying_over
from pullback.ops.parts import apply_op_to_parts
from pullback.ops.prelude import Op, Type
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.local_value import LocalValue, LocalValueSteps
from pullback.sharding.partition.routes import route
from pullback.sharding.spec import Dims


class LayoutMover(LocalValueSteps):
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
                node = node_varying_over(node, self.local(p.whole, dims).varying)
                return replace(p, node=node, dims=dims, remake=None)
        moved = self._from_origin(p, dims)
        if moved is not None:
            return moved
        for step in route(self.mesh, p.whole, p.dims, dims):
            p = getattr(self, step.method)(p, *step.arguments)
        return p

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

        return apply_op_to_parts(op, xs, self.local(whole, dims).plain, whole, begin)

    def _complete(self, p: LocalValue, dims: Dims) -> LocalValue:
        """Combine partial results, directly into shards where `dims` splits along their axes."""
        if p.partial and p.combine != "sum":  # one reduction serves all layouts
            if (p, None) not in self._moved:
                self._moved[p, None] = self.reduce(p)
            return self._moved[p, None]
        while p.partial:
            step = self._slice_or_scatter(p, dims)
            if step is None:
                break
            p = step
        return self.reduce(p) if p.partial else p

    def _slice_or_scatter(self, p: LocalValue, dims: Dims) -> LocalValue | None:
        """Split a partial sum along the next axis of a dimension, if that is possible."""
        for dim, wanted in enumerate(dims):
            have = p.dims[dim]
            axis = wanted[len(have)] if wanted[: len(have)] == have != wanted else None
            if axis is None or not (self.even(p, dim, wanted) or wanted == (axis,)):
                continue
            if axis in p.partial:
                return self.scatter(p, dim, axis)
            if axis not in p.axes:
                return self.slice(p, dim, axis)
        return None
