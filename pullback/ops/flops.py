"""Count the arithmetic operations of programs.

Products and convolutions count exactly, a multiplication and an addition each. Other ops count one
for each element of the result, reductions one for each element that they reduce, and movements of
data, also between devices, nothing. The body of a loop without a fixed length counts once.
"""

from __future__ import annotations

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.op_kinds import SumOfProductsKind
from pullback.ops.collective.all_reduce import Collective
from pullback.ops.composite import Composite
from pullback.ops.control.cond import CondChoice
from pullback.ops.control.scan import Scan
from pullback.ops.elementwise.cast import Cast
from pullback.ops.reduce.reductions import Reduction
from pullback.ops.shape.movement import Movement
from pullback.ops.wrap.identity import IdentityOp


def graph_flops(graph: Graph) -> int:
    """Return the operations of a program."""
    return sum([node_flops(node) for node in graph.nodes[len(graph.inputs) :]])


def node_flops(node: Node) -> int:
    """Return the operations of one op, with those of programs that it runs."""
    op, types = node.op, [x.type for x in node.inputs]
    moves = isinstance(op, (Movement, Cast, Collective, IdentityOp))
    if not types or moves or isinstance(types[0], tuple):
        return 0  # a source, a movement, or one of several results
    products = op.products(types) if isinstance(op, SumOfProductsKind) else None
    if products is not None:
        return 2 * products
    if op.graphs:
        inside = [graph_flops(graph) for graph in op.graphs]
        if isinstance(op, CondChoice):
            return max(inside)
        return sum(inside) * (op.length if isinstance(op, Scan) else 1)
    if isinstance(op, Composite):
        return graph_flops(op.expansion([t.plain for t in types]))
    results = node.type if isinstance(node.type, tuple) else (node.type,)
    return sum(t.size for t in (types[:1] if isinstance(op, Reduction) else results))
