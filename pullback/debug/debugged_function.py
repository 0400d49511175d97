"""A function that was run once for inspection: its program, its gradient, and all values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pullback import tree
from pullback.api.closure import close_over
from pullback.api.recording import (
    RecordingTransform,
    as_recording_value,
    recorded_argument_alias,
    recorded_outputs,
)
from pullback.api.trace import trace_input_names
from pullback.graph.ambient import thread
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.source_lines import SourceLine
from pullback.lazy.history import DerivativeHistory
from pullback.lazy.operators import node_of
from pullback.lazy.pending import compute_pending
from pullback.lazy.tensor import wrap
from pullback.lazy.values import valid_value, value_to_host
from pullback.ops.prelude import ones
from pullback.ops.sources import placeholder
from pullback.ops.wrap.call import inline_call_nodes
from pullback.transforms.reverse import Watcher, derive_in_reverse, reverse_reach


class DebuggedFunction:
    """The program that a function recorded on its arguments, with calls written out.

    Each argument has a token of its own, which tells where its value was read.
    """

    def __init__(self, name: str, f: Callable, args: Sequence[Any], kwargs: dict) -> None:
        leaves, in_tree = tree.flatten(list(args))
        self.tensors = [as_recording_value(name, x, i, list(args)) for i, x in enumerate(leaves)]
        self.names = trace_input_names(f, args)
        self._derivatives = [DerivativeHistory(traces=True) for _ in self.tensors]
        with RecordingTransform(args, kwargs), exact_debugged_lines():
            pairs = zip(self.tensors, self._derivatives, strict=True)
            self.inputs = [recorded_argument_alias(node_of(t), (d.token,)) for t, d in pairs]
            given = tree.unflatten(in_tree, [wrap(x) for x in self.inputs])
            made, self.structure = recorded_outputs(name, f(*given, **kwargs))
            for d in self._derivatives:
                d.token.running = False
            self.outputs = self._inlined([y._node for y in made])

    @property
    def differentiable(self) -> list[Node]:
        """The arguments that can have a gradient."""
        return [x for x in self.inputs if x.type.inexact]

    def reads(self, x: Node) -> list[SourceLine]:
        """The lines that read a value that depends on an argument."""
        lines = self._derivatives[self.inputs.index(x)].token.reads
        return [line for line in dict.fromkeys(lines) if line is not None]

    def gradients(self, watch: Watcher | None = None) -> list[Node | None]:
        """The gradients of the sum of all results, for the differentiable arguments."""
        seeds = [ones(y.type) if y.type.inexact else None for y in self.outputs]
        with RecordingTransform(), exact_debugged_lines():
            reached = reverse_reach(self.outputs, self.differentiable)
            return derive_in_reverse(reached, self.outputs, seeds, self.differentiable, watch)[0]

    def closed(self, nodes: Sequence[Node]) -> tuple[Graph, list[np.ndarray]]:
        """The program of some nodes, and the arrays to run it on; output `i` is node `i`."""
        graph, captured = self._close(nodes)
        return graph, debugged_host_values([*self.inputs, *captured])

    def _close(self, nodes: Sequence[Node]) -> tuple[Graph, list[Node]]:
        own = {d.token for d in self._derivatives}
        named = zip(self.names, self.inputs, strict=True)
        inputs = {x: placeholder(name, x.type) for name, x in named}
        return close_over(
            inputs,
            nodes,
            lambda n: n in inputs or (n.value is not None and own.isdisjoint(n.tokens)),
        )

    def _inlined(self, made: list[Node]) -> list[Node]:
        """The results over the same arguments, with calls of compiled functions written out."""
        graph, captured = self._close(made)
        if inline_call_nodes(graph) is graph:
            return made
        return list(inline_call_nodes(graph)(*self.inputs, *captured))


@contextmanager
def exact_debugged_lines() -> Iterator[None]:
    """Tell loops apart that differ only in their lines, which reports are about to name."""
    before, thread.lines_matter = thread.lines_matter, True
    try:
        yield
    finally:
        thread.lines_matter = before


def debugged_host_values(nodes: Sequence[Node]) -> list[np.ndarray]:
    """The values of nodes as arrays of the host."""
    compute_pending([n for n in nodes if n.value is None])
    return [np.asarray(value_to_host(valid_value(n))) for n in nodes]
