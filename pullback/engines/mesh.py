"""Programs on a mesh of devices: partitioned, then simulated in NumPy or run by XLA."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pullback.engines.base import Check, Program, ProgramBase
from pullback.engines.reference import ReferenceEngine
from pullback.errors import HostReadError, PullbackError
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.partitioner import Partitioned, partition
from pullback.sharding.partition.reasons import final
from pullback.sharding.partition.simulate import simulated
from pullback.sharding.parts import join, part, places
from pullback.sharding.spec import P, Sharding


class OnMesh(ABC):
    """A value of which every device of a mesh has a part."""

    def __init__(self, engine: MeshEngine, type: Type) -> None:
        self.engine, self.type = engine, type
        self.sharding: Sharding = type.sharding or engine.whole

    @abstractmethod
    def parts(self) -> dict[int, np.ndarray]:
        """By position in the mesh, what the devices of this process have."""

    def is_ready(self) -> bool:
        return True

    def gathered(self) -> np.ndarray:
        """The whole value, on the host; every part of it must be in this process."""
        parts = self.parts()
        if not self._makes_whole(parts):
            raise HostReadError(
                f"reading a value: this process has only parts of {self.type}, which lies on "
                f"{self.sharding.mesh} as {self.sharding.spec}",
                hint="Read them with x.shards(), or call pb.evaluate(y) on every process for "
                "y = pb.reshard(x, pb.P()), and read y.",
            )
        return join(parts, self.sharding, self.type.shape)

    def _makes_whole(self, parts: Iterable[int]) -> bool:
        """Whether every part of the value is on one of these devices, given by position."""
        every = range(self.sharding.mesh.size)
        here, all_over = (
            {str(places(self.sharding, self.type.shape, k)) for k in ks} for ks in (parts, every)
        )
        return here == all_over


class MeshEngine(ABC):
    """Runs programs on a mesh; to those above, an engine like the ones of a single device."""

    name: str
    platform: str
    spans_processes = False  # whether other processes have some of the devices

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh, self.whole = mesh, Sharding(mesh, P())
        # Values that are on no mesh, on all devices of this one.
        self.copies: weakref.WeakKeyDictionary[Node, OnMesh] = weakref.WeakKeyDictionary()

    @abstractmethod
    def put(self, array: np.ndarray, type: Type) -> OnMesh:
        """An array of the host, laid out as its type says."""

    @abstractmethod
    def compile(self, graph: Graph, donated: Sequence[int] = ()) -> Program[Any]:
        """The program of `graph`, in parts."""

    def parts_of(self, array: np.ndarray, type: Type) -> list[np.ndarray]:
        sharding = type.sharding or self.whole
        return [part(array, sharding, k) for k in range(self.mesh.size)]

    def get(self, value: OnMesh) -> np.ndarray:
        return value.gathered()

    def owns(self, value: Any) -> bool:
        return isinstance(value, OnMesh) and value.engine is self

    def owns_all(self, values: Sequence[Any]) -> bool:
        return all(map(self.owns, values))

    def copy(self, value: OnMesh) -> OnMesh:
        return self.put(value.gathered(), value.type)

    @abstractmethod
    def give_back(self) -> None:
        """Hand the memory of dropped programs back to the system."""

    def partitioned(self, graph: Graph) -> tuple[Graph, dict[Node, Node]]:
        """The program of one device, and for each of its nodes the one that it was made for."""
        made = per_device(graph, self.mesh)
        return made.graph, made.made_for


def per_device(graph: Graph, mesh: DeviceMesh) -> Partitioned:
    """The program of one device as it is run: partitioned, canonical, sums in buckets."""
    made = partition(graph, mesh)
    local, (made_for, reasons) = final(made.graph, [made.made_for, made.reasons])
    return Partitioned(local, made_for, reasons, made.within)


class MeshProgram(ProgramBase):
    """A compiled per-device program, with what its callers ask about the whole one."""

    def __init__(self, engine: MeshEngine, graph: Graph, local: Graph, compiled: Program) -> None:
        self.engine, self.graph, self.local, self.compiled = engine, graph, local, compiled
        self.types = [y.type for y in graph.outputs]
        self.origin, self.nbytes = compiled.origin, compiled.nbytes
        self.checks: list[Check] = []
        super().__init__(graph)


# -- in NumPy -----------------------------------------------------------------------------------


class Stack(OnMesh):
    """The parts of all devices in one array, which has the mesh's dimensions in front."""

    def __init__(self, engine: MeshEngine, type: Type, array: np.ndarray) -> None:
        super().__init__(engine, type)
        self.array = array

    def parts(self) -> dict[int, np.ndarray]:
        mesh = self.engine.mesh
        flat = self.array.reshape(mesh.size, *self.array.shape[len(mesh.shape) :])
        return {k: np.asarray(flat[k]) for k in range(mesh.size)}


class SimulatedMesh(MeshEngine):
    """The reference engine on a mesh: one program does what all devices would."""

    def __init__(self, mesh: DeviceMesh, reference: ReferenceEngine) -> None:
        super().__init__(mesh)
        self.reference, self.name, self.platform = reference, reference.name, reference.platform

    def put(self, array: np.ndarray, type: Type) -> Stack:
        parts = np.stack(self.parts_of(array, type))
        return Stack(self, type, parts.reshape(*self.mesh.shape, *parts.shape[1:]))

    def give_back(self) -> None:
        self.reference.give_back()

    def compile(self, graph: Graph, donated: Sequence[int] = ()) -> SimulatedProgram:
        local, _ = self.partitioned(graph)
        compiled = self.reference.compile(simulated(local, self.mesh))
        return SimulatedProgram(self, graph, local, compiled)


class SimulatedProgram(MeshProgram):
    def run(self, args: list[Stack]) -> list[Any]:
        try:
            made = self.compiled.run([x.array for x in args])
        except PullbackError as error:
            raise self._of_whole(error) from None
        pairs = zip(made, self.types, strict=True)
        return [Stack(self.engine, t, y) if t.sharding else self.first(y) for y, t in pairs]

    def _of_whole(self, error: PullbackError) -> PullbackError:
        """An error of a node that was made for one of the whole program, recorded at its line; or
        for one in a graph that such a node holds, whose line does not change."""
        failed = error.values.pop("node", None)
        if failed is None:
            return error
        made_for = [n for n in self.graph.nodes if n.op.fallible and n.where == failed.where]
        if not made_for:
            return error.at(None, failed.where)
        error.values["node"] = made_for[0]
        return error

    def first(self, stack: np.ndarray) -> np.ndarray:
        """What is on no mesh is the same on all devices."""
        return stack[(0,) * len(self.engine.mesh.shape)]
