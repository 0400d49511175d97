"""Fingerprints: a program's name, the same in every process."""

from __future__ import annotations

import hashlib

from pullback.ir.canonical import canonicalise
from pullback.ir.graph import Graph
from pullback.ir.text import Printer


def fingerprint(graph: Graph) -> str:
    """The sha256 of the canonical text: neither input names nor the user's lines count."""
    text = "\n".join(_Anonymous().lines(graph))
    return hashlib.sha256(text.encode()).hexdigest()


class _Anonymous(Printer):
    """Prints the canonical form of a graph and of those inside it, inputs named by position."""

    def lines(self, graph: Graph) -> list[str]:
        return super().lines(canonicalise(graph))

    def input_names(self, graph: Graph) -> tuple[str, ...]:
        return tuple([str(i) for i in range(len(graph.inputs))])
