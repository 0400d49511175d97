"""The static IR: programs as text that can be read, verified, differentiated and run."""

from pullback.graph.graph import Graph
from pullback.static.text import print_graph

Graph.__str__ = print_graph  # type: ignore[assignment, method-assign]
