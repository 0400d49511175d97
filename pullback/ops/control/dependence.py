"""Which outputs of a graph depend on which inputs, for derivatives. Sets of positions are bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.op_kinds import Detached


def derivative_dependence(graph: Graph) -> list[int]:
    """Return for each output the inputs (as bits) whose derivative may reach it."""
    found: dict[Node, int] = {x: x.type.inexact << i for i, x in enumerate(graph.inputs)}
    for node in graph.nodes[len(graph.inputs) :]:
        found[node] = 0
        types = node.type if isinstance(node.type, tuple) else (node.type,)
        if not isinstance(node.op, Detached) and any(t.inexact for t in types):
            for x in node.inputs:
                found[node] |= found[x]
    return [found[y] for y in graph.outputs]


def dependence_positions(flags: Iterable[bool | int]) -> list[int]:
    return [i for i, flag in enumerate(flags) if flag]


def dependence_bits(flags: Iterable[bool | int]) -> int:
    return sum(1 << i for i in dependence_positions(flags))


def dependence_members(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def dependence_sources(depends: Sequence[int], outputs: int) -> int:
    """Return the inputs that any of the outputs depends on."""
    mask = 0
    for i in dependence_members(outputs):
        mask |= depends[i]
    return mask


def dependence_active_inputs(depends: Sequence[int], carries: int, mask: int) -> int:
    """Return the inputs of a loop's body whose tangent is not zero in some iteration. `mask` are
    those of the first iteration. A state becomes active once its new value depends on an active
    input."""
    while (grown := mask | dependence_bits(d & mask for d in depends[:carries])) != mask:
        mask = grown
    return mask


def dependence_live_outputs(depends: Sequence[int], carries: int, live: int) -> int:
    """Return the outputs of a loop's body whose cotangent is not zero in some iteration. `live` are
    those of the last iteration. A state becomes live once a live output depends on it."""
    state = (1 << carries) - 1
    while (grown := live | dependence_sources(depends, live) & state) != live:
        live = grown
    return live
