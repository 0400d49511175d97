"""The XLA engine on a mesh of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.engines import processes
from pullback.engines.choices import USUAL, CodeChoices
from pullback.engines.mesh import MeshEngine, MeshEngineProgram, ValueOnMesh
from pullback.engines.protocols import Check
from pullback.engines.xla.engine import XlaEngine
from pullback.engines.xla.executable import Executable
from pullback.engines.xla.replicas import ReplicatedProgram, check_replicas
from pullback.engines.xla.sequence import XlaSequence
from pullback.engines.xla.sharded import ShardedValue
from pullback.engines.xla.xla_program import SpmdXlaProgram
from pullback.errors import EngineError, PullbackError
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.parts import part_of_array
from pullback.sharding.spec import Sharding, layout


class ValueOnXlaMesh(ValueOnMesh):
    """A value whose parts are buffers on the devices of a mesh."""

    def __init__(self, engine: XlaMesh, type: Type, shards: ShardedValue) -> None:
        super().__init__(engine, type)
        self.shards = shards

    def parts(self) -> dict[int, np.ndarray]:
        return self.shards.parts()

    def is_ready(self) -> bool:
        return self.shards.is_ready()

    def wait(self) -> None:
        self.shards.wait()


class XlaMesh(MeshEngine):
    """XLA on a mesh: every device runs the same program on its parts."""

    def __init__(self, mesh: DeviceMesh, xla: XlaEngine) -> None:
        super().__init__(mesh, xla)
        self.xla, self.group = xla, xla.group(mesh)
        if not self.group.here:
            raise EngineError(
                f"process {processes.current_processes().index} has no device of {mesh}: they "
                f"belong to {processes.processes_in_words(self.group.processes)}",
                hint="Only a process that has some of its devices can use a mesh.",
            )
        self.spans_processes = len(self.group.here) < mesh.size

    def put(self, array: np.ndarray, type: Type) -> ValueOnXlaMesh:
        sharding: Sharding = type.sharding or self.whole
        parts: list[np.ndarray | None] = [None] * self.mesh.size
        for k in self.group.here:
            parts[k] = part_of_array(array, sharding, k)
        return ValueOnXlaMesh(self, type, self.group.put(parts, self.part_type(type), array))

    def assemble(self, parts: list[np.ndarray | None], type: Type) -> ValueOnXlaMesh:
        """Transfer the parts of a value; each process has only its own."""
        whole = None if any(layout(type)) else parts[self.group.here[0]]
        return ValueOnXlaMesh(self, type, self.group.put(parts, self.part_type(type), whole))

    def part_type(self, type: Type) -> Type:
        """Return the type of a part of a value."""
        return Type((type.sharding or self.whole).local_shape(type.shape), type.dtype)

    def compile(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> XlaMeshProgram:
        return self._compiled_by(self.xla, graph, donated, choices)

    def compile_profiled(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> XlaMeshProgram:
        return self._compiled_by(self.xla.profiled, graph, donated, choices)

    def _compiled_by(
        self, xla: XlaEngine, graph: Graph, donated: Sequence[int], choices: CodeChoices
    ) -> XlaMeshProgram:
        local, stands_for = self.partitioned(graph)
        compiled = xla.compile_on(self.mesh, local, donated, choices)
        return XlaMeshProgram(self, graph, local, compiled, stands_for)

    def portable(self, graph: Graph, donated: Sequence[int] = ()) -> tuple[bytes, list[Check]]:
        """Return the program of one device as portable StableHLO, and the checks of `graph`."""
        if self.spans_processes:
            what = f"the devices of {self.mesh} belong to several processes"
            raise EngineError(
                f"save: a program cannot be saved while {what}",
                hint="Save it in a process that has all devices of an equal mesh.",
            )
        local, stands_for = self.partitioned(graph)
        data, checks = self.xla.portable(local, donated, self.mesh)
        return data, [(error, whole_xla_mesh_node(node, stands_for)) for error, node in checks]

    def load(self, program: str, outs: Sequence[Type], checks: int) -> LoadedMeshProgram:
        """Compile the program of one device, for all of them."""
        shapes = [(t.sharding or self.whole).local_shape(t.shape) for t in outs]
        local = [Type(shape, t.dtype) for shape, t in zip(shapes, outs, strict=True)]
        return LoadedMeshProgram(self, outs, self.xla.load(program, local, checks, self.group))

    def outcomes(self, word: ShardedValue) -> np.ndarray:
        """Return which checks of a run held on all devices."""
        return np.logical_and.reduce(list(word.parts().values()))

    def spread(self, results: list[ShardedValue], types: Sequence[Type]) -> list[Any]:
        """Return the results of a run; those that are on no mesh are the same on all devices."""
        values = [
            ValueOnXlaMesh(self, t, y) if t.sharding else y.buffers()[self.group.here[0]]
            for y, t in zip(results, types, strict=False)
        ]
        return values + results[len(types) :]


class LoadedMeshProgram:
    """A program from a file that all devices run."""

    def __init__(self, engine: XlaMesh, types: Sequence[Type], executable: Executable) -> None:
        self.engine, self.types, self.executable = engine, types, executable

    def run(self, args: list[ValueOnXlaMesh]) -> list[Any]:
        return self.engine.spread(self.executable.run([x.shards for x in args]), self.types)


class XlaMeshProgram(MeshEngineProgram):
    """A program that all devices run; its checks are attributed to the whole program."""

    engine: XlaMesh
    compiled: SpmdXlaProgram | XlaSequence

    def __init__(
        self, engine: XlaMesh, graph: Graph, local: Graph, compiled: SpmdXlaProgram | XlaSequence,
        stands_for: dict,
    ) -> None:  # fmt: skip
        super().__init__(engine, graph, local, compiled)
        self.checks = [
            (error, whole_xla_mesh_node(node, stands_for)) for error, node in compiled.checks
        ]
        # Checks of an op in a graph that was inlined have lines of their own.
        self.lines = [node.where if whole.op.graphs and not node.op.graphs else None
                      for (_, whole), (_, node) in zip(self.checks, compiled.checks)]  # fmt: skip
        self.memory, self.traffic = compiled.memory, compiled.traffic
        self.host_scalars = compiled.host_scalars
        self._shared = ReplicatedProgram(engine, graph, local)
        self._compares = engine.spans_processes  # whether the next run is compared with others
        self._always = engine.spans_processes and check_replicas()  # and all later ones

    def run(self, args: list[ValueOnXlaMesh]) -> list[Any]:
        if self._compares:
            # This also starts them together: Gloo waits 30 s for a first connection.
            processes.current_processes().agree_on_launch(self._shared, args, self._always)
            self._compares = self._always
        results = self.compiled.run(
            [x.shards if isinstance(x, ValueOnXlaMesh) else x for x in args]
        )
        return self.engine.spread(results, self.types)

    def failures(self, word: Any, lines: Sequence[Any]) -> dict[int, PullbackError]:
        inner = zip(self.lines, lines, strict=True)
        return self.compiled.failures(word, [own or line for own, line in inner])


def whole_xla_mesh_node(node: Node, stands_for: dict[Node, Node]) -> Node:
    """Return the node of the whole program that a node with a check belongs to."""
    found = stands_for.get(node)
    if found is None:
        raise EngineError(f"a check of {node.op.title} belongs to no op of the program")
    return found
