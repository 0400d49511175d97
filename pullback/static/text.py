"""The text form of modules and graphs: a superset of MIND Core v1, one instruction a line."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from pullback.graph.graph import Graph
from pullback.graph.op_table import TABLE
from pullback.static.flatten_graph import GraphFlattener, flattened_graph_profile
from pullback.static.instructions import BINARY, Instruction, InstructionList
from pullback.static.literals import (
    applied_literal,
    array_literal,
    bracketed_literal,
    literal_text,
    quoted_literal,
    type_literal,
)
from pullback.static.profiles import CORE

_type_text = lru_cache(maxsize=4096)(type_literal)


def static_graph_text(graph: Graph, provenance: bool = False) -> str:
    """The graph as text; with `provenance`, each instruction has the user's line as a comment."""
    return "\n".join(TextWriter().lines(GraphFlattener(provenance).flatten(graph)))


def static_text_with_profile(graph: Graph, provenance: bool = False) -> str:
    """The graph as the text of a module, in the smallest profile that fits."""
    return static_module_text(
        GraphFlattener(provenance).flatten(graph, flattened_graph_profile(graph))
    )


def static_module_text(module: InstructionList) -> str:
    """A module as text; its first line names the profile unless that is `core-v1`."""
    first = [] if module.profile == CORE else [f"profile: {module.profile}"]
    return "\n".join([*first, *TextWriter().lines(module)])


class TextWriter:
    """Writes instructions; override `inner` for another layout of inner graphs."""

    def lines(self, module: InstructionList) -> list[str]:
        made = [self.line(i) for i in module.instructions]
        outputs = ", ".join([f"%{y}" for y in module.outputs])
        return [*made, f"outputs: {outputs}".rstrip()]

    def line(self, i: Instruction) -> str:
        results = ", ".join([f"%{r}" for r in i.results])
        types = ", ".join(map(_type_text, i.types))
        comment = f"  # {i.comment}" if i.comment else ""
        return f"{results} = {self.application(i)}{' : ' if types else ''}{types}{comment}"

    def application(self, i: Instruction) -> str:
        """`Op(operands and positional parameters) {key: value}`."""
        xs = [f"%{x}" for x in i.operands]
        if i.op == "Copy":
            return ", ".join(xs)
        if i.op == "Input" and not i.problem:
            return f"Input() {{name: {quoted_literal(i.name)}}}"
        if i.literal is not None:
            written = array_literal(i.literal) if isinstance(i.literal, np.ndarray) else None
            return f"{i.op}({', '.join([*xs, written or self.value(i.literal)])})"
        if i.op in BINARY:
            xs.insert(0, i.op)
        keys = dict(i.parameters)
        positional = [k for k in keys if isinstance(k, int)]
        if not i.problem and i.op in TABLE:
            positional = [k for k in TABLE[i.op].text.positional if k in keys]
        xs += [self.value(keys.pop(k)) for k in positional]
        return applied_literal("BinOp" if i.op in BINARY else i.op, xs, keys, self.value)

    def value(self, value: Any) -> str:
        """A parameter; a graph is written out in place."""
        if isinstance(value, InstructionList):
            return self.inner(self.lines(value))
        if isinstance(value, tuple):
            return bracketed_literal(map(self.value, value))
        return literal_text(value)

    def inner(self, lines: list[str]) -> str:
        """An inner graph, one instruction a line, indented."""
        indented = "\n".join(lines).replace("\n", "\n  ")
        return f"graph(\n  {indented}\n)"
