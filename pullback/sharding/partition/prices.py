"""Prices of moves, from the same steps as the moves themselves, and of the work of programs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from pullback.graph.graph import Graph, graphs_in_parameters
from pullback.graph.node import Node
from pullback.graph.op_kinds import HigherOrderKind
from pullback.graph.types import Type
from pullback.sharding.cost import Machine, arithmetic_cost, traffic_cost
from pullback.sharding.factors import SizedFactors, instantiate_factors
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.cells import cell_exchange
from pullback.sharding.partition.local_value import LocalValue
from pullback.sharding.partition.moves import LayoutMover
from pullback.sharding.spec import Dims


class Prices(LayoutMover):
    """A mover whose steps only add up seconds."""

    def __init__(self, mesh: DeviceMesh, machine: Machine) -> None:
        super().__init__(mesh)
        self.machine, self.seconds = machine, 0.0

    def price(self, p: LocalValue, dims: Dims) -> float:
        """Return the seconds to complete the value and move it to `dims`."""
        self.seconds = 0.0
        self._move(replace(p, remake=None), dims)
        return self.seconds

    def slice(self, p: LocalValue, dim: int, axis: str) -> LocalValue:
        return p.moved(p.node, dim, (*p.dims[dim], axis))

    def gather(self, p: LocalValue, dim: int) -> LocalValue:
        *rest, axis = p.dims[dim]
        q = p.moved(p.node, dim, tuple(rest))
        self._count("all_gather", q, (axis,))
        return q

    def exchange(self, p: LocalValue, source: int, target: int) -> LocalValue:
        *rest, axis = p.dims[source]
        self._count("all_to_all", p, (axis,))
        q = p.moved(p.node, source, tuple(rest))
        return q.moved(p.node, target, (*q.dims[target], axis))

    def relayout(self, p: LocalValue, dims: Dims) -> LocalValue:
        found = cell_exchange(self.mesh, p.dims, dims)
        assert found is not None, "the route has no such step"
        sent = found.op.sent(0, self.nbytes(p.whole, dims), self.mesh.size)
        self.seconds += self.machine.seconds(sent, found.op.steps())
        return replace(p, dims=dims, remake=None, origin=None)

    def scatter(self, p: LocalValue, dim: int, axis: str) -> LocalValue:
        self._count("reduce_scatter", p, (axis,))
        partial = tuple([a for a in p.partial if a != axis])
        return replace(p.moved(p.node, dim, (*p.dims[dim], axis)), partial=partial)

    def reduce(self, p: LocalValue) -> LocalValue:
        self._count("all_reduce", p, p.partial)
        return replace(p, partial=())

    def pad(self, x: Node, dim: int, n: int) -> Node:
        return x

    def nbytes(self, whole: Type, dims: Dims) -> int:
        """Return the bytes of a shard, without making a type: this is called very often."""
        shape = [self.shard_size(n, axes) for n, axes in zip(whole.shape, dims, strict=True)]
        return math.prod(shape) * whole.dtype.numpy.itemsize

    def _count(self, kind: str, p: LocalValue, axes: tuple[str, ...]) -> None:
        sent = traffic_cost(kind, self.nbytes(p.whole, p.dims), self.mesh.extent(axes))
        self.seconds += self.machine.seconds(sent)


def operations_price(graph: Graph) -> float:
    """Count the arithmetic operations of a program; those of a loop count in every iteration."""
    return sum([times * _node_price(node) for node, times in priced_nodes(graph)])


def priced_nodes(graph: Graph) -> Iterator[tuple[Node, int]]:
    """Yield every node, also those in loops, and how many times it runs."""
    stack = [(graph, 1)]
    while stack:
        held, times = stack.pop()
        for node in held.nodes[len(held.inputs) :]:
            rounds = times * getattr(node.op, "length", 1)
            stack += [(body, rounds) for body in graphs_in_parameters(node.op.parameters())]
            yield node, times


def _node_price(node: Node) -> float:
    selects = node.inputs and isinstance(node.inputs[0].type, tuple)
    if not node.inputs or selects or isinstance(node.op, HigherOrderKind):
        return 0.0
    types = [*[x.type.plain for x in node.inputs], *priced_result_types(node)]
    return arithmetic_cost(node.op, priced_rule(node).extents, types)


def priced_result_types(node: Node) -> list[Type]:
    """Return the types of a node's results, without shardings."""
    return [t.plain for t in (node.type if isinstance(node.type, tuple) else (node.type,))]


def priced_rule(node: Node) -> SizedFactors:
    """Return the factor rule of a node."""
    xs = [x.type.plain for x in node.inputs]
    return instantiate_factors(node.op.factors(*xs), xs, priced_result_types(node))
