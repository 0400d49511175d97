"""The program that one device of a mesh runs, and what it communicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pullback as pb
from pullback.ir.canonical import canonicalise
from pullback.ir.graph import Graph
from pullback.ir.node import Node
from pullback.sharding.cost import traffic
from pullback.tensor.program import engine_for, mesh_of
from pullback.tensor.settings import current

WORDS = {
    "PSum": "all_reduce", "PMax": "all_reduce", "PMin": "all_reduce", "AllReduce": "all_reduce",
    "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "AllToAll": "all_to_all",
    "PPermute": "collective_permute",
}  # fmt: skip


def local_program(f: Callable, *args: Any) -> Graph:
    """What every device runs for `f(*args)`, as the engine in use would compile it."""
    graph = canonicalise(pb.trace(f, *args).graph)
    mesh = mesh_of([n.type for n in graph.nodes if not isinstance(n.type, tuple)])
    return engine_for(current(), mesh).partitioned(graph)[0]


def communicating(graph: Graph) -> Iterator[Node]:
    """The collectives of a program, also those inside of loops and branches."""
    for node in graph.nodes:
        if node.op.communicates():
            yield node
        for held in _held(node.op.parameters()):
            yield from communicating(held)


def _held(parameters: tuple) -> Iterator[Graph]:
    for p in parameters:
        if isinstance(p, Graph):
            yield p
        elif isinstance(p, tuple):
            yield from _held(p)


def collectives(f: Callable) -> Callable[..., dict[str, int]]:
    """How many instructions of each kind the per-device program of `f` communicates with."""

    def counted(*args: Any) -> dict[str, int]:
        found = communicating(local_program(f, *args))
        return dict(Counter([WORDS[n.op.name] for n in found if n.op.name in WORDS]))

    return counted


def sent(f: Callable) -> Callable[..., float]:
    """Bytes that each device sends in one run of `f`."""

    def counted(*args: Any) -> float:
        mesh = mesh_of([x._node.type for x in pb.tree.leaves(args)])
        total = 0.0
        for node in communicating(local_program(f, *args)):
            count = mesh.extent(node.op.communicates())
            made = node.type if isinstance(node.type, tuple) else (node.type,)
            sizes = [sum(map(_nbytes, [x.type for x in node.inputs])), sum(map(_nbytes, made))]
            total += traffic(WORDS[node.op.name], max(sizes), count)
        return total

    return counted


def _nbytes(type: Any) -> int:
    return type.size * type.dtype.numpy.itemsize
