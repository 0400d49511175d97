"""The XLA engine: Graph to StableHLO, compiled and run by PJRT."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor

from pullback.engines.xla.program import XlaProgram
from pullback.engines.xla.sequence import XlaSequence
from pullback.engines.xla.stablehlo import Builder, module
from pullback.ir.dtypes import bool_
from pullback.ir.graph import Graph, Structure
from pullback.ir.segments import segments
from pullback.ir.types import Type


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
        return XlaSequence(self.client, graph, pairs)

    def _compile(self, graph: Graph) -> XlaProgram:
        builder = Builder()
        text = module(graph, builder)
        outs = [y.type for y in graph.outputs]
        if builder.checks:
            outs.append(Type((len(builder.checks),), bool_))
        return XlaProgram(self.client, self.client.compile(text, outs), graph, builder.checks)
