"""Held graphs along named axes: over which of them inputs and outputs vary.

Each has its own. A state varies before a round along what it varies along after it, and what is
chosen by a value varies along what that value varies along.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.graph.graph import Graph
from pullback.graph.node import Node, vary_over
from pullback.ops.sources import placeholder

Axes = tuple[str, ...]


def axes_of(xs: Sequence[Node]) -> list[Axes]:
    return [x.type.varying for x in xs]


def union(*axes: Axes) -> Axes:
    return tuple(sorted({a for some in axes for a in some}))


def over(graph: Graph, axes: Sequence[Axes]) -> Graph:
    """The program over inputs that vary along the given axes."""
    if axes_of(graph.inputs) == list(axes):
        return graph
    inputs = [placeholder("x", x.type.over(a)) for x, a in zip(graph.inputs, axes, strict=True)]
    return Graph(inputs, graph(*inputs))


def outputs_over(graph: Graph, axes: Sequence[Axes]) -> Graph:
    """The program whose first outputs vary along the given axes."""
    first = [vary_over(y, a) for y, a in zip(graph.outputs, axes, strict=False)]
    return Graph(graph.inputs, [*first, *graph.outputs[len(first) :]])


def settled(graph: Graph, axes: Sequence[Axes], carries: int) -> Graph:
    """The body of a loop whose inputs vary along the given axes, and the state along as many more
    as it does after some round."""
    axes = list(axes)
    while True:
        graph = over(graph, axes)
        after = [union(a, y) for a, y in zip(axes[:carries], axes_of(graph.outputs))]
        if after == axes[:carries]:
            return outputs_over(graph, after)
        axes[:carries] = after


def scan_body(graph: Graph, axes: Sequence[Axes], carries: int) -> Graph:
    """The same for a scan. Where it makes no difference to the outputs, rows and constants vary
    along all axes: their gradients are then summed along them once, and not in every round."""
    made = settled(graph, axes, carries)
    everything = union(*axes_of(made.inputs))
    rest = len(graph.inputs) - carries
    wide = settled(graph, [*axes[:carries], *[everything] * rest], carries)
    return wide if axes_of(wide.outputs) == axes_of(made.outputs) else made


def while_graphs(
    condition: Graph, body: Graph, axes: Sequence[Axes], carries: int
) -> tuple[Graph, Graph]:
    """The same for a while loop, which may end after different numbers of rounds."""
    axes = list(axes)
    while True:
        body = settled(body, axes, carries)
        condition = over(condition, axes_of(body.inputs))
        ends = condition.outputs[0].type.varying
        found = [union(a, ends) for a in axes_of(body.inputs)[:carries]]
        if found == axes_of(body.inputs)[:carries]:
            return condition, body
        axes[:carries] = found


def alike(branches: Sequence[Graph], axes: Sequence[Axes], index: Axes = ()) -> list[Graph]:
    """Branches whose inputs vary along the given axes, and whose outputs vary alike, where an
    index that varies along `index` chooses."""
    found = [over(branch, [union(a, index) for a in axes]) for branch in branches]
    columns = zip(*[axes_of(branch.outputs) for branch in found], strict=True)
    outputs = [union(index, *column) for column in columns]
    return [outputs_over(branch, outputs) for branch in found]
