"""The static IR: programs as text that can be read, verified, differentiated and run."""

from __future__ import annotations

from pullback.graph.graph import Graph


def _static_graph_text(graph: Graph, provenance: bool = False) -> str:
    """Return the program as the text of a module.

    With `provenance`, each instruction is followed by the user's line, the op that was written
    there, and in a backward pass the op whose rule emitted it.
    """
    from pullback.static.text import static_text_with_profile  # heavy: loaded at the first use

    return static_text_with_profile(graph, provenance)


# Graphs are below this folder and do not import it.
Graph.text = Graph.__str__ = _static_graph_text  # type: ignore[method-assign, assignment]
