"""Fingerprints: hashes of programs that are the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pullback.graph.canonical import canonicalise_all
from pullback.graph.graph import Graph
from pullback.static.flatten_graph import GraphFlattener
from pullback.static.text import TextWriter


def fingerprint(graph: Graph) -> str:
    """The sha256 of the canonical text, without the names of inputs and the user's lines.

    Instructions that only affect derivatives count: stopping a gradient changes the fingerprint.
    """
    canonical, _ = canonicalise_all(graph)
    text = "\n".join(_CompactFingerprint().lines(_AnonymousFingerprint().flatten(canonical)))
    return hashlib.sha256(text.encode()).hexdigest()


class _AnonymousFingerprint(GraphFlattener):
    """Names inputs by their position."""

    def input_names(self, graph: Graph) -> Sequence[str]:
        return [str(i) for i in range(len(graph.inputs))]


class _CompactFingerprint(TextWriter):
    """Keeps fingerprints independent of the printed layout, which may change."""

    def inner(self, lines: list[str]) -> str:
        return f"graph({'; '.join(lines)})"
