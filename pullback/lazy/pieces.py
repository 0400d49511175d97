"""Decide where to cut a graph that is too large for one program into pieces."""

from __future__ import annotations

from pullback.graph.ambient import PENDING_LIMIT
from pullback.graph.node import Node
from pullback.lazy.collect import collected_base
from pullback.ops.elementwise.elementwise import Elementwise

# Nodes in a piece: XLA compiles a chain of 1,000 elementwise ops in 0.5 s, one of 4,000 in 4 s
PIECE = 1000
# Outputs of a piece: XLA recomputes outputs for each user inside the program. A chain of 1,000 ops
# that are all outputs takes 10 s to compile, ten chains of 100 take 1 s
OUTPUTS = 100
# Operands of an op, such as a stack of all states of a loop, with the same effect
WIDE = 16


def is_in_pieces(nodes: list[Node], wanted: list[Node]) -> bool:
    """Whether a graph is computed in pieces: it is too large, or has too many outputs."""
    if len(nodes) > PENDING_LIMIT:
        return True
    if len(wanted) > OUTPUTS or len(gathered_for_pieces(nodes)) > WIDE:
        # XLA recomputes only chains of cheap ops; matrix products end them
        cheap = sum(isinstance(n.op, Elementwise) for n in nodes)
        return cheap > 0.8 * len(nodes)
    return False


def gathered_for_pieces(nodes: list[Node]) -> set[Node]:
    """Return the pending operands of ops with many operands, before linear ops moved them."""
    found = set()
    for inputs in [xs for n in nodes if len(xs := n.inputs) > WIDE]:
        for x in inputs:
            x = collected_base(x)
            while len(x.inputs) == 1 and x.op.linear:
                x = collected_base(x.inputs[0])
            if x.value is None:
                found.add(x)
    return found


def piece_with_results(piece: list[Node], rest: list[Node]) -> tuple[list[Node], list[Node]]:
    """Move results of ops in the piece from the rest to the piece: the ops have no value."""
    ops = {n for n in piece if isinstance(n.type, tuple)}
    if not ops:
        return piece, rest
    moved = dict.fromkeys(n for n in rest if n.inputs and n.inputs[0] in ops)
    return [*piece, *moved], [n for n in rest if n not in moved]


def piece_size(nodes: list[Node], outputs: set[Node], gathered: set[Node]) -> int:
    """Return the number of nodes in a piece: at most PIECE, with few outputs or gathered values."""
    output_count = gathered_count = 0
    for i, n in enumerate(nodes[:PIECE]):
        output_count += n in outputs
        gathered_count += n in gathered
        if output_count > OUTPUTS or gathered_count > WIDE:
            return i
    return PIECE


def piece_phase(nodes: list[Node], size: int) -> int:
    """Return where to cut: before the last node that was recorded where the first one was.

    A loop is then cut at the same point of its body each time, so that all pieces are the same
    program. Results stay with their op, which has no value itself.
    """
    first = nodes[0]
    for i in range(size, 0, -1):
        n = nodes[i]
        if n.op is first.op and n.where == first.where and n.backward == first.backward:
            return i
    while size < len(nodes) and any(isinstance(x.type, tuple) for x in nodes[size].inputs):
        size += 1
    return size
