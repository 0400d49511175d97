"""The XLA engine: Graph to StableHLO, compiled and run by PJRT."""

from __future__ import annotations

from typing import Any

from pullback.engines.xla.stablehlo import Builder, module
from pullback.ir.dtypes import bool_
from pullback.ir.errors import PullbackError
from pullback.ir.graph import Graph, ancestors
from pullback.ir.types import Type


class XlaEngine:
    """Compiles graphs with XLA and runs them on one device."""

    name = "xla"

    def __init__(self, platform: str | None = None) -> None:
        from pullback.engines.xla.client import Client

        self.client = Client(platform)
        self.platform = self.client.platform
        self.put, self.get, self.owns = self.client.put, self.client.get, self.client.owns

    def compile(self, graph: Graph) -> XlaProgram:
        builder = Builder()
        text = module(graph, builder)
        outs = [y.type for y in graph.outputs]
        if builder.checks:
            outs.append(Type((len(builder.checks),), bool_))
        return XlaProgram(self.client, self.client.compile(text, outs), graph, builder.checks)


class XlaProgram:
    """A compiled program; with checks, its last result says which of them held."""

    def __init__(self, client: Any, executable: Any, graph: Graph, checks: list) -> None:
        self.client, self.executable = client, executable
        self.run = executable.run
        self.checks = [(error, node) for _, (error, node) in checks]
        self._affects = []  # for each output, the checks that it depends on
        for y in graph.outputs if checks else ():
            above = set(ancestors([y]))
            self._affects.append([i for i, (_, node) in enumerate(self.checks) if node in above])

    def failures(self, word: Any) -> dict[int, PullbackError]:
        """The outputs that depend on a failed check, with its error."""
        held = self.client.get(word)
        found = {}
        for i, mine in enumerate(self._affects):
            failed = [c for c in mine if not held[c]]
            if failed:
                make_error, node = self.checks[failed[0]]
                found[i] = make_error().at(node.op.title, node.where)
        return found
