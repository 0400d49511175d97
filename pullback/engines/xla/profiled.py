"""Programs that XLA's profiler can look into: their instructions name the ops they belong to."""

from __future__ import annotations

import itertools
import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.engines.xla.builder import Builder
from pullback.engines.xla.client import Client
from pullback.engines.xla.engine import XlaEngine
from pullback.engines.xla.executable import Executable
from pullback.engines.xla.instructions import HloInstruction
from pullback.engines.xla.program import Code, SpmdProgram, XlaProgram
from pullback.engines.xla.sequence import XlaSequence
from pullback.errors import Location
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.sharding.mesh import DeviceMesh

_SIZE = 256 * 1024  # estimate of a program in memory: there is no serialised code to measure
_FLAGS = {
    "cpu": [("xla_cpu_enable_xprof_traceme", True)],
    # Kernels that are started together, as a graph of CUDA, could not be told apart.
    "cuda": [("xla_gpu_enable_command_buffer", "")],
}
_numbers = itertools.count(1)


class ProfiledOp(NamedTuple):
    """An op of the user's program, as profiles name it."""

    title: str
    where: Location
    forward_op: str  # the op whose reverse-mode rule it belongs to, or empty


class ProfiledXla(XlaEngine):
    """Compiles programs for the profiler; they are neither read from the disk nor stored there."""

    def __init__(self, client: Client) -> None:
        self._use(client)
        self.ops: list[ProfiledOp] = []  # by their numbers in locations
        self.executables: weakref.WeakValueDictionary[str, Executable]
        self.executables = weakref.WeakValueDictionary()  # by the names of their modules
        self.compile_seconds = 0.0
        self._known: dict[ProfiledOp, int] = {}
        self._lock = threading.Lock()

    def compile(
        self, graph: Graph, donated: Sequence[int] = (), kernels: bool = True
    ) -> XlaProgram | XlaSequence:
        start = time.perf_counter()
        try:
            return super().compile(graph, donated, kernels)
        finally:
            self.compile_seconds += time.perf_counter() - start

    def compile_on(
        self, mesh: DeviceMesh, graph: Graph, donated: Sequence[int] = (), kernels: bool = True
    ) -> SpmdProgram | XlaSequence:
        start = time.perf_counter()
        try:
            return super().compile_on(mesh, graph, donated, kernels)
        finally:
            self.compile_seconds += time.perf_counter() - start

    def _builder(self, mesh: DeviceMesh | None = None, kernels: bool = False) -> Builder:
        builder = super()._builder(mesh, kernels)
        builder.name = f"pullback_{next(_numbers)}"
        builder.locate = self._locate
        return builder

    def _locate(self, instructions: Sequence[HloInstruction], node: Node) -> None:
        op = ProfiledOp(node.op.title, node.where, node.forward_op)
        with self._lock:  # pieces of a program are compiled in several threads
            number = self._known.setdefault(op, len(self.ops))
            if number == len(self.ops):
                self.ops.append(op)
        # XLA names an instruction after the last part
        name = re.sub(r"\W+", "_", op.title)
        _locate_all(instructions, f' loc("pullback/{number}/{name}")')

    def _code(
        self, program: str | bytes, outs: list[Type], group: Any = None,
        functions: Sequence[Callable[..., Any]] = (),
    ) -> Code:  # fmt: skip
        place = group or self.client
        executable = place.compile(program, outs, functions, flags=_FLAGS.get(self.platform, ()))
        text = program if isinstance(program, str) else program.decode()
        self.executables[_module_name(text)] = executable
        return Code(executable, "compiler", _SIZE + 100 * len(text), calls=bool(functions))


def _module_name(text: str) -> str:
    return text.partition("module @")[2].split(maxsplit=1)[0]


def _locate_all(instructions: Sequence[HloInstruction], location: str) -> None:
    """Give instructions that have no location this one, also those in regions."""
    for i in instructions:
        if not i.location:
            i.location = location
            for region in i.regions:
                _locate_all(region.instructions, location)
