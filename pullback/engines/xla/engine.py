"""The XLA engine: Graph to StableHLO, compiled and run by PJRT."""

from __future__ import annotations

import functools
import weakref
from concurrent.futures import ThreadPoolExecutor

from pullback.engines.xla import machine
from pullback.engines.xla.disk import disk_cache, key_of
from pullback.engines.xla.program import Code, XlaProgram
from pullback.engines.xla.sequence import XlaSequence
from pullback.engines.xla.stablehlo import Builder, module
from pullback.ir.dtypes import bool_
from pullback.ir.graph import Graph, Structure
from pullback.ir.segments import segments
from pullback.ir.types import Type

# What a program takes in memory. XLA does not say it; the resident size was measured over many
# programs to be 0.1 MiB and 15 to 30 times the size of the serialised code, and this is never
# less. Where there is no serialised code, the text tells it roughly.
_BASE, _PER_CODE, _PER_TEXT = 128 * 1024, 32, 100


class XlaEngine:
    """Compiles graphs with XLA and runs them on one device."""

    name = "xla"

    def __init__(self, platform: str | None = None) -> None:
        from pullback.engines.xla.client import Client

        self.client = Client(platform)
        self.platform = self.client.platform
        self.put, self.get, self.owns = self.client.put, self.client.get, self.client.owns
        # Pieces that are in use: another program with the same layers takes them from here.
        self._pieces: weakref.WeakValueDictionary[Structure, XlaProgram]
        self._pieces = weakref.WeakValueDictionary()

    def compile(self, graph: Graph) -> XlaProgram | XlaSequence:
        """The program, or the sequence of its pieces if it repeats itself."""
        parts = segments(graph)
        if not parts:
            return self._compile(graph)
        structures = [part.graph.structure for part in parts]
        known = {s: found for s in structures if (found := self._pieces.get(s)) is not None}
        new = {s: p.graph for s, p in zip(structures, parts, strict=True) if s not in known}
        with ThreadPoolExecutor(2) as pool:  # XLA compiles one program on one core
            made = dict(zip(new, pool.map(self._compile, new.values()), strict=True))
        self._pieces.update(made)
        known |= made
        pairs = [(p, known[s]) for p, s in zip(parts, structures, strict=True)]
        return XlaSequence(self.client, graph, pairs, {program.origin for program in made.values()})

    def give_back(self) -> None:
        """Hand the memory of dropped programs back to the system."""
        machine.give_back()

    def _compile(self, graph: Graph) -> XlaProgram:
        builder = Builder()
        text = module(graph, builder)
        outs = [y.type for y in graph.outputs]
        if builder.checks:
            outs.append(Type((len(builder.checks),), bool_))
        return XlaProgram(self.client, self._code(text, outs), graph, builder.checks)

    def _code(self, text: str, outs: list[Type]) -> Code:
        """Machine code: loaded from the disk, or compiled and kept there."""
        disk = disk_cache()
        key = key_of([self._identity, text.encode()]) if disk.on else b""
        found = disk.read(key)
        if found is not None:
            executable = self.client.load(found, outs)
            if executable is not None:
                return Code(executable, "disk", _BASE + _PER_CODE * len(found))
            disk.forget(key)
        executable = self.client.compile(text, outs)
        code = executable.serialise()
        if code is not None:
            disk.write(key, code)
        growth = _PER_TEXT * len(text) if code is None else _PER_CODE * len(code)
        return Code(executable, "missed" if disk.on else "compiler", _BASE + growth)

    @functools.cached_property
    def _identity(self) -> bytes:
        return key_of(self.client.identity)
