"""The program of a version: its graph, compiled by the engine when it is first run."""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

from pullback.compiled.arguments import STATIC, Number
from pullback.compiled.trace import CompileTrace
from pullback.errors import PullbackError
from pullback.graph.canonical import canonicalise
from pullback.graph.dtypes import complex128, uint64
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.lazy.cache import CacheEntry, announce
from pullback.lazy.launch import lock, refuse, state
from pullback.lazy.program import engine_for, mesh_of
from pullback.lazy.runtime_checks import Failed
from pullback.lazy.settings import current
from pullback.ops.sources import Input, Unpack
from pullback.ops.wrap.call import inline_calls


class Program:
    """What a trace computes; results that are inputs are handed on, and not computed.

    `plan` says for each result of the function whether it is an input, and its number among the
    inputs or among the values that are computed.
    """

    def __init__(self, call: Any, traced: CompileTrace) -> None:
        graph = traced.graph
        self.name, self.mode, self.kinds = call.name, call.mode, call.kinds
        self.inputs = [k for k in call.kinds if k is not STATIC]
        self.computed: list[Node] = []
        places = {x: i for i, x in enumerate(graph.inputs)}
        numbers = {x for x, k in zip(graph.inputs, self.inputs) if isinstance(k, Number)}
        self.plan: list[tuple[bool, int]] = []
        for y in graph.outputs:
            is_input = y in places and y not in numbers
            if not is_input and y not in self.computed:
                self.computed.append(y)
            self.plan.append((is_input, places[y] if is_input else self.computed.index(y)))
        self.plain = self.plan == [(False, i) for i in range(len(graph.outputs))]
        self.graph = Graph(graph.inputs, self.computed, graph.names)
        self.outs = [(y.type, y.where) for y in self.computed]
        self.donated = call.donated  # for each leaf; its handle is given up whatever becomes of it
        self.donors = self._donors()
        self.numbers = any(isinstance(k, Number) for k in self.inputs)
        self.run: Any = None  # set when it is compiled
        self.packed: tuple[list[int], Any] | None = None  # the numbers of the last run
        self.traced_in = call.seconds
        self.cause = call.cause

    @cached_property
    def executed(self) -> Graph:
        """The graph as it is run: numbers come packed in one input, after all others."""
        graph = inline_calls(self.graph)
        if not self.numbers:
            return canonicalise(graph)
        sizes = [_words(k) for k in self.inputs]
        packed = Input("numbers", (sum(sizes),), uint64)()
        new, kept, names = list(graph.inputs), [], []
        for i, (x, name) in enumerate(zip(graph.inputs, graph.names)):
            if i < len(sizes) and sizes[i]:
                new[i] = Unpack(sum(sizes[:i]), x.type.dtype)(packed)
            else:
                kept.append(x)
                names.append(name)
        made = Graph([*kept, packed], graph(*new), [*names, "numbers"])
        return canonicalise(made)

    def _donors(self) -> list[tuple[int, int]]:
        """Donated tensors, by number among the leaves and among the tensors that go in."""
        handed_on = {i for is_input, i in self.plan if is_input}
        found, inputs, tensors = [], 0, 0
        for i, (kind, given) in enumerate(zip(self.kinds, self.donated)):
            if given and isinstance(kind, Type) and inputs not in handed_on:
                found.append((i, tensors))
            inputs += kind is not STATIC
            tensors += isinstance(kind, Type)
        return found

    def ready(self) -> Program:
        """Compile it, unless it is compiled, or an equal program is."""
        if self.run is not None:
            return self
        made = engine_for(self.mode, mesh_of([n.type for n in self._ends()]))
        donated = tuple([place for _, place in self.donors])
        key = ("compile", made.name, made.platform, self.executed.structure, donated)
        with lock:
            entry = state.cache.find(key) or state.cache.add(key)
        with entry.lock:
            compiled = entry.variants.get(())
            if compiled is None:
                compiled = self._compile(made, donated, entry)
        self.compiled, self.engine = compiled, made
        self.has_checks, self.owns_all = bool(compiled.checks), made.owns_all
        self.lines = [self.executed.nodes[i].where for i in compiled.written]
        with lock:
            entry.users.add(self)
        self.run = compiled.run
        return self

    def _ends(self) -> list[Node]:
        return [*self.graph.outputs, *self.graph.inputs]

    def drop(self) -> None:
        """The cache gave the program up: it is compiled again when it is wanted."""
        self.run = self.compiled = self.packed = None

    def _compile(self, made: Any, donated: tuple[int, ...], entry: CacheEntry) -> Any:
        if not current().may_compile:
            raise refuse(self.name, self.cause)
        start = time.perf_counter()
        graph = self.executed
        try:
            compiled = made.compile(graph, donated)
        except PullbackError as error:
            raise error.at(None, next((w for w in self.lines_of_outs() if w), None)) from None
        # Where each check stands: an equal program has it at the same place, on its own line.
        places = {node: i for i, node in enumerate(graph.nodes)}
        compiled.written = [places[node] for _, node in compiled.checks]
        with lock:
            much = state.cache.store(entry, (), compiled, current().cache_bytes)
        if much:
            made.give_back()
        announce(self.cause, self.traced_in + time.perf_counter() - start, compiled)
        return compiled

    def failed(self, error: PullbackError, buffers: list[Any]) -> list[Any]:
        """The results of a run that failed: where a check did, it is told when one is read."""
        if not hasattr(self.compiled, "run_apart"):
            raise self.placed(error) from None
        values = self.compiled.run_apart(buffers)
        return [Failed(self.placed(v)) if isinstance(v, PullbackError) else v for v in values]

    def placed(self, error: PullbackError) -> PullbackError:
        """An error while running, at the line of the node that failed, or of a result."""
        failed = error.values.pop("node", None)
        nodes = self.compiled.graph.nodes if failed is not None else ()
        lines = [self.executed.nodes[i].where for i, n in enumerate(nodes) if n is failed]
        return error.at(None, next((w for w in [*lines, *self.lines_of_outs()] if w), None))

    def lines_of_outs(self) -> list[Any]:
        return [where for _, where in self.outs]


def _words(kind: Any) -> int:
    if not isinstance(kind, Number):
        return 0
    return 2 if kind.type.dtype is complex128 else 1
