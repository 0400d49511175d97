"""Programs that XLA's profiler can look into: their instructions name the ops they belong to."""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.engines.choices import USUAL, CodeChoices
from pullback.engines.xla.builder import Builder
from pullback.engines.xla.client import Client
from pullback.engines.xla.compiler_options import Flags, compiler_flags
from pullback.engines.xla.engine import XlaEngine
from pullback.engines.xla.executable import Executable
from pullback.engines.xla.hlo_instructions import HloInstruction
from pullback.engines.xla.hlo_text import HloPart, HloText
from pullback.engines.xla.profiler import HloEvent, exclusive_profiler_times
from pullback.engines.xla.sequence import XlaSequence
from pullback.engines.xla.xla_program import SpmdXlaProgram, XlaProgram, XlaProgramCode
from pullback.errors import Location
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.sharding.mesh import DeviceMesh

_SIZE = 256 * 1024  # estimate of a program in memory: there is no serialised code to measure
_FLAGS: dict[str, Flags] = {
    "cpu": (("xla_cpu_enable_xprof_traceme", True),),
    # Kernels that are started together, as a graph of CUDA, could not be told apart.
    "cuda": (("xla_gpu_enable_command_buffer", ""),),
}
_MOST_STARTED = 4096  # runs that a call may leave unfinished
_numbers = itertools.count(1)


class ProfiledOp(NamedTuple):
    """An op of the user's program, as profiles name it."""

    title: str
    where: Location
    forward_op: str  # the op whose reverse-mode rule it belongs to, or empty


class ProfiledOpTime(NamedTuple):
    """The seconds that an op took in one instruction of XLA, and how often that was run.

    `op` is None if the instruction belongs to no op that is known. `added` is set for an
    instruction that XLA added itself, such as a copy; `op` is then the op that it serves.
    """

    op: ProfiledOp | None
    added: str
    instruction: str
    seconds: float
    runs: int


class ProfiledOpsEngine(XlaEngine):
    """Compiles programs for the profiler; they are neither read from the disk nor stored there."""

    def __init__(self, client: Client) -> None:
        self._use(client)
        self.ops: list[ProfiledOp] = []  # by their numbers in locations
        self.executables: weakref.WeakValueDictionary[str, Executable]
        self.executables = weakref.WeakValueDictionary()  # by the names of their modules
        self.compile_seconds = 0.0
        self._started: deque[weakref.ref] = deque(maxlen=_MOST_STARTED)  # a result of each run
        self._known: dict[ProfiledOp, int] = {}
        self._lock = threading.Lock()

    def compile(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> XlaProgram | XlaSequence:
        start = time.perf_counter()
        try:
            return super().compile(graph, donated, choices)
        finally:
            self.compile_seconds += time.perf_counter() - start

    def compile_on(
        self,
        mesh: DeviceMesh,
        graph: Graph,
        donated: Sequence[int] = (),
        choices: CodeChoices = USUAL,
    ) -> SpmdXlaProgram | XlaSequence:
        start = time.perf_counter()
        try:
            return super().compile_on(mesh, graph, donated, choices)
        finally:
            self.compile_seconds += time.perf_counter() - start

    def _builder(self, mesh: DeviceMesh | None = None, choices: CodeChoices = USUAL) -> Builder:
        builder = super()._builder(mesh, choices)
        builder.name = f"pullback_{next(_numbers)}"
        builder.locate = self._locate
        return builder

    def _locate(self, instructions: Sequence[HloInstruction], node: Node) -> None:
        op = ProfiledOp(_profiled_op_title(node), node.where, node.forward_op)
        with self._lock:  # pieces of a program are compiled in several threads
            number = self._known.setdefault(op, len(self.ops))
            if number == len(self.ops):
                self.ops.append(op)
        # XLA names an instruction after the last part
        name = re.sub(r"\W+", "_", op.title)
        _locate_profiled(instructions, f' loc("pullback/{number}/{name}")')

    def _code(
        self, program: str | bytes, outs: list[Type], group: Any = None,
        functions: Sequence[Callable[..., Any]] = (),
    ) -> XlaProgramCode:  # fmt: skip
        place = group or self.client
        text = program if isinstance(program, str) else program.decode()
        flags = compiler_flags(self.platform, text.encode()) + _FLAGS.get(self.platform, ())
        executable = place.compile(program, outs, functions, flags=flags)
        self.executables[_profiled_module_name(text)] = executable
        executable.run = self._noted(executable.run)  # type: ignore[method-assign]
        return XlaProgramCode(
            executable, "compiler", _SIZE + 100 * len(text), calls=bool(functions)
        )

    def _noted(self, run: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
        def noted(args: list[Any]) -> list[Any]:
            results = run(args)
            for y in results[:1]:
                self._started.append(weakref.ref(getattr(y, "array", y)))
            return results

        return noted

    def finish(self) -> None:
        """Return when the programs that were started have ended."""
        while self._started:
            y = self._started.popleft()()
            with contextlib.suppress(Exception):  # one that was donated; errors are raised by reads
                if y is not None:
                    y.block_until_ready()


def profiled_op_times(
    engines: Sequence[ProfiledOpsEngine], events: Sequence[HloEvent]
) -> tuple[list[ProfiledOpTime], float]:
    """Return the time of each op in each instruction, and the seconds in which any was running."""
    owners = {name: engine for engine in engines for name in list(engine.executables)}
    texts = {
        name: _profiled_hlo_text(owners[name], name)
        for name in {e.module for e in events} & {*owners}
    }
    keys = {(e.module, e.instruction) for e in events}
    containers = {(m, i) for m, i in keys if m in texts and texts[m].is_container(i)}
    times, busy = exclusive_profiler_times(events, containers)
    made = []
    for (module, instruction), (seconds, runs) in times.items():
        unknown = [HloPart(None, instruction, 1.0)]
        parts = texts[module].parts(instruction) if module in texts else unknown
        for number, added, share in parts:
            op = None if number is None else owners[module].ops[number]
            made.append(ProfiledOpTime(op, added, instruction, share * seconds, runs))
    return made, busy


def _profiled_hlo_text(engine: ProfiledOpsEngine, module: str) -> HloText:
    found = engine.executables.get(module)
    modules = [] if found is None else found.loaded.hlo_modules()
    return HloText("\n".join([m.to_string() for m in modules]))


def _profiled_module_name(text: str) -> str:
    return text.partition("module @")[2].split(maxsplit=1)[0]


def _profiled_op_title(node: Node) -> str:
    """Return the name that the user wrote for an op."""
    return getattr(node.where, "called", "") or node.op.title


def _locate_profiled(instructions: Sequence[HloInstruction], location: str) -> None:
    """Give instructions that have no location this one, also those in regions."""
    for i in instructions:
        if not i.location:
            i.location = location
            for region in i.regions:
                _locate_profiled(region.instructions, location)
