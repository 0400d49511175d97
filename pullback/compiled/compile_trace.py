"""Tracing: run a function once on placeholders, and find the tensors from outside it used."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pullback import tree
from pullback.api.placeholders import StagedPlaceholders, stage_on_placeholders
from pullback.compiled.arguments import STATIC, CompiledNumberArgument, compiled_argument_types
from pullback.compiled.guards.guard_walk import GuardSnapshot, GuardWalk, walk_guards
from pullback.compiled.guards.value_traits import same_plain_values
from pullback.errors import InPlaceError
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.node import Node, constant_node, next_number
from pullback.lazy.numpy_precision import follow_numpy_precision
from pullback.lazy.operators import node_of
from pullback.lazy.record import record_alias, record_as_leaf
from pullback.lazy.state_writes import collect_state_writes
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import unknown_traced_number
from pullback.lazy.values import valid_value, value_to_host
from pullback.ops.sources import Input
from pullback.tree_writes import LostWrites, refuse_shared_tree_writes

if TYPE_CHECKING:
    from pullback.compiled.function import CompiledFunctionCall

# Reentrant: a function may be traced inside the trace of another.
lock = threading.RLock()
_SMALL = 64  # a tensor of at most so many elements becomes a constant of the program


@dataclass
class CompileTrace:
    """The result of running a function on placeholders.

    The inputs of `graph` are the leaves that are inputs, then `captured`: tensors from outside,
    whose values are read when the program runs. If the function wrote to state from outside, its
    results are a pair: the result, and the new values of `states`.
    """

    graph: Graph
    structure: Any
    captured: list[Tensor]
    states: list[Tensor]


def trace(call: CompiledFunctionCall, before: GuardSnapshot) -> CompileTrace:
    """Run the function of a call on placeholders for the leaves that are tensors or numbers."""
    _separate_compile_trace_inputs(before.tensors)
    while True:
        first = next_number()
        held = walk_guards(call.f, call.roots, call.own)
        staged, states = _staged_for_trace(call)
        _exclude_changed_from_trace(call, held, first)
        handles = _CompileTraceHandles(before, states, first)
        shared = [h for c in staged.captured if len(h := handles.candidates(c)) > 1]
        if not shared:
            break
        for several in shared:  # with a node for each, the next trace shows which was used
            _separate_compile_trace_inputs(several)
    count = len(staged.graph.inputs) - len(staged.captured)
    graph, captured = _compile_trace_with_constants(staged.graph, staged.captured, count, first)
    labels = [n for n, k in zip(call.paths, call.kinds) if k is not STATIC]
    labels += [handles.label(c) for c in captured]
    graph = canonicalise(Graph(graph.inputs, graph.outputs, labels), keep_stop_gradient=True)
    tensors = [handles.candidates(c)[0] for c in captured]
    return CompileTrace(graph, staged.structure, tensors, states)


def _staged_for_trace(call: CompiledFunctionCall) -> tuple[StagedPlaceholders, list[Tensor]]:
    """Run the function of a call on placeholders; return also the state that it wrote."""
    states: list[Tensor] = []
    refuse_shared_tree_writes(call.name, call.leaves, (call.args, call.kwargs))

    def run(*tensors: Tensor) -> Any:
        values = iter(tensors)
        leaves = zip(call.leaves, call.kinds, strict=True)
        given = [x if k is STATIC else _trace_placeholder(k, x, next(values)) for x, k in leaves]
        inputs, named = tree.unflatten(call.in_tree, given)
        writes = LostWrites((inputs, named))
        args, kwargs = call.options.merge(inputs, named, call.static)
        with collect_state_writes() as to_state:
            result = call.f(*args, **kwargs)
            writes.refuse(call.name, result)
            written = to_state.take_back()
        states[:] = [state for state, _ in written]
        return (result, [wrap(node) for _, node in written]) if states else result

    types = compiled_argument_types(call.kinds)
    flat = tree.flatten((tuple(range(len(types))), {}))[1]
    return stage_on_placeholders(call.name, run, types, flat), states


def _trace_placeholder(kind: Any, argument: Any, placeholder: Tensor) -> Any:
    number = isinstance(kind, CompiledNumberArgument)
    follow_numpy_precision(argument, placeholder._node)
    return unknown_traced_number(kind[0], placeholder._node, kind[1]) if number else placeholder


def _separate_compile_trace_inputs(tensors: list[Tensor]) -> None:
    """Give every tensor a node of its own, so that a node identifies the tensor."""
    seen: set[Node] = set()
    for t in tensors:
        node = node_of(t)
        if node in seen:
            waits = node.value is None
            t._node = record_alias(node) if waits else record_as_leaf(node, node.tokens)
        seen.add(t._node)


class _CompileTraceHandles:
    """Finds the tensors that captured nodes belong to."""

    def __init__(self, before: GuardSnapshot, states: list[Tensor], first: int) -> None:
        self.first = first
        self._labels = dict(zip(before.tensors, before.paths))
        self._known = {t._node: t for t in [*before.tensors, *states]}
        self._searched: dict[Node, list[Tensor]] = {}

    def candidates(self, node: Node) -> list[Tensor]:
        """Return the tensors with a node: one, unless the guards did not find it."""
        if node in self._known:
            return [self._known[node]]
        for token in node.tokens:
            if token.leaf and (owner := token.tensor()) is not None:
                return [owner]
        if node not in self._searched:
            # A tensor that the function created itself is a constant: nobody can change it.
            holders = gc.get_referrers(node) if node.number < self.first else ()
            found = [x for x in holders if type(x) is Tensor and x._node is node]
            self._searched[node] = found or [wrap(node)]
        return self._searched[node]

    def label(self, node: Node) -> str:
        """Return the path of a captured tensor, as the user wrote it."""
        return self._labels.get(self.candidates(node)[0], "captured")


def _compile_trace_with_constants(
    graph: Graph, captured: Sequence[Node], count: int, first: int
) -> tuple[Graph, list[Node]]:
    """Turn small tensors that the function created itself into constants."""
    inputs = list(graph.inputs[:count])
    values, kept = list(inputs), []
    for x, node in zip(graph.inputs[count:], captured, strict=True):
        mine = node.number >= first and not any(t.leaf for t in node.tokens)
        if mine and node.type.size <= _SMALL:
            values.append(constant_node(value_to_host(valid_value(node)), node.type.dtype))
        else:
            values.append(x)
            inputs.append(x)
            kept.append(node)
    if len(kept) == len(captured):
        return graph, kept
    return Graph(inputs, graph(*values)), kept


def _exclude_changed_from_trace(call: CompiledFunctionCall, before: GuardWalk, first: int) -> None:
    """Exclude places that the function itself changed from the guards: they would always fail.

    Raise if it stored a tensor of the trace outside, which would have no value there. Modules that
    the function imported count as they are now.
    """
    seen = walk_guards(call.f, call.roots, call.own)
    for t, path in zip(seen.tensors, seen.tensor_paths, strict=True):
        if t._node.number >= first and any(
            isinstance(n.op, Input) for n in graph_ancestors([t._node])
        ):
            raise _stored_in_trace(call, path)
    left_out = len(call.own)
    for mapping, names in before.grows.values():
        for name, now in mapping.items():
            if name not in names and not isinstance(now, ModuleType):
                call.own[id(mapping), name] = mapping
    for place, (holder, value) in before.places.items():
        _, now = seen.places.get(place, (None, None))
        same = now is value or same_plain_values(now, value)
        if isinstance(now, tuple) and isinstance(value, tuple):
            same = same or (len(now) == len(value) and all(map(is_, now, value)))
        if not same and not isinstance(now, ModuleType):
            if isinstance(value, Tensor) and isinstance(now, Tensor) and now._node.number >= first:
                raise _stored_in_trace(call, str(place[1] or "a closure variable"))
            call.own[place] = holder
    if len(call.own) > left_out:
        seen = walk_guards(call.f, call.roots, call.own)
    call.snapshot = GuardSnapshot(seen)


def _stored_in_trace(call: CompiledFunctionCall, path: str) -> InPlaceError:
    return InPlaceError(
        f"{call.name}: the function stored a tensor in {path} while it was traced; later calls "
        "would not do so",
        hint="A compiled function runs once, on placeholders. Return the tensor and store it "
        "outside.",
    )
