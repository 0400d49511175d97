"""A program's StableHLO as a list of instructions, for those who want to know and not to run it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pullback.engines.xla.builder import Builder, HloValue
from pullback.graph.graph import Graph


@dataclass
class RecordedInstruction:
    """One instruction, and the node that it was written for; `body` is what its regions hold."""

    kind: str
    operands: list[str]
    results: list[HloValue]
    node: Any
    part_of: Any  # the node of the program that it is a part of
    attributes: dict[str, Any] = field(default_factory=dict)
    body: list[RecordedInstruction] = field(default_factory=list)

    @property
    def backward(self) -> bool:
        return self.node is not None and self.node.backward


class Recorded:
    """The instructions of a graph's program; `values` are its nodes' values, as names."""

    def __init__(self, graph: Graph, mesh: Any = None) -> None:
        recorder = _Recorder(mesh)
        self.inputs = [HloValue(recorder._fresh(), x.type) for x in graph.inputs]
        recorder._defined.update(x.name for x in self.inputs)
        self.outputs = list(recorder.inline(graph, self.inputs))
        self.instructions, self.values = recorder.instructions, recorder.values


class _Recorder(Builder):
    """Remembers its instructions; equal ones are written once, as XLA would."""

    def __init__(self, mesh: Any = None) -> None:
        super().__init__(mesh)
        self.guards = True  # as on a CPU, of whose compiler memory plans are a model
        self.instructions: list[RecordedInstruction] = []
        self._inside: list[
            RecordedInstruction
        ] = []  # of regions, until the op that has them is written
        self._known: dict[Any, Any] = {}
        self._node: Any = None
        self._defined: set[str] = set()  # values of the program itself, not of a region in it
        self.values: dict[Any, str] = {}

    def op(
        self, mnemonic: str, *xs: HloValue, out: Any, regions: str = "", **attributes: Any
    ) -> Any:
        kind = mnemonic.removeprefix("stablehlo.")
        inside = self.lines is not self._outermost
        key = None
        if not inside and kind != "optimization_barrier":
            shown = tuple(sorted((k, str(v)) for k, v in attributes.items()))
            key = (kind, tuple([x.name for x in xs]), out, _renumbered(regions), shown)
            if key in self._known:
                self._inside = []
                return self._known[key]
        made = super().op(mnemonic, *xs, out=out, regions=regions, **attributes)
        results = list(made) if isinstance(made, tuple) else [made]
        operands = [x.name for x in xs]
        instruction = RecordedInstruction(
            kind, operands, results, self._node, self.current, attributes
        )
        if inside:
            self._inside.append(instruction)
        else:
            instruction.body, self._inside = self._inside, []
            instruction.operands += self._seen_inside(instruction)
            self._defined.update(y.name for y in results)
            self.instructions.append(instruction)
            if key is not None:
                self._known[key] = made
        return made

    def _seen_inside(self, instruction: RecordedInstruction) -> list[str]:
        """Values of the program that a region reads without being handed them."""
        read = dict.fromkeys(x for i in instruction.body for x in i.operands)
        return [x for x in read if x in self._defined and x not in instruction.operands]

    def _lower(self, node: Any, xs: list[Any]) -> Any:
        outer = self._node
        if outer is None or node.where is not None:
            self._node = node  # else it is part of a composite that the user wrote
        try:
            made = super()._lower(node, xs)
        finally:
            self._node = outer
        if isinstance(made, HloValue):
            self.values[node] = made.name
        return made


def _renumbered(text: str) -> str:
    """A region's text with its values numbered from the start: equal regions read the same."""
    names: dict[str, str] = {}
    return re.sub(r"%\d+", lambda m: names.setdefault(m[0], f"%{len(names)}"), text)
