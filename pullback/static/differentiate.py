"""The gradient of a program as another program."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.node import Node
from pullback.ops.elementwise.guarded import Guarded
from pullback.ops.prelude import ones, zeros
from pullback.ops.sources import placeholder
from pullback.transforms.reverse import derive_in_reverse, reverse_reach


def differentiate_static(
    graph: Graph, output: Node, targets: Sequence[Node], seed: str | None, to_the_letter: bool
) -> Graph:
    """The program with the gradients of `output` with respect to each target as further outputs.

    The cotangent is 1, or an additional input named `seed`. The gradient of a target that `output`
    does not depend on is explicit zeros. With `to_the_letter`, products are not guarded.
    """
    inputs, names = list(graph.inputs), list(graph.names)
    if seed is None:
        cotangent = ones(output.type)
    else:
        cotangent = placeholder(seed, output.type)
        inputs.append(cotangent)
        names.append(seed)
    # Not `gradients`, which caches: a module is seldom differentiated twice.
    found, _ = derive_in_reverse(reverse_reach([output], targets), [output], [cotangent], targets)
    made = [zeros(t.type) if g is None else g for t, g in zip(targets, found, strict=True)]
    if to_the_letter:
        made = differentiate_without_guards(graph, made)
    return Graph(inputs, [*graph.outputs, *made], names)


def differentiate_without_guards(graph: Graph, made: Sequence[Node]) -> list[Node]:
    """The nodes made by derivative rules, with plain instead of guarded products and quotients."""
    new = {node: node for node in graph.nodes}
    emitted = graph_ancestors(made, new.__contains__)
    if not any(isinstance(node.op, Guarded) for node in emitted):
        return list(made)
    for node in emitted:
        if node not in new:
            xs = tuple([new[x] for x in node.inputs])
            op = node.op.unguarded if isinstance(node.op, Guarded) else node.op
            new[node] = Node(op, xs, node.type, node.where, (), node.forward_op) if xs else node
    return [new[g] for g in made]
