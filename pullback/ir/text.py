"""The text form of graphs: a superset of MIND Core v1, one instruction a line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.ir.dtypes import DType, float32, float64, int64
from pullback.ir.graph import Graph
from pullback.ir.literals import array_text, bracketed, literal, quoted, type_text
from pullback.ir.node import Node

# What the text writes in a way of its own. A reader of the text uses the same tables.
BINARY = ("Add", "Sub", "Mul", "Div")  # BinOp(Add, %0, %1)
CONSTANTS: dict[DType, str] = {float32: "ConstF32", float64: "ConstF64", int64: "ConstI64"}
RANGES = ("Slice",)  # three positional lists, written as one: [0:4:1, 2:8:2]


def print_graph(graph: Graph, provenance: bool = False) -> str:
    """The graph as text; `provenance` adds the user's line to each instruction.

    Values are numbered densely: inputs first, then in the order of recording.
    """
    return "\n".join(Printer(provenance).lines(graph))


class Printer:
    """Writes graphs; one with other names or another form of inner graphs overrides a method."""

    def __init__(self, provenance: bool = False) -> None:
        self.provenance = provenance

    def lines(self, graph: Graph) -> list[str]:
        nodes = _inputs_first(graph)
        names = number_values(nodes)
        inputs = dict(zip(graph.inputs, self.input_names(graph), strict=True))
        lines = []
        for i, node in enumerate(nodes):
            if node in inputs or node.op.name == "Leaf":
                text = f"Input() {{name: {quoted(inputs.get(node, f'leaf{i}'))}}}"
            elif node.op.name == "Result":
                continue  # it was named on the line of its op
            else:
                text = self.instruction(node, [names[x] for x in node.inputs])
            types = node.type if isinstance(node.type, tuple) else (node.type,)
            line = f"{names[node]} = {text} : {', '.join(map(type_text, types))}"
            lines.append(line + (self.comment(node) if self.provenance else ""))
        lines.append(f"outputs: {', '.join([names[y] for y in graph.outputs])}".rstrip())
        return lines

    def input_names(self, graph: Graph) -> tuple[str, ...]:
        return graph.names

    def instruction(self, node: Node, xs: list[str]) -> str:
        """`Op(operands and positional parameters) {key: value}`."""
        op: Any = node.op
        if op.name == "Const":
            return _constant(op.array, op.dtype)
        if op.name == "Scalar":
            dtype = node.type.dtype
            return _constant(np.asarray(node.value, dtype.numpy), dtype)
        if op.name in BINARY:
            return f"BinOp({', '.join([op.name, *xs])})"
        written = {f.name: getattr(op, f.name) for f in dataclasses.fields(op)}
        given = [written.pop(name) for name in op.positional]
        if op.name in RANGES and len(set(map(len, given))) == 1:
            arguments = [bracketed([":".join(map(str, r)) for r in zip(*given, strict=True)])]
        else:
            arguments = list(map(self.value, given))
        keys = ", ".join([f"{k}: {self.value(v)}" for k, v in written.items()])
        return f"{op.name}({', '.join([*xs, *arguments])})" + (f" {{{keys}}}" if keys else "")

    def value(self, value: Any) -> str:
        """A parameter; a graph among them is written out in place."""
        if isinstance(value, Graph):
            inner = type(self)()  # on one line there is no place for comments
            return f"graph({'; '.join(inner.lines(value))})"
        if isinstance(value, tuple):
            return bracketed(map(self.value, value))
        return literal(value)

    def comment(self, node: Node) -> str:
        words = [str(node.where)] if node.where is not None else []
        words += ["backward"] if node.backward else []
        return f"  # {' '.join(words)}" if words else ""


def number_values(nodes: Sequence[Node]) -> dict[Node, str]:
    """The name of each value; an op with several results names them all, in their order."""
    names: dict[Node, str] = {}
    several: dict[Node, list[str]] = {}
    count = 0
    for node in nodes:
        if node.op.name == "Result" and node.inputs[0] in several:
            names[node] = several[node.inputs[0]][node.op.index]  # type: ignore[attr-defined]
            continue
        width = len(node.type) if isinstance(node.type, tuple) else 1
        made = [f"%{count + k}" for k in range(width)]
        count += width
        names[node] = ", ".join(made)
        if isinstance(node.type, tuple):
            several[node] = made
    return names


def _inputs_first(graph: Graph) -> list[Node]:
    """A graph's nodes; leaves, which a program sees as inputs, follow the declared ones."""
    count = len(graph.inputs)
    declared, inner = graph.nodes[:count], graph.nodes[count:]
    return [*declared, *sorted(inner, key=lambda n: n.op.name != "Leaf")]


def _constant(array: np.ndarray, dtype: DType) -> str:
    kind = "ConstTensor" if array.shape else CONSTANTS.get(dtype, "ConstTensor")
    return f"{kind}({array_text(array)})"
