"""The canonical form: the same program gives the same graph, whatever way it was written."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.graph.graph import Graph, by_number, graphs_within
from pullback.graph.kinds import (
    ConstSource,
    Detached,
    Distinct,
    ForwardsOperands,
    InputSource,
    PerElement,
    RunsAs,
    Transparent,
)
from pullback.graph.merge_loops import subsume
from pullback.graph.node import Node, results
from pullback.graph.table import TABLE


def canonicalise(graph: Graph, keep_stop_gradient: bool = False) -> Graph:
    """The same program without aliases, dead code, repeated work and foldable constants.

    Execution needs neither `StopGradient` nor rules that a user gave; a program that is still to
    be differentiated does, and keeps them with `keep_stop_gradient`. Applying it twice changes
    nothing more.
    """
    return _passes(graph, keep_stop_gradient)[0]


def canonicalise_with_map(
    graph: Graph, keep_stop_gradient: bool = False
) -> tuple[Graph, dict[Node, Node]]:
    """The canonical graph, and where each old value is in it; what it dropped is left out."""
    made, places = _passes(graph, keep_stop_gradient)
    kept = set(made.nodes)
    return made, {old: new for old, new in places.items() if new in kept}


def canonicalise_all(graph: Graph, lines: bool = True) -> tuple[Graph, dict[Node, Node]]:
    """As `canonicalise_with_map`, for a program that is still to be differentiated; so are the
    graphs inside its ops. Without their lines, those that do the same are the same."""
    holders = {n: n.op for n in graph.nodes if graphs_within(n.op.parameters())}
    if lines and not holders:
        return canonicalise_with_map(graph, True)
    for node, op in holders.items():
        holders[node] = type(op)(*map(_canonical_inside, op.parameters()))
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        op, xs = holders.get(node, node.op), tuple([new[x] for x in node.inputs])
        where = node.where if lines else None
        new[node] = Node(op, xs, node.type, where, (), node.backward, node.value)
    inputs, outputs = ([new[n] for n in nodes] for nodes in (graph.inputs, graph.outputs))
    made, places = canonicalise_with_map(Graph(inputs, outputs, graph.names), True)
    return made, {old: places[n] for old, n in new.items() if n in places}


def _canonical_inside(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_canonical_inside, value))
    return canonicalise_all(value, lines=False)[0] if isinstance(value, Graph) else value


def _passes(graph: Graph, keep_stop_gradient: bool) -> tuple[Graph, dict[Node, Node]]:
    """The walk, again after applications that others include were taken out."""
    made = _Canonicaliser(graph, keep_stop_gradient)
    places = made.new
    while (less := subsume(made.graph)) is not None:
        made = _Canonicaliser(less[0], keep_stop_gradient)
        moved = {old: made.new[new] for old, new in less[1].items() if new in made.new}
        places = {old: moved[new] for old, new in places.items() if new in moved}
    return made.graph, places


class _Canonicaliser:
    """One walk in the order of recording.

    Operands are in their final form when a node is reached, so nothing has to be done twice.
    New nodes are numbered in the same order, which makes a number a position; what ends up
    unused is not reachable from the outputs, and so is no part of the new graph.
    """

    def __init__(self, graph: Graph, keep_stop_gradient: bool) -> None:
        self.kept = keep_stop_gradient
        self.executed = not keep_stop_gradient
        self.known: dict[tuple, Node] = {}
        self.results: dict[Node, tuple[Node, ...]] = {}
        self.new: dict[Node, Node] = {}
        new, inputs = self.new, len(graph.inputs)
        for x, name in zip(graph.inputs, graph.names, strict=True):
            new[x] = _input(x, name)
        for node in graph.nodes[inputs:]:
            op = node.op
            if self.executed and isinstance(op, RunsAs) and op.executed is not None:
                op = op.executed
            if isinstance(op, Transparent) and not (self.kept and isinstance(op, Detached)):
                new[node] = new[node.inputs[0]]
            else:
                new[node] = self.place(node, op, tuple([new[x] for x in node.inputs]))
        outputs = [new[y] for y in graph.outputs]
        self.graph = Graph([new[x] for x in graph.inputs], outputs, graph.names)

    def place(self, node: Node, op: Any, xs: tuple[Node, ...]) -> Node:
        """The node over new operands: one that is there already, a constant, or a new one."""
        if op.commutative:
            xs = tuple(sorted(xs, key=by_number))
        if self.results and xs and xs[0] in self.results:
            return self.results[xs[0]][op.index]
        if isinstance(op, Distinct):
            return self.make(node, op, xs)
        folded = fold(node, xs)
        if folded is not None:
            op, xs = folded, ()
        key = (op, xs, node.type)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.make(node, op, xs)
        return found

    def make(self, node: Node, op: Any, xs: tuple[Node, ...]) -> Node:
        value = None if xs else node.value  # only a leaf's value is part of the program
        made = Node(op, xs, node.type, node.where, (), node.backward, value)
        if isinstance(made.type, tuple):
            # All results directly after their op: their numbers then agree with the text's.
            self.results[made] = (
                xs if self.executed and isinstance(op, ForwardsOperands) else results(made)
            )
        return made


def _input(x: Node, name: str) -> Node:
    """A fresh input in place of an old one; a boundary of another kind becomes an input."""
    op = x.op if isinstance(x.op, InputSource) else TABLE["Input"](name, x.type.shape, x.type.dtype)
    return Node(op, (), x.type, x.where, (), x.backward)


def fold(node: Node, xs: tuple[Node, ...]) -> Any:
    """The constant that an op on integer or bool scalars is, or None if it is not exact.

    The value is computed twice, in the element type and in unbounded integers: where they
    differ it overflowed, and what a run-time overflow gives is the engine's to say.
    """
    if not (xs and _is_exact_scalar(node.type) and isinstance(node.op, PerElement)):
        return None
    arrays = [x.op.array for x in xs if isinstance(x.op, ConstSource) and _is_exact_scalar(x.type)]
    if len(arrays) < len(xs):
        return None
    unbounded = [a if a.dtype == bool else a.astype(object) for a in arrays]
    dtype = node.type.dtype
    try:
        with np.errstate(all="raise"):
            value = np.asarray(node.op.numpy(*arrays))
            exact = np.asarray(node.op.numpy(*unbounded)).item()
            same = abs(exact - value.item()) < 1  # a quotient may be rounded either way
    except (ArithmeticError, TypeError, ValueError, AttributeError):
        return None  # division by zero, a shift too far, no meaning in unbounded integers
    if not same or value.dtype != dtype.numpy:
        return None
    return TABLE["Const"](dtype, (), value.tobytes())


def _is_exact_scalar(type: Any) -> bool:
    return not isinstance(type, tuple) and not type.shape and type.dtype.kind in "biu"
