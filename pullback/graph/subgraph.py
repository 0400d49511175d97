"""Find one program inside another, so that the same work is done once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.graph.graph import Graph, by_number
from pullback.graph.node import Node
from pullback.graph.op_kinds import DistinctKind, HigherOrderKind
from pullback.graph.op_table import TABLE


def embed_subgraph(part: Graph, whole: Graph, inputs: Sequence[int]) -> list[Node] | None:
    """Return the nodes of `whole` that compute `part` on inputs at these positions; or None."""
    inner = whole.nodes[len(whole.inputs) :]
    known = {_subgraph_key(n, n.inputs): n for n in inner if not isinstance(n.op, DistinctKind)}
    holders = [n for n in whole.nodes if isinstance(n.op, HigherOrderKind)]
    places = {x: whole.inputs[i] for x, i in zip(part.inputs, inputs, strict=True)}
    moved: dict[Node, tuple[Node, Sequence[int]]] = {}  # ops that others contain
    for node in part.nodes[len(part.inputs) :]:
        if node.inputs and node.inputs[0] in moved:
            place, positions = moved[node.inputs[0]]
            index = positions[node.op.index]  # type: ignore[attr-defined]
            node_in_whole = known.get((TABLE["Result"](index), (place,)))
        else:
            xs = tuple([places[x] for x in node.inputs])
            node_in_whole = known.get(_subgraph_key(node, xs))
            if node_in_whole is None and isinstance(node.op, HigherOrderKind):
                found = _subgraph_within(node, xs, holders)
                if found is None:
                    return None
                moved[node] = found
                continue
        if node_in_whole is None:
            return None
        places[node] = node_in_whole
    return [places[y] for y in part.outputs]


def _subgraph_key(node: Node, xs: tuple[Node, ...]) -> tuple:
    return node.op, tuple(sorted(xs, key=by_number)) if node.op.commutative else xs


def _subgraph_within(
    node: Node, xs: tuple[Node, ...], holders: Sequence[Node]
) -> tuple[Node, Sequence[int]] | None:
    """Return an application that computes the results of a node over `xs`, and their positions."""
    op: Any = node.op
    for other in holders:
        positions = op.within(xs, other.op, other.inputs)
        if positions is not None:
            return other, positions
    return None
