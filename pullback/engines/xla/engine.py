"""The XLA engine: Graph to StableHLO, compiled and run by PJRT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.engines.xla.stablehlo import Builder, module
from pullback.ir.dtypes import bool_
from pullback.ir.errors import PullbackError
from pullback.ir.graph import Graph, dependence
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
        self.input_masks = dependence(graph, {x: 1 << i for i, x in enumerate(graph.inputs)})
        marks: dict[Any, int] = {}
        for i, (_, node) in enumerate(self.checks):
            marks[node] = marks.get(node, 0) | 1 << i
        self._check_masks = dependence(graph, marks) if checks else []

    def failures(self, word: Any, lines: Sequence[Any]) -> dict[int, PullbackError]:
        """The outputs that depend on a failed check, with its error at the line of the check."""
        failed = [i for i, held in enumerate(self.client.get(word)) if not held]
        found = {}
        for output, mask in enumerate(self._check_masks):
            mine = [i for i in failed if mask >> i & 1]
            if mine:
                make_error, node = self.checks[mine[0]]
                found[output] = make_error().at(node.op.title, lines[mine[0]])
        return found
