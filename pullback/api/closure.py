"""Closing a recorded graph over its inputs: what came from outside becomes extra inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.graph.graph import Graph, ancestors
from pullback.graph.kinds import Detached, Transparent
from pullback.graph.node import Node, constant
from pullback.lazy.tensor import wrap
from pullback.ops.sources import SCALAR, placeholder


def close_over(
    inputs: dict[Node, Node],
    made: Sequence[Node],
    outside: Callable[[Node], bool],
    numbers: bool = False,
) -> tuple[Graph, list[Node]]:
    """The program from `inputs` (recorded nodes, and the inputs they become) to `made`.

    A node for which `outside` holds is captured: it becomes an input after the others. Numbers
    that the user wrote become constants where the program is recorded once for many calls, and
    are captured (`numbers`) where it is recorded at each call: then they may change.
    """

    def comes_in(node: Node) -> bool:
        # A rule may ask for a result again of an op with several: it is where the op is.
        x = node.inputs[0] if node.inputs else node
        return outside(node) or (isinstance(x.type, tuple) and outside(x))

    new = dict(inputs)
    captured: list[Node] = []
    for node in ancestors(made, lambda n: n in inputs or comes_in(n)):
        if node in new:
            continue
        if node.op is SCALAR and not numbers:
            new[node] = constant(wrap(node)._node.value, node.type.dtype)
        elif comes_in(node):
            label = f"captured{len(captured)}"
            new[node] = placeholder(label, node.type)
            captured.append(node)
        elif isinstance(node.op, Transparent) and not isinstance(
            node.op, Detached
        ):  # an inner derivative's argument
            new[node] = new[node.inputs[0]]
        else:
            xs = tuple([new[x] for x in node.inputs])
            new[node] = Node(node.op, xs, node.type, node.where, (), node.backward)
    all_inputs = [*inputs.values(), *(new[c] for c in captured)]
    return Graph(all_inputs, [new[y] for y in made]), captured
