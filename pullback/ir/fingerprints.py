"""Fingerprints: a program's name, the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from pullback.ir.canonical import canonicalise
from pullback.ir.flatten import Flattener
from pullback.ir.graph import Graph, graphs_within
from pullback.ir.node import Node
from pullback.ir.text import Writer


def fingerprint(graph: Graph) -> str:
    """The sha256 of the canonical text: neither input names nor the user's lines count."""
    text = "\n".join(_Compact().lines(_Anonymous().module(graph)))
    return hashlib.sha256(text.encode()).hexdigest()


class _Anonymous(Flattener):
    """Lists the canonical form of a graph and of those inside it, inputs named by position.

    What steers derivatives counts: a program that stops a gradient is another one.
    """

    def prepared(self, graph: Graph) -> Graph:
        return canonicalise(_without_lines(graph), keep_stop_gradient=True)

    def input_names(self, graph: Graph) -> Sequence[str]:
        return [str(i) for i in range(len(graph.inputs))]


def _without_lines(graph: Graph) -> Graph:
    """The same program; in inner graphs, lines would keep apart what is the same."""
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        op, xs = node.op, tuple([new[x] for x in node.inputs])
        if graphs_within(op.parameters()):
            op = type(op)(*map(_bare, op.parameters()))
        new[node] = Node(op, xs, node.type, value=node.value)
    inputs, outputs = ([new[n] for n in nodes] for nodes in (graph.inputs, graph.outputs))
    return Graph(inputs, outputs, graph.names)


def _bare(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_bare, value))
    return _without_lines(value) if isinstance(value, Graph) else value


class _Compact(Writer):
    """How a text is laid out is for readers, and may change; fingerprints may not."""

    def inner(self, lines: list[str]) -> str:
        return f"graph({'; '.join(lines)})"
