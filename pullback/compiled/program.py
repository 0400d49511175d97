"""The program of a specialization, compiled by an engine when it is first run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pullback.compiled.arguments import STATIC, CompiledNumberArgument
from pullback.compiled.compile_trace import CompileTrace
from pullback.engines import protocols
from pullback.engines.engine_registry import engine_for
from pullback.engines.mesh import mesh_for_engine
from pullback.engines.protocols import Engine
from pullback.errors import Location, PullbackError
from pullback.graph.canonical import canonicalise
from pullback.graph.dtypes import uint64
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.lazy.cache import CachedVariant, CacheEntry, announce_cache_miss
from pullback.lazy.launch import lock, refuse_launch, state
from pullback.lazy.runtime_checks import RuntimeFailure
from pullback.lazy.settings import current
from pullback.ops.sources import Input, Unpack
from pullback.ops.wrap.call import inline_call_nodes

if TYPE_CHECKING:
    from pullback.compiled.function import CompiledFunctionCall


_ONLY = CachedVariant(())  # the key of a compiled function tells its outputs and donors


class CompiledProgram:
    """The computation of a trace; results of the function that are inputs are not computed.

    `plan` says for each result whether it is an input, and its number among the inputs or among
    the computed values.
    """

    compiled: Any = None  # an engine's program, while the cache keeps it

    def __init__(self, call: CompiledFunctionCall, traced: CompileTrace) -> None:
        graph = traced.graph
        self.name, self.mode, self.kinds = call.name, call.mode, call.kinds
        self.inputs = [k for k in call.kinds if k is not STATIC]
        self.computed: list[Node] = []
        places = {x: i for i, x in enumerate(graph.inputs)}
        numbers = {
            x for x, k in zip(graph.inputs, self.inputs) if isinstance(k, CompiledNumberArgument)
        }
        self.plan: list[tuple[bool, int]] = []
        for y in graph.outputs:
            is_input = y in places and y not in numbers
            if not is_input and y not in self.computed:
                self.computed.append(y)
            self.plan.append((is_input, places[y] if is_input else self.computed.index(y)))
        self.plain = self.plan == [(False, i) for i in range(len(graph.outputs))]
        self.graph = Graph(graph.inputs, self.computed, graph.names)
        self.outs = [(y.type, y.where) for y in self.computed]
        self.donated = call.donated  # for each leaf, also where its buffer is not reused
        self.donors = self._donors()
        self.numbers = any(isinstance(k, CompiledNumberArgument) for k in self.inputs)
        self.run: Any = None  # set by `ready`
        self.execute: Any = None  # starts the program, without care for errors; None if it has none
        self.handlers: Any = None
        self.packed: tuple[list[int], Any] | None = None  # the last run's numbers
        self.traced_in = call.seconds
        self.cause = call.cause

    @cached_property
    def executed(self) -> Graph:
        """The graph that is compiled: numbers are packed into one input, after all others."""
        graph = inline_call_nodes(self.graph)
        if not self.numbers:
            return canonicalise(graph)
        # The number of words of each input: 0 for a tensor
        sizes = [
            1 + (k[0] is complex) if isinstance(k, CompiledNumberArgument) else 0
            for k in self.inputs
        ]
        packed = Input("numbers", (sum(sizes),), uint64)()
        new, kept, names = list(graph.inputs), [], []
        for i, (x, name) in enumerate(zip(graph.inputs, graph.names)):
            if i < len(sizes) and sizes[i]:
                new[i] = Unpack(sum(sizes[:i]), x.type.dtype)(packed)
            else:
                kept.append(x)
                names.append(name)
        return canonicalise(Graph([*kept, packed], graph(*new), [*names, "numbers"]))

    def _donors(self) -> list[tuple[int, int]]:
        """Return donated tensors by number among the leaves and among the tensor inputs."""
        returned = {i for is_input, i in self.plan if is_input}
        found, inputs, tensors = [], 0, 0
        for i, (kind, given) in enumerate(zip(self.kinds, self.donated)):
            if given and isinstance(kind, Type) and inputs not in returned:
                found.append((i, tensors))
            inputs += kind is not STATIC
            tensors += isinstance(kind, Type)
        return found

    def ready(self) -> CompiledProgram:
        """Compile the program, unless it or an equal one is compiled."""
        if self.run is not None:
            return self
        graph = self.graph
        mesh = mesh_for_engine([n.type for n in (*graph.outputs, *graph.inputs)])
        engine = engine_for(self.mode, mesh)
        donated = tuple([place for _, place in self.donors])
        mode = self.mode
        target = engine.name, engine.platform, mode.choices, mode.profiled
        key = ("compile", target, self.executed.structure, donated)
        with lock:
            entry = state.cache.entries.get(key) or state.cache.add(key)
        with entry.lock:
            compiled = entry.variants.get(_ONLY)
            if compiled is None:
                compiled = self._compile(engine, donated, entry)
        self.compiled, self.engine = compiled, engine
        self.has_checks, self.owns_all = bool(compiled.checks), engine.owns_all
        self.lines = [self.executed.nodes[i].where for i in compiled.written]
        with lock:
            entry.users.add(self)
        self.execute, self.handlers = getattr(compiled, "direct", (None, None))
        self.run = compiled.run
        return self

    def drop(self) -> None:
        """Forget the compiled program, which the cache has evicted."""
        self.run = self.execute = self.compiled = self.packed = None

    def _compile(
        self, engine: Engine, donated: tuple[int, ...], entry: CacheEntry
    ) -> protocols.EngineProgram:
        if not current().may_compile:
            raise refuse_launch(self.name, self.cause)
        start = time.perf_counter()
        graph = self.executed
        try:
            compile = engine.compile_profiled if self.mode.profiled else engine.compile
            compiled = compile(graph, donated, self.mode.choices)
        except PullbackError as error:
            raise self._at(error, ()) from error.__cause__
        # The nodes that check: an equal program has them at the same places, on its own lines.
        places = {node: i for i, node in enumerate(graph.nodes)}
        compiled.written = [places[node] for _, node in compiled.checks]
        with lock:
            much = state.cache.store(entry, _ONLY, compiled, current().cache_bytes)
        if much:
            engine.give_back()
        announce_cache_miss(self.cause, self.traced_in + time.perf_counter() - start, compiled)
        return compiled

    def failed(self, error: PullbackError, buffers: list[Any]) -> list[Any]:
        """Return the results of a run that failed; those that failed a check raise when read."""
        if not hasattr(self.compiled, "run_apart"):
            raise self.placed(error) from None
        values = self.compiled.run_apart(buffers)
        return [
            RuntimeFailure(self.placed(v)) if isinstance(v, PullbackError) else v for v in values
        ]

    def placed(self, error: PullbackError) -> PullbackError:
        """Give an error of a run the line of the node that failed, or of a result."""
        if "input" in error.values:
            error.name_input(self._input_name(error.values["input"]))
        failed = error.values.pop("node", None)
        nodes = self.compiled.graph.nodes if failed is not None else ()
        lines = [self.executed.nodes[i].where for i, n in enumerate(nodes) if n is failed]
        return self._at(error, lines)

    def _input_name(self, number: int) -> str:
        """Return what the user calls an input of the compiled graph: a tensor, or all numbers."""
        graph = self.executed
        if self.numbers and number == len(graph.inputs) - 1:
            packed = [
                n
                for n, k in zip(self.graph.names, self.inputs)
                if isinstance(k, CompiledNumberArgument)
            ]
            return f"the numbers {', '.join(packed)} of {self.name}"
        return f"{graph.names[number]}, {graph.inputs[number].type}, of {self.name}"

    def _at(self, error: PullbackError, lines: Sequence[Location]) -> PullbackError:
        """Give an error the first known line, or that of a result."""
        known = [*lines, *(where for _, where in self.outs)]
        return error.at(None, next((where for where in known if where), None))
