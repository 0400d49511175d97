"""Closing a recorded graph: values from outside become additional inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.node import Node, constant_node
from pullback.graph.op_kinds import Detached, Transparent
from pullback.lazy.tensor import wrap
from pullback.ops.sources import SCALAR, placeholder


def close_over(
    inputs: dict[Node, Node], made: Sequence[Node], outside: Callable[[Node], bool],
    numbers: bool = False,
) -> tuple[Graph, list[Node]]:  # fmt: skip
    """Return the program from `inputs` to `made`, and the nodes that it captured.

    `inputs` maps recorded nodes to the program's inputs. A node for which `outside` holds is
    captured: it becomes an input after the others. Numbers that the user wrote become constants
    if the program is recorded once for many calls. If it is recorded at each call (`numbers`),
    they are captured, so that they may change.
    """

    def comes_in(node: Node) -> bool:
        # A rule may pick a result of an op from outside: then the result is from outside too.
        x = node.inputs[0] if node.inputs else node
        return outside(node) or (isinstance(x.type, tuple) and outside(x))

    new = dict(inputs)
    captured: list[Node] = []
    for node in graph_ancestors(made, lambda n: n in inputs or comes_in(n)):
        if node in new:
            continue
        if node.op is SCALAR and not numbers:
            new[node] = constant_node(wrap(node)._node.value, node.type.dtype)
        elif comes_in(node):
            new[node] = placeholder(f"captured{len(captured)}", node.type)
            captured.append(node)
        elif isinstance(node.op, Transparent) and not isinstance(node.op, Detached):
            new[node] = new[node.inputs[0]]  # the alias of an inner derivative's argument
        else:
            xs = tuple([new[x] for x in node.inputs])
            new[node] = Node(node.op, xs, node.type, node.where, (), node.forward_op)
    all_inputs = [*inputs.values(), *(new[c] for c in captured)]
    return Graph(all_inputs, [new[y] for y in made]), captured
