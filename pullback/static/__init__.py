"""The static IR: programs as text that can be read, verified, differentiated and run."""

from __future__ import annotations

from pullback.graph.graph import Graph


def _graph_text(graph: Graph) -> str:
    from pullback.static.text import print_graph  # heavy: loaded at the first use

    return print_graph(graph)


# Graphs are below this folder and do not import it.
Graph.__str__ = _graph_text  # type: ignore[method-assign, assignment]
