"""Graphs of pending work, as engines compile them."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Any

import numpy as np

from pullback.engines.protocols import Engine, EngineProgram
from pullback.graph.canonical import canonicalise_with_map
from pullback.graph.dtypes import complex128, int64, uint64
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.lazy.collect import CollectedWork, collected_base
from pullback.ops.sources import Input, Unpack, placeholder
from pullback.ops.traits import HasPosition


def build_program(
    work: CollectedWork, outputs: tuple[int, ...], anywhere: bool = False
) -> tuple[Graph, dict[Node, int]]:
    """Return the canonical graph of some work, and the number of the work's node for each node.

    Leaves become inputs; scalars, and positions with `anywhere`, become one packed input.
    """
    inputs = [placeholder(f"x{i}", x.type) for i, x in enumerate(work.leaves)]
    new: dict[Node, Node] = dict(zip(work.leaves, inputs, strict=True))
    sizes = [2 if s.type.dtype is complex128 else 1 for s in work.scalars]
    count = len(work.positions()) if anywhere else 0
    if sizes or count:
        packed = Input("scalars", (sum(sizes) + count,), uint64)()
        inputs.append(packed)
        word = 0
        for s, size in zip(work.scalars, sizes, strict=True):
            new[s] = Unpack(word, s.type.dtype)(packed)
            word += size
        starts = iter([Unpack(word + i, int64)(packed) for i in range(count)])
    for node in work.nodes:
        xs = tuple([new[x] if x in new else new[collected_base(x)] for x in node.inputs])
        if anywhere and isinstance(node.op, HasPosition) and node.op.position:
            at = [next(starts) for _ in node.op.position]
            new[node] = node.op.anywhere(node.type, xs, at)
        else:
            new[node] = Node(node.op, xs, node.type, node.where, (), node.forward_op)
    graph = Graph(inputs, [new[work.nodes[i]] for i in outputs])
    canonical, places = canonicalise_with_map(graph)
    stands_for: dict[Node, int] = {}
    for i, node in enumerate(work.nodes):
        if new[node] in places:
            stands_for.setdefault(places[new[node]], i)
    return canonical, stands_for


def pack_lazy_program_scalars(words: list[int], engine: Engine, program: EngineProgram) -> Any:
    """Return the scalars of a run as one argument."""
    packed = np.frombuffer(array("Q", words), np.uint64)
    return packed if program.host_scalars else engine.put(packed, _program_scalar_words(len(words)))


@lru_cache(maxsize=64)
def _program_scalar_words(count: int) -> Type:
    return Type((count,), uint64)
