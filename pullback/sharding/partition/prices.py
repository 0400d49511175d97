"""What it would cost to lay a value out anew: the same steps, counted and not taken."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from pullback.graph.graph import Graph, graphs_within
from pullback.graph.kinds import HigherOrder
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.sharding.cost import Machine, traffic, work
from pullback.sharding.factors import instantiate
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.local_value import Placed
from pullback.sharding.partition.moves import Placer
from pullback.sharding.spec import Dims


class Prices(Placer):
    """A placer whose steps only count seconds."""

    def __init__(self, mesh: DeviceMesh, machine: Machine) -> None:
        super().__init__(mesh)
        self.machine, self.seconds = machine, 0.0

    def price(self, p: Placed, dims: Dims) -> float:
        """Seconds until the value is complete and lies along `dims`."""
        self.seconds = 0.0
        self._place(replace(p, remake=None), dims)
        return self.seconds

    def slice(self, p: Placed, dim: int, axis: str) -> Placed:
        return p.moved(p.node, dim, (*p.dims[dim], axis))

    def gather(self, p: Placed, dim: int) -> Placed:
        *rest, axis = p.dims[dim]
        made = p.moved(p.node, dim, tuple(rest))
        self._count("all_gather", made, (axis,))
        return made

    def exchange(self, p: Placed, source: int, target: int) -> Placed:
        *rest, axis = p.dims[source]
        self._count("all_to_all", p, (axis,))
        made = p.moved(p.node, source, tuple(rest))
        return made.moved(p.node, target, (*made.dims[target], axis))

    def scatter(self, p: Placed, dim: int, axis: str) -> Placed:
        self._count("reduce_scatter", p, (axis,))
        left = tuple([a for a in p.partial if a != axis])
        return replace(p.moved(p.node, dim, (*p.dims[dim], axis)), partial=left)

    def join(self, p: Placed) -> Placed:
        self._count("all_reduce", p, p.partial)
        return replace(p, partial=())

    def pad(self, x: Node, dim: int, n: int) -> Node:
        return x

    def nbytes(self, whole: Type, dims: Dims) -> int:
        """What a device has of a value; asked so often that no type is made for it."""
        parts = [self.part(n, axes) for n, axes in zip(whole.shape, dims, strict=True)]
        return math.prod(parts) * whole.dtype.numpy.itemsize

    def _count(self, kind: str, p: Placed, axes: tuple[str, ...]) -> None:
        sent = traffic(kind, self.nbytes(p.whole, p.dims), self.mesh.extent(axes))
        self.seconds += self.machine.seconds(sent)


def operations(graph: Graph) -> float:
    """The arithmetic operations of a program; a loop does those of its body in every round."""
    return sum([times * _operations(node) for node, times in applied(graph)])


def applied(graph: Graph) -> Iterator[tuple[Node, int]]:
    """Every application of an op, and how often it runs: those in loops once in every round."""
    stack = [(graph, 1)]
    while stack:
        held, times = stack.pop()
        for node in held.nodes[len(held.inputs) :]:
            rounds = times * getattr(node.op, "length", 1)
            stack += [(body, rounds) for body in graphs_within(node.op.parameters())]
            yield node, times


def _operations(node: Node) -> float:
    if (
        not node.inputs
        or isinstance(node.inputs[0].type, tuple)
        or isinstance(node.op, HigherOrder)
    ):
        return 0.0
    xs = [x.type.plain for x in node.inputs]
    ys = [t.plain for t in (node.type if isinstance(node.type, tuple) else (node.type,))]
    return work(node.op, instantiate(node.op.factors(*xs), xs, ys).extents, [*xs, *ys])
