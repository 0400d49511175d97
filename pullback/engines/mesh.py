"""Engines for a mesh of devices: programs are partitioned, then simulated or run by XLA."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pullback.engines.choices import USUAL, CodeChoices
from pullback.engines.protocols import Check, Engine, EngineProgram, ProgramBase
from pullback.errors import HostReadError, PullbackError
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.partitioner import Partitioned, partition
from pullback.sharding.partition.reasons import final_with_reasons
from pullback.sharding.partition.simulate import simulate_partition
from pullback.sharding.parts import join_sharding_parts, part_of_array, part_places
from pullback.sharding.spec import P, Sharding


class ValueOnMesh(ABC):
    """A value on a mesh: every device has a part of it."""

    def __init__(self, engine: MeshEngine, type: Type) -> None:
        self.engine, self.type = engine, type
        self.sharding: Sharding = type.sharding or engine.whole

    @abstractmethod
    def parts(self) -> dict[int, np.ndarray]:
        """Return the parts on devices of this process, by position in the mesh."""

    def is_ready(self) -> bool:
        return True

    def wait(self) -> None:  # noqa: B027 - nothing to wait for unless a device computes it
        """Return when the parts in this process have been computed."""

    def gathered(self) -> np.ndarray:
        """Return the whole value on the host; every part must be in this process."""
        parts, sharding, shape = self.parts(), self.sharding, self.type.shape
        positions = (parts, range(sharding.mesh.size))
        here, needed = ({str(part_places(sharding, shape, k)) for k in ks} for ks in positions)
        if here != needed:
            raise HostReadError(
                f"reading a value: this process has only parts of {self.type}, which is on "
                f"{sharding.mesh} with layout {sharding.spec}",
                hint="Read them with x.shards(), or call pb.evaluate(y) on every process for "
                "y = pb.reshard(x, pb.P()), and read y.",
            )
        return join_sharding_parts(parts, sharding, shape)


class MeshEngine(ABC):
    """An engine that stores values and runs programs on the devices of a mesh."""

    overwrites = False  # parts are visible as buffers of their own, and processes must agree
    spans_processes = False  # whether other processes have some of the devices

    def __init__(self, mesh: DeviceMesh, single: Engine) -> None:
        self.mesh, self.whole, self.single = mesh, Sharding(mesh, P()), single
        self.name, self.platform = single.name, single.platform
        self.local_devices = single.local_devices
        # Copies, on all devices, of values that are on no mesh.
        self.copies: weakref.WeakKeyDictionary[Node, ValueOnMesh] = weakref.WeakKeyDictionary()

    @abstractmethod
    def put(self, array: np.ndarray, type: Type) -> ValueOnMesh:
        """Transfer an array to the devices, with the layout of its type."""

    @abstractmethod
    def compile(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> EngineProgram[Any]:
        """Partition and compile a graph."""

    def compile_profiled(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> EngineProgram[Any]:
        """Compile a graph so that the engine's profiler, if it has one, can name its ops."""
        return self.compile(graph, donated, choices)

    def parts_of(self, array: np.ndarray, type: Type) -> list[np.ndarray]:
        sharding = type.sharding or self.whole
        return [part_of_array(array, sharding, k) for k in range(self.mesh.size)]

    def get(self, value: ValueOnMesh) -> np.ndarray:
        return value.gathered()

    def owns(self, value: Any) -> bool:
        return isinstance(value, ValueOnMesh) and value.engine is self

    def owns_all(self, values: Sequence[Any]) -> bool:
        return all(map(self.owns, values))

    def made(self, values: Sequence[Any]) -> list[bool]:
        return [False for _ in values]

    def copy(self, value: ValueOnMesh) -> ValueOnMesh:
        return self.put(value.gathered(), value.type)

    def give_back(self) -> None:
        self.single.give_back()

    def partitioned(self, graph: Graph) -> tuple[Graph, dict[Node, Node]]:
        """Return the program of one device, and for each of its nodes that of `graph`."""
        result = per_mesh_device(graph, self.mesh)
        return result.graph, result.made_for


def per_mesh_device(graph: Graph, mesh: DeviceMesh) -> Partitioned:
    """Return the program of one device: partitioned, canonical, with sums in buckets."""
    result = partition(graph, mesh)
    local, (made_for, reasons) = final_with_reasons(result.graph, [result.made_for, result.reasons])
    return Partitioned(local, made_for, reasons, result.within)


def mesh_for_engine(types: Iterable[Type]) -> DeviceMesh | None:
    """Return the mesh that values of these types are on; None if they are on none."""
    for t in types:
        if t.sharding is not None:
            return t.sharding.mesh
    return None


class MeshEngineProgram(ProgramBase):
    """A compiled program of one device, with the interface of the whole program."""

    def __init__(
        self, engine: MeshEngine, graph: Graph, local: Graph, compiled: EngineProgram
    ) -> None:
        self.engine, self.graph, self.local, self.compiled = engine, graph, local, compiled
        self.types = [y.type for y in graph.outputs]
        self.origin, self.nbytes = compiled.origin, compiled.nbytes
        self.checks: list[Check] = []
        super().__init__(graph)


class MeshStack(ValueOnMesh):
    """The parts of all devices in one array, with the dimensions of the mesh in front."""

    def __init__(self, engine: MeshEngine, type: Type, array: np.ndarray) -> None:
        super().__init__(engine, type)
        self.array = array

    def parts(self) -> dict[int, np.ndarray]:
        mesh = self.engine.mesh
        flat = self.array.reshape(mesh.size, *self.array.shape[len(mesh.shape) :])
        return {k: np.asarray(flat[k]) for k in range(mesh.size)}


class SimulatedMeshEngine(MeshEngine):
    """The reference engine on a mesh: one program simulates all devices."""

    def put(self, array: np.ndarray, type: Type) -> MeshStack:
        parts = np.stack(self.parts_of(array, type))
        return MeshStack(self, type, parts.reshape(*self.mesh.shape, *parts.shape[1:]))

    def compile(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> SimulatedMeshProgram:
        local, _ = self.partitioned(graph)
        compiled = self.single.compile(simulate_partition(local, self.mesh))
        return SimulatedMeshProgram(self, graph, local, compiled)


class SimulatedMeshProgram(MeshEngineProgram):
    def run(self, args: list[MeshStack]) -> list[Any]:
        try:
            values = self.compiled.run([x.array for x in args])
        except PullbackError as error:
            raise self._locate(error) from None
        pairs = zip(values, self.types, strict=True)
        return [MeshStack(self.engine, t, y) if t.sharding else self.first(y) for y, t in pairs]

    def _locate(self, error: PullbackError) -> PullbackError:
        """Attribute an error to the node of the whole program that was recorded at its line."""
        failed = error.values.pop("node", None)
        if failed is None:
            return error
        found = [n for n in self.graph.nodes if n.op.fallible and n.where == failed.where]
        if not found:
            return error.at(None, failed.where)
        error.values["node"] = found[0]
        return error

    def first(self, stack: np.ndarray) -> np.ndarray:
        """Return a value that is on no mesh, which is the same on all devices."""
        return stack[(0,) * len(self.engine.mesh.shape)]
