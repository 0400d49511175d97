"""The gradient of a program as one more program."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.graph.graph import Graph, ancestors
from pullback.graph.node import Node
from pullback.ops.elementwise.guarded import Guarded
from pullback.ops.prelude import ones, zeros
from pullback.ops.sources import placeholder
from pullback.transforms.reverse import derive, reach


def differentiate(
    graph: Graph, output: Node, targets: Sequence[Node], seed: str | None, to_the_letter: bool
) -> Graph:
    """The program that has the gradients of `output` by each target after its own outputs.

    The cotangent is 1, or with `seed` one more input of that name. A target that `output` does
    not depend on gets explicit zeros. `to_the_letter`, rules' products are not guarded.
    """
    inputs, names = list(graph.inputs), list(graph.names)
    if seed is None:
        cotangent = ones(output.type)
    else:
        cotangent = placeholder(seed, output.type)
        inputs.append(cotangent)
        names.append(seed)
    # Not `gradients`, which remembers: a module is seldom differentiated twice.
    found, _ = derive(reach([output], targets), [output], [cotangent], targets)
    made = [zeros(t.type) if g is None else g for t, g in zip(targets, found, strict=True)]
    if to_the_letter:
        made = without_guards(graph, made)
    return Graph(inputs, [*graph.outputs, *made], names)


def without_guards(graph: Graph, made: Sequence[Node]) -> list[Node]:
    """What rules made for a program, with plain products and quotients for guarded ones."""
    new = {node: node for node in graph.nodes}
    emitted = ancestors(made, new.__contains__)
    if not any(isinstance(node.op, Guarded) for node in emitted):
        return list(made)
    for node in emitted:
        if node not in new:
            xs = tuple([new[x] for x in node.inputs])
            op = node.op.unguarded() if isinstance(node.op, Guarded) else node.op
            new[node] = Node(op, xs, node.type, node.where, (), node.backward) if xs else node
    return [new[g] for g in made]
