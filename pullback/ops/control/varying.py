"""The named axes along which inputs and outputs of held graphs vary.

Each input and output has its own axes. The state of a loop varies before an iteration along the
same axes as after it. The result of a conditional varies along the axes of its index.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.graph.graph import Graph
from pullback.graph.node import Node, node_varying_over
from pullback.ops.sources import placeholder

Axes = tuple[str, ...]


def varying_axes_of(xs: Sequence[Node]) -> list[Axes]:
    return [x.type.varying for x in xs]


def varying_union(*axes: Axes) -> Axes:
    return tuple(sorted({a for some in axes for a in some}))


def graph_varying_over(graph: Graph, axes: Sequence[Axes]) -> Graph:
    """Return the graph on inputs that vary along the given axes."""
    if varying_axes_of(graph.inputs) == list(axes):
        return graph
    inputs = [placeholder("x", x.type.over(a)) for x, a in zip(graph.inputs, axes, strict=True)]
    return Graph(inputs, graph(*inputs))


def outputs_varying_over(graph: Graph, axes: Sequence[Axes]) -> Graph:
    """Return the graph with its first outputs varying along the given axes."""
    first = [node_varying_over(y, a) for y, a in zip(graph.outputs, axes, strict=False)]
    return Graph(graph.inputs, [*first, *graph.outputs[len(first) :]])


def varying_stable_body(graph: Graph, axes: Sequence[Axes], carries: int) -> Graph:
    """Return a loop's body on inputs that vary along the given axes. The axes of the state are
    extended until an iteration does not change them."""
    axes = list(axes)
    while True:
        graph = graph_varying_over(graph, axes)
        after = [
            varying_union(a, y) for a, y in zip(axes[:carries], varying_axes_of(graph.outputs))
        ]
        if after == axes[:carries]:
            return outputs_varying_over(graph, after)
        axes[:carries] = after


def varying_scan_body(graph: Graph, axes: Sequence[Axes], carries: int) -> Graph:
    """Return `stable_body` for a scan. Where the outputs' axes stay the same, rows and constants
    vary along all axes: their gradients are then summed along these once, not in every
    iteration."""
    narrow = varying_stable_body(graph, axes, carries)
    all_axes = varying_union(*varying_axes_of(narrow.inputs))
    rest = len(graph.inputs) - carries
    wide = varying_stable_body(graph, [*axes[:carries], *[all_axes] * rest], carries)
    return wide if varying_axes_of(wide.outputs) == varying_axes_of(narrow.outputs) else narrow


def varying_while_graphs(
    condition: Graph, body: Graph, axes: Sequence[Axes], carries: int
) -> tuple[Graph, Graph]:
    """Return a while loop's graphs; the state also varies along the axes of the condition."""
    axes = list(axes)
    while True:
        body = varying_stable_body(body, axes, carries)
        condition = graph_varying_over(condition, varying_axes_of(body.inputs))
        before = varying_axes_of(body.inputs)[:carries]
        after = [varying_union(a, condition.outputs[0].type.varying) for a in before]
        if after == before:
            return condition, body
        axes[:carries] = after


def varying_alike_branches(
    branches: Sequence[Graph], axes: Sequence[Axes], index: Axes = ()
) -> list[Graph]:
    """Return branches on inputs that vary along `axes`, whose outputs vary along the same axes.
    `index` are the axes of the index that selects a branch."""
    branches = [
        graph_varying_over(branch, [varying_union(a, index) for a in axes]) for branch in branches
    ]
    columns = zip(*[varying_axes_of(branch.outputs) for branch in branches], strict=True)
    outputs = [varying_union(index, *column) for column in columns]
    return [outputs_varying_over(branch, outputs) for branch in branches]
