"""The form of a program that an engine compiles: the same values by faster ops."""

from __future__ import annotations

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.gpu_rewrites import GPU_REWRITES
from pullback.transforms.late_sums import with_late_sums
from pullback.transforms.recognition import recognised
from pullback.transforms.replacement import with_replacements


def lowered_form(graph: Graph, platform: str) -> tuple[Graph, dict[Node, Node]]:
    """Return the program as it is compiled for a platform, and the old node of each new one."""
    graph, origins = with_late_sums(graph)
    graph, moved = recognised(graph, platform)
    origins = _lowered_origins(origins, moved)
    if platform == "cuda":
        for rewrite in GPU_REWRITES:
            if places := rewrite(graph):
                graph, moved = with_replacements(graph, places)
                origins = _lowered_origins(origins, moved)
    return graph, origins


def _lowered_origins(before: dict[Node, Node], moved: dict[Node, Node]) -> dict[Node, Node]:
    return {new: before.get(old, old) for new, old in moved.items()} if moved else before
