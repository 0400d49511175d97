"""The XLA engine: graphs are lowered to StableHLO, compiled and run by PJRT."""

from __future__ import annotations

import functools
import weakref
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pullback.engines.choices import USUAL, CodeChoices
from pullback.engines.limits import refuse_beyond_limits
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.client import Client
from pullback.engines.xla.compiler_options import compiler_flags
from pullback.engines.xla.disk_cache import disk_cache, disk_key
from pullback.engines.xla.executable import Executable
from pullback.engines.xla.host_heap import trim_host_heap
from pullback.engines.xla.kernels import kernel_library
from pullback.engines.xla.sequence import XlaSequence
from pullback.engines.xla.xla_program import (
    Check,
    PostingXlaProgram,
    SpmdXlaProgram,
    XlaProgram,
    XlaProgramCode,
)
from pullback.errors import UnsupportedOp
from pullback.graph.compile_split import CompileSplitSegment, segments_for_platform
from pullback.graph.dtypes import bool_
from pullback.graph.graph import Graph, GraphStructure
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.sharding.mesh import DeviceMesh
from pullback.transforms.early_results import is_post_worthwhile, segments_with_early_results
from pullback.transforms.lowered_form import lowered_form

if TYPE_CHECKING:
    from pullback.engines.xla.profiled_ops import ProfiledOpsEngine
    from pullback.engines.xla.sharded import ShardedDeviceGroup

# what a piece computes, which inputs it may overwrite, the mesh that it runs on, and how
Piece = tuple[GraphStructure, tuple[int, ...], DeviceMesh | None, CodeChoices]

# The memory of a program, which XLA does not report. Measured over many programs, the resident size
# is 0.1 MiB plus 15 to 30 times the size of the serialised code; this is an upper bound. Without
# serialised code, the text gives a rough estimate.
_BASE, _PER_CODE, _PER_TEXT = 128 * 1024, 32, 100


