"""The form of a program that an engine compiles: the same values by faster ops."""

from __future__ import annotations

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.transforms.late_sums import with_late_sums
from pullback.transforms.recognition import recognised


def lowered_form(graph: Graph, platform: str) -> tuple[Graph, dict[Node, Node]]:
    """Return the program as it is compiled for a platform, and the old node of each new one."""
    summed, before = with_late_sums(graph)
    found, origins = recognised(summed, platform)
    return found, {n: before.get(old, old) for n, old in origins.items()} if origins else before
