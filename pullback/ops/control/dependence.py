"""Which outputs of a graph depend on which inputs, as far as derivatives are concerned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pullback.graph.graph import Graph
from pullback.graph.kinds import Detached
from pullback.graph.node import Node


def dependence(graph: Graph) -> list[int]:
    """For each output, the inputs (as bits) whose derivative may reach it."""
    found: dict[Node, int] = {x: x.type.inexact << i for i, x in enumerate(graph.inputs)}
    for node in graph.nodes[len(graph.inputs) :]:
        mask = 0
        if _carries(node) and not isinstance(node.op, Detached):
            for x in node.inputs:
                mask |= found[x]
        found[node] = mask
    return [found[y] for y in graph.outputs]


def _carries(node: Node) -> bool:
    types = node.type if isinstance(node.type, tuple) else (node.type,)
    return any(t.inexact for t in types)


def bits(positions: Iterable[int]) -> int:
    made = 0
    for i in positions:
        made |= 1 << i
    return made


def carried(depends: Sequence[int], carries: int, mask: int) -> int:
    """The inputs of a loop's body whose derivative is not zero in some round.

    `mask` are those of the first; a carry follows as soon as its new value depends on one.
    """
    while True:
        grown = mask | bits(i for i in range(carries) if depends[i] & mask)
        if grown == mask:
            return mask
        mask = grown


def reaching(depends: Sequence[int], carries: int, live: int) -> int:
    """The outputs of a loop's body whose cotangent is not zero in some round.

    `live` are those of the last; a carry follows as soon as a live output depends on it.
    """
    while True:
        used = 0
        for i, mask in enumerate(depends):
            if live >> i & 1:
                used |= mask
        grown = live | used & ((1 << carries) - 1)
        if grown == live:
            return live
        live = grown


def positions(flags: Iterable[bool | int]) -> list[int]:
    return [i for i, flag in enumerate(flags) if flag]
