"""Results that the host waits for, before those that a program computes afterwards.

A training loop reads the loss of a step and records the next one, while the device would wait. On
CPUs the program is cut: in two segments, the loss is there after the first, and the device computes
gradients meanwhile. A program for a GPU stays whole and posts the loss.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.graph.compile_split import CompileSplitSegment, split_after_results
from pullback.graph.graph import Graph, graph_ancestors
from pullback.ops.flops import graph_flops, node_flops

LONG = 10**8  # operations after the cut: as much as two cores do while a small step is recorded
LONG_ON_GPU = 10**10  # operations after a post, which costs some 20 us: a step that takes longer
MOST = 2**25  # bytes that pass the cut: they are in memory for longer than in one program


def segments_with_early_results(graph: Graph, awaited: Sequence[int]) -> list[CompileSplitSegment]:
    """Return the segments of a program some of whose results are awaited; none if one is better."""
    segments = split_after_results(graph, [graph.outputs[i] for i in awaited]) if awaited else []
    if not segments or graph_flops(segments[1].graph) < LONG:
        return []
    outputs = set(graph.outputs)
    passing = sum([y.type.nbytes for y in segments[0].gives if y not in outputs])
    return segments if passing <= MOST else []


def is_post_worthwhile(graph: Graph, awaited: Sequence[int]) -> bool:
    """Whether a GPU computes for long after the results that the host waits for."""
    if not awaited:
        return False
    early = set(graph_ancestors([graph.outputs[i] for i in awaited]))
    return sum([node_flops(n) for n in graph.nodes if n not in early]) >= LONG_ON_GPU