class XlaEngine:
    """Compiles graphs with XLA and runs them on one device."""

    name = "xla"
    overwrites = True

    def __init__(self, platform: str | None = None) -> None:
        self._use(Client(platform))

    def _use(self, client: Client) -> None:
        self.client = client
        self.platform = self.client.platform
        self.local_devices = self.client.local_numbers
        self.put, self.get, self.owns = self.client.put, self.client.get, self.client.owns
        self.fill = self.client.fill
        self.owns_all, self.copy = self.client.owns_all, self.client.copy
        self.made = self.client.made
        self.place = self.client.place  # the `_sharding` of every buffer that it owns
        # Pieces in use, for other programs with the same layers.
        self._pieces: weakref.WeakValueDictionary[Piece, XlaProgram]
        self._pieces = weakref.WeakValueDictionary()

    def compile(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> XlaProgram | XlaSequence:
        """Compile a graph, in pieces if it repeats itself; results may reuse `donated` inputs."""
        refuse_beyond_limits(graph)
        awaited = choices.awaited
        choices = choices._replace(kernels=choices.kernels and self.has_kernels, awaited=())
        graph, origins = lowered_form(graph, self.platform) if choices.kernels else (graph, {})
        made = self._in_pieces(graph, donated, None, choices, awaited)
        whole = made or self._compile(graph, donated, choices, awaited)
        return _xla_engine_checks(whole, origins)

    def compile_profiled(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> XlaProgram | XlaSequence:
        """Compile a graph for XLA's profiler."""
        return self.profiled.compile(graph, donated, choices)

    @functools.cached_property
    def profiled(self) -> ProfiledOpsEngine:
        """The engine on the same devices whose programs can be profiled."""
        from pullback.engines.xla.profiled_ops import ProfiledOpsEngine  # few programs are profiled

        return ProfiledOpsEngine(self.client)

    def compile_on(
        self,
        mesh: DeviceMesh,
        graph: Graph,
        donated: Sequence[int] = (),
        choices: CodeChoices = USUAL,
    ) -> SpmdXlaProgram | XlaSequence:
        """Compile the program of one device of a mesh, for all of them; it runs on `Shards`."""
        refuse_beyond_limits(graph)
        choices = choices._replace(kernels=choices.kernels and self.has_kernels, awaited=())
        graph, origins = lowered_form(graph, self.platform) if choices.kernels else (graph, {})
        made = self._in_pieces(graph, donated, mesh, choices)
        return _xla_engine_checks(made or self._compile_on(mesh, graph, donated, choices), origins)

    def _in_pieces(
        self, graph: Graph, donated: Sequence[int], mesh: DeviceMesh | None, choices: CodeChoices,
        awaited: Sequence[int] = (),
    ) -> XlaSequence | None:  # fmt: skip
        """Compile a graph that repeats itself, or some of whose results are awaited, as a sequence;
        equal pieces are compiled once."""
        parts = segments_for_platform(graph, self.platform)
        if not parts and self.platform == "cpu":
            parts = segments_with_early_results(graph, awaited)
        if not parts:
            return None
        given = _xla_engine_last_takers(parts, [graph.inputs[i] for i in donated])
        pieces = [(p.graph.structure, d, mesh, choices) for p, d in zip(parts, given, strict=True)]
        known = {s: found for s in pieces if (found := self._pieces.get(s)) is not None}
        new = {s: p.graph for s, p in zip(pieces, parts, strict=True) if s not in known}
        one = self._compile if mesh is None else functools.partial(self._compile_on, mesh)
        # XLA compiles a program on one core; on a mesh, all processes compile in the same order.
        with ThreadPoolExecutor(2 if mesh is None else 1) as pool:
            compiled = pool.map(one, new.values(), [d for _, d, *_ in new], repeat(choices))
            added = dict(zip(new, compiled, strict=True))
        self._pieces.update(added)
        known |= added
        pairs = [(p, known[s]) for p, s in zip(parts, pieces, strict=True)]
        put = self.put if mesh is None else self.group(mesh).spread
        return XlaSequence(put, graph, pairs, {program.origin for program in added.values()})

    def give_back(self) -> None:
        """Return the memory of dropped programs to the system."""
        trim_host_heap()

    def portable(
        self, graph: Graph, donated: Sequence[int] = (), mesh: DeviceMesh | None = None
    ) -> tuple[bytes, list[Check]]:
        """Return a program as the text of StableHLO, in generic form, and its checks.

        With a mesh, `graph` is the program of one device.
        """
        builder = Builder(mesh)
        builder.guards = True  # it may run on a CPU
        builder.literal = False
        text = build_xla_module(graph, builder, donated)
        if builder.functions:
            hint = "Remove pb.debug.print from the function."
            raise UnsupportedOp("a program that prints cannot be saved", hint=hint)
        return text.encode(), [check for _, check in builder.checks]

    def load(
        self,
        program: str,
        outs: Sequence[Type],
        checks: int,
        group: ShardedDeviceGroup | None = None,
    ) -> Executable:
        """Compile the text of a program; its last result tells the outcome of `checks` checks."""
        more = [Type((checks,), bool_)] if checks else []
        return self._code(program, [*outs, *more], group).executable

    def outcomes(self, word: Any) -> np.ndarray:
        """Return which checks of a run held, from the last result of the program."""
        return self.get(word)

    @functools.cached_property
    def has_kernels(self) -> bool:
        """Whether ops with a kernel can call it on the platform's devices."""
        if self.platform == "cpu":
            return kernel_library() is not None
        return self.client.has_flash_attention

    def _builder(self, mesh: DeviceMesh | None = None, choices: CodeChoices = USUAL) -> Builder:
        builder = Builder(mesh)
        builder.kernels, builder.matmul_precision = choices.kernels, choices.matmul_precision
        builder.guards = self.platform == "cpu"
        builder.platform = self.platform
        builder.neutral = False
        builder.literal = False
        return builder

    def _compile(
        self, graph: Graph, donated: Sequence[int], choices: CodeChoices,
        awaited: Sequence[int] = (),
    ) -> XlaProgram:  # fmt: skip
        builder, board = self._builder(None, choices), self.client.post_board
        builder.awaited = awaited if board and is_post_worthwhile(graph, awaited) else ()
        text = build_xla_module(graph, builder, donated)
        code = self._code(text, [y.type for y in builder.results], functions=builder.functions)
        if builder.posted.outputs:
            return PostingXlaProgram(self.client, code, graph, builder.checks, builder.posted)
        return XlaProgram(self.client, code, graph, builder.checks)

    def _compile_on(
        self, mesh: DeviceMesh, graph: Graph, donated: Sequence[int], choices: CodeChoices
    ) -> SpmdXlaProgram:
        builder, group = self._builder(mesh, choices), self.group(mesh)
        builder.spans = len(group.processes) > 1
        builder.apart = self.platform == "cpu" and builder.spans
        text = build_xla_module(graph, builder, donated)
        outs = [y.type for y in builder.results]
        code = self._code(text, outs, group, builder.functions)
        code.executable.collective = builder.communicates
        code.executable.ballast = builder.has_ballast
        code.executable.checksum = zlib.crc32(text.encode())
        return SpmdXlaProgram(self.client, code, graph, builder.checks)

    def group(self, mesh: DeviceMesh) -> ShardedDeviceGroup:
        """Return the devices of a mesh."""
        return self.client.group(mesh.devices)

    def _code(
        self, program: str | bytes, outs: list[Type], group: ShardedDeviceGroup | None = None,
        functions: Sequence[Callable[..., Any]] = (),
    ) -> XlaProgramCode:  # fmt: skip
        """Load machine code from the disk, or compile it and store it there; a program that calls
        functions of this process is not stored."""
        disk, place = disk_cache(), group or self.client
        text = program.encode() if isinstance(program, str) else program
        flags = compiler_flags(self.platform, text)
        if functions:
            calling = place.compile(text, outs, functions, flags)
            return XlaProgramCode(calling, "compiler", _BASE + _PER_TEXT * len(text), calls=True)
        identity = self._identity if group is None else disk_key(group.identity)
        key = disk_key([identity, repr(flags).encode(), text]) if disk.on else b""
        found = disk.read(key)
        if found is not None:
            executable = place.load(found, outs, flags)
            if executable is not None:
                return XlaProgramCode(executable, "disk", _BASE + _PER_CODE * len(found))
            disk.forget(key)
        executable = place.compile(program, outs, flags=flags)
        code = executable.serialise() if disk.on else None
        if code is not None:
            disk.write(key, code)
        growth = _PER_TEXT * len(text) if code is None else _PER_CODE * len(code)
        return XlaProgramCode(executable, "missed" if disk.on else "compiler", _BASE + growth)

    @functools.cached_property
    def _identity(self) -> bytes:
        return disk_key(self.client.identity)


Compiled = TypeVar("Compiled", bound=XlaProgram | XlaSequence)


def _xla_engine_checks(program: Compiled, origins: dict[Node, Node]) -> Compiled:
    """Let the checks of a program name nodes of the graph that it was made from."""
    program.checks = [(error, origins.get(node, node)) for error, node in program.checks]
    return program


def _xla_engine_last_takers(
    parts: Sequence[CompileSplitSegment], donated: Sequence[Node]
) -> list[tuple[int, ...]]:
    """Return for each piece the inputs that it may overwrite: donated ones that it uses last."""
    last = {x: k for k, part in enumerate(parts) for x in part.takes}
    gone = set(donated)
    return [
        tuple([i for i, x in enumerate(part.takes) if x in gone and last[x] == k])
        for k, part in enumerate(parts)
    ]
