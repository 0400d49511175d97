"""Fingerprints: a program's name, the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pullback.graph.canonical import canonicalise_all
from pullback.graph.graph import Graph
from pullback.static.flatten import Flattener
from pullback.static.text import Writer


def fingerprint(graph: Graph) -> str:
    """The sha256 of the canonical text: neither input names nor the user's lines count.

    What steers derivatives does: a program that stops a gradient is another one.
    """
    canonical, _ = canonicalise_all(graph)
    text = "\n".join(_Compact().lines(_Anonymous().module(canonical)))
    return hashlib.sha256(text.encode()).hexdigest()


class _Anonymous(Flattener):
    """Names inputs by their position."""

    def input_names(self, graph: Graph) -> Sequence[str]:
        return [str(i) for i in range(len(graph.inputs))]


class _Compact(Writer):
    """How a text is laid out is for readers, and may change; fingerprints may not."""

    def inner(self, lines: list[str]) -> str:
        return f"graph({'; '.join(lines)})"
