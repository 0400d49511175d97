"""Partitioning of loops and conditionals: each device runs the held graphs on its shards.

Values that enter and leave a graph are complete, not partial sums. A state has one layout in all
iterations: its initial one or, if it starts replicated, the one that the body gives it, so that a
loop that starts from zeros is as parallel as its body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from pullback.graph.graph import Graph
from pullback.graph.node import node_varying_over
from pullback.ops.control.late_sums import accumulated_terms
from pullback.ops.prelude import Type
from pullback.ops.sources import placeholder
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import Dims, layout, spec_on_mesh

_ATTEMPTS = 4  # layouts of a state to try before it keeps its initial one


def body_partition_with_layout(type: Type, mesh: DeviceMesh, dims: Dims) -> Type:
    return type.sharded(spec_on_mesh(mesh, dims))


def body_partition_row_type(type: Type, mesh: DeviceMesh) -> Type:
    """Return the type of one of the values stacked along an unsharded dimension."""
    return body_partition_with_layout(type.with_shape(type.shape[1:]), mesh, layout(type)[1:])


def body_partition_output_types(graph: Graph, types: Sequence[Type]) -> list[Type]:
    """Return the types of a graph's outputs for operands of the given types."""
    return [y.type for y in graph(*[placeholder("x", t) for t in types])]


def body_partition_state(
    mesh: DeviceMesh, body: Graph, state: Sequence[Type], others: Sequence[Type]
) -> tuple[list[Type], list[Type]]:
    """Return the types of the state in all iterations, and of the body's outputs."""
    first = [body_partition_with_layout(t, mesh, layout(t)) for t in state]
    free = [t.sharding is None or not (t.sharding.spec.dims or t.sharding.spec.replicated)
            for t in state]  # fmt: skip
    now = first
    for _ in range(_ATTEMPTS):
        outputs = body_partition_output_types(body, [*now, *others])
        triples = zip(now, outputs, free)  # further outputs are not part of the state
        following = [
            body_partition_with_layout(t, mesh, layout(y)) if f else t for t, y, f in triples
        ]
        if following == now:
            return now, outputs
        now = following
    return first, body_partition_output_types(body, [*first, *others])


def body_partition_graph(
    to: Any, graph: Graph, types: Sequence[Type], wanted: Sequence[Dims]
) -> Graph:
    """Return the graph on one device's shards of operands, with outputs in the `wanted` layouts."""
    inputs = [to.placeholder(f"x{i}", t) for i, t in enumerate(types)]
    outputs = zip(to.run(graph, inputs), wanted, strict=True)
    return _finish_body_partition(to, inputs, [to.ask(y, dims) for y, dims in outputs])


def partitioned_body(
    to: Any, graph: Graph, types: Sequence[Type], state: Sequence[Dims]
) -> tuple[Graph, list[Any]]:
    """Return `body_partition_graph` of a loop's body, whose first outputs are the state, and its
    outputs. A state that is only added to, such as the gradient of a constant, may stay a partial
    sum: it is reduced once after the loop, not in each iteration."""
    sums = {i: reduce(add, terms) for i, terms in accumulated_terms(graph, len(state)).items()}
    inputs = [to.placeholder(f"x{i}", t) for i, t in enumerate(types)]
    terms = Graph(graph.inputs, [sums.get(i, y) for i, y in enumerate(graph.outputs)])
    outputs = []
    for i, y in enumerate(to.run(terms, inputs)):
        if i in sums:
            y = to.partial_sum(y, state[i])
            axes = tuple(sorted(y.axes))
            before = placeholder(f"x{i}", y.node.type.over(axes))
            inputs[i] = replace(inputs[i], node=before)
            y = replace(y, node=before + node_varying_over(y.node, axes), remake=None, origin=None)
        else:
            y = to.ask(y, state[i] if i < len(state) else y.dims)
        outputs.append(y)
    return _finish_body_partition(to, inputs, outputs), outputs


def _finish_body_partition(to: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
    return to.held_graph([x.node for x in inputs], [to.finished(y) for y in outputs])
