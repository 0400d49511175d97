"""Pieces: where a graph that is too large for one program is cut."""

from __future__ import annotations

from pullback.graph.ambient import PENDING_LIMIT
from pullback.graph.node import Node
from pullback.lazy.collect import base
from pullback.ops.elementwise.base import Elementwise

# How large the pieces are when a graph must be split: chains of 1,000 elementwise ops compile in
# half a second, of 4,000 in four.
PIECE = 1000
# Values handed out are computed again for each user inside the program: a chain of 1,000 ops that
# hands out every one takes XLA 10 s to compile, ten chains of 100 take 1 s.
OUTPUTS = 100
# An op with more operands than this (a stack of all states of a loop) has the same effect.
WIDE = 16


def is_split(nodes: list[Node], wanted: list[Node]) -> bool:
    """Whether a graph is computed in pieces: it is too large, or hands out too much."""
    if len(nodes) > PENDING_LIMIT:
        return True
    if len(wanted) > OUTPUTS or len(gathered_values(nodes)) > WIDE:
        # Only chains of cheap ops are computed again; a model's products end them.
        cheap = sum(isinstance(n.op, Elementwise) for n in nodes)
        return cheap > 0.8 * len(nodes)
    return False


def gathered_values(nodes: list[Node]) -> set[Node]:
    """The values that ops with many operands bring together, before they were moved into place."""
    found = set()
    for n in nodes:
        if len(n.inputs) > WIDE:
            for x in n.inputs:
                x = base(x)
                while len(x.inputs) == 1 and x.op.linear:
                    x = base(x.inputs[0])
                if x.value is None:
                    found.add(x)
    return found


def results_with_op(piece: list[Node], rest: list[Node]) -> tuple[list[Node], list[Node]]:
    """A derivative asks for results of an op long after it: they stay with the op all the same,
    which has no value of its own to hand over."""
    ops = {n for n in piece if isinstance(n.type, tuple)}
    if not ops:
        return piece, rest
    moved = [n for n in rest if n.inputs and n.inputs[0] in ops]
    gone = set(moved)
    return [*piece, *moved], [n for n in rest if n not in gone]


def piece_size(nodes: list[Node], outputs: set[Node], gathered: set[Node]) -> int:
    """How many nodes make a piece: at most PIECE, with few that are handed out or gathered."""
    handed = together = 0
    for i, n in enumerate(nodes[:PIECE]):
        handed += n in outputs
        together += n in gathered
        if handed > OUTPUTS or together > WIDE:
            return i
    return PIECE


def phase(nodes: list[Node], size: int) -> int:
    """Where to cut: before the last node that was recorded where the first one was.

    A loop is then cut at the same point of its body each time, and every piece is the same
    program. A result stays with its op, which has no value of its own to hand over.
    """
    for i in range(size, 0, -1):
        if _same_place(nodes[i], nodes[0]):
            return i
    cut = size
    while cut < len(nodes) and any(isinstance(x.type, tuple) for x in nodes[cut].inputs):
        cut += 1
    return cut


def _same_place(n: Node, first: Node) -> bool:
    return n.op is first.op and n.where == first.where and n.backward == first.backward
