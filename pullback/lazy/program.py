"""Engines, and the graphs of pending work that they compile."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from pullback.engines.mesh import SimulatedMesh
from pullback.engines.reference import ReferenceEngine
from pullback.errors import EngineError, PullbackError
from pullback.graph.canonical import canonicalise_with_map
from pullback.graph.dtypes import complex128, int64, uint64
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.graph.where import user_line
from pullback.lazy.collect import Work, base
from pullback.ops.sources import Input, Unpack, placeholder
from pullback.ops.traits import Positioned

_engines: dict[tuple[str, str | None], Any] = {}
_meshes: dict[tuple[Any, Any], Any] = {}
_making = threading.Lock()


def engine(name: str, device: str | None = None) -> Any:
    """Return the engine of that name for a device, created at the first use."""
    found = _engines.get((name, device))
    if found is None:
        with _making:
            found = _engines.get((name, device)) or _make_engine(name, device)
            _engines[name, device] = found
    return found


def _make_engine(name: str, device: str | None) -> Any:
    platform, _, index = (device or "").partition(":")
    if index not in ("", "0"):
        raise EngineError(f"there is no device {device!r}: only index 0 is used", code="E6002")
    # One engine per platform, whether or not the device was named
    for (other, _), made in _engines.items():
        if other == name and platform in ("", made.platform):
            return made
    if name == "reference":
        return ReferenceEngine()
    from pullback.engines.xla.engine import XlaEngine  # heavy: imports jaxlib

    return XlaEngine(platform or None)


def engine_for(mode: Any, mesh: Any) -> Any:
    """Return the engine for a program: that of a mesh, if its values are on one."""
    single = engine(mode.engine, mode.device)
    if mesh is None:
        return single
    found = _meshes.get((single, mesh))
    if found is None:
        if single.name == "reference":
            found = SimulatedMesh(mesh, single)
        else:
            from pullback.engines.xla.mesh import XlaMesh  # heavy: imports jaxlib

            try:
                found = XlaMesh(mesh, single)
            except PullbackError as error:  # there are fewer devices
                raise error.at(None, user_line()) from None
        found = _meshes.setdefault((single, mesh), found)
    return found


def mesh_of(types: Iterable[Any]) -> Any:
    """Return the mesh that values of these types are on, or None."""
    return next((t.sharding.mesh for t in types if t.sharding is not None), None)


def spans_processes(mode: Any, mesh: Any) -> bool:
    """Whether a program on a mesh must also be started by other processes."""
    return mesh is not None and engine_for(mode, mesh).spans_processes


def build(
    work: Work, outputs: tuple[int, ...], anywhere: bool = False
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
        xs = tuple([new[x] if x in new else new[base(x)] for x in node.inputs])
        if anywhere and isinstance(node.op, Positioned) and node.op.position:
            at = [next(starts) for _ in node.op.position]
            new[node] = node.op.anywhere(node.type, xs, at)
        else:
            new[node] = Node(node.op, xs, node.type, node.where, (), node.backward)
    graph = Graph(inputs, [new[work.nodes[i]] for i in outputs])
    canonical, places = canonicalise_with_map(graph)
    stands_for: dict[Node, int] = {}
    for i, node in enumerate(work.nodes):
        if new[node] in places:
            stands_for.setdefault(places[new[node]], i)
    return canonical, stands_for


def pack(words: list[int], engine: Any, program: Any) -> Any:
    """Return the scalars of a run as one argument."""
    packed = np.frombuffer(array("Q", words), np.uint64)
    return packed if program.host_scalars else engine.put(packed, _words(len(words)))


@lru_cache(maxsize=64)
def _words(count: int) -> Type:
    return Type((count,), uint64)
