"""The canonical form: equal programs have equal graphs, however they were written."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from pullback.graph import op_kinds
from pullback.graph.graph import Graph, by_number, graphs_in_parameters
from pullback.graph.merge_loops import merge_contained_loops
from pullback.graph.node import Node, result_nodes
from pullback.graph.op_table import TABLE

if TYPE_CHECKING:
    from pullback.ops.op import Op


def canonicalise(graph: Graph, keep_stop_gradient: bool = False) -> Graph:
    """Return the program without aliases, dead code, repeated work and foldable constants.

    `keep_stop_gradient` also keeps users' derivative rules; a program that will be differentiated
    needs both. The function is idempotent.
    """
    return _canonical_passes(graph, keep_stop_gradient)[0]


def canonicalise_with_map(
    graph: Graph, keep_stop_gradient: bool = False
) -> tuple[Graph, dict[Node, Node]]:
    """Return the canonical graph, and the new node of each old one that was not dropped."""
    made, places = _canonical_passes(graph, keep_stop_gradient)
    kept = set(made.nodes)
    return made, {old: new for old, new in places.items() if new in kept}


def canonicalise_all(graph: Graph, lines: bool = True) -> tuple[Graph, dict[Node, Node]]:
    """Canonicalise a graph with its inner graphs, which without `lines` do not depend on lines."""
    holders = {n: n.op for n in graph.nodes if graphs_in_parameters(n.op.parameters())}
    if lines and not holders:
        return canonicalise_with_map(graph, True)
    for node, op in holders.items():
        holders[node] = type(op)(*map(_canonical_inside, op.parameters()))
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        op, xs = holders.get(node, node.op), tuple([new[x] for x in node.inputs])
        where = node.where if lines else None
        new[node] = Node(op, xs, node.type, where, (), node.forward_op, node.value)
    inputs, outputs = ([new[n] for n in nodes] for nodes in (graph.inputs, graph.outputs))
    made, places = canonicalise_with_map(Graph(inputs, outputs, graph.names), True)
    return made, {old: places[n] for old, n in new.items() if n in places}


def _canonical_inside(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_canonical_inside, value))
    return canonicalise_all(value, lines=False)[0] if isinstance(value, Graph) else value


def _canonical_passes(graph: Graph, keep_stop_gradient: bool) -> tuple[Graph, dict[Node, Node]]:
    """Canonicalise until no application is contained in another one."""
    made = _Canonicaliser(graph, keep_stop_gradient)
    places = made.new
    while (merged := merge_contained_loops(made.graph)) is not None:
        made = _Canonicaliser(merged[0], keep_stop_gradient)
        moved = {old: made.new[new] for old, new in merged[1].items() if new in made.new}
        places = {old: moved[new] for old, new in places.items() if new in moved}
    return made.graph, places


class _Canonicaliser:
    """One walk in the order of recording.

    Operands are final when a node is reached, so nothing is done twice. New nodes are numbered in
    the same order. Unused nodes are not reachable from the outputs, and so not part of the graph.
    """

    def __init__(self, graph: Graph, keep_stop_gradient: bool) -> None:
        self.kept = keep_stop_gradient
        self.executed = not keep_stop_gradient
        self.known: dict[tuple, Node] = {}
        self.results: dict[Node, tuple[Node, ...]] = {}
        self.new: dict[Node, Node] = {}
        new, inputs = self.new, len(graph.inputs)
        for x, name in zip(graph.inputs, graph.names, strict=True):
            new[x] = _canonical_input(x, name)
        for node in graph.nodes[inputs:]:
            op = node.op
            if self.executed and isinstance(op, op_kinds.RunsAs) and op.executed is not None:
                op = op.executed
            kept = self.kept and isinstance(op, op_kinds.Detached)
            if isinstance(op, op_kinds.Transparent) and not kept:
                new[node] = new[node.inputs[0]]
            else:
                new[node] = self.place(node, op, tuple([new[x] for x in node.inputs]))
        outputs = [new[y] for y in graph.outputs]
        self.graph = Graph([new[x] for x in graph.inputs], outputs, graph.names)

    def place(self, node: Node, op: Any, xs: tuple[Node, ...]) -> Node:
        """Return the node over new operands: an existing one, a constant, or a new one."""
        if op.commutative:
            xs = tuple(sorted(xs, key=by_number))
        if self.results and xs and xs[0] in self.results:
            return self.results[xs[0]][op.index]
        if isinstance(op, op_kinds.DistinctKind):
            return self.make(node, op, xs)
        folded = canonical_fold(node, xs)
        if folded is not None:
            op, xs = folded, ()
        key = (op, xs, node.type)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.make(node, op, xs)
        return found

    def make(self, node: Node, op: Any, xs: tuple[Node, ...]) -> Node:
        value = None if xs else node.value  # only the values of leaves are part of the program
        made = Node(op, xs, node.type, node.where, (), node.forward_op, value)
        if isinstance(made.type, tuple):
            forwards = self.executed and isinstance(op, op_kinds.ForwardsOperandsKind)
            # Results directly follow their op, as in the text
            self.results[made] = xs if forwards else result_nodes(made)
        return made


def _canonical_input(x: Node, name: str) -> Node:
    """Return a new input; an old one that is not an `Input` becomes one."""
    known, type = isinstance(x.op, op_kinds.InputSourceKind), x.type
    op = x.op if known else TABLE["Input"](name, type.shape, type.dtype)
    return Node(op, (), type, x.where, (), x.forward_op)


def canonical_fold(node: Node, xs: tuple[Node, ...]) -> Op | None:
    """Return the constant value of an op on scalar constants, or None if it is not exact.

    The value is computed in its dtype, and in unbounded integers or fractions. Where they differ it
    was rounded or overflowed, and the result depends on the engine.
    """
    if not (
        xs and _is_canonical_scalar(node.type) and isinstance(node.op, op_kinds.PerElementKind)
    ):
        return None
    arrays = [
        x.op.array
        for x in xs
        if _is_canonical_scalar(x.type) and isinstance(x.op, op_kinds.ConstSourceKind)
    ]
    if len(arrays) < len(xs):
        return None
    dtype = node.type.dtype
    try:
        with np.errstate(all="raise"):
            value = np.asarray(node.op.numpy(*arrays))
            exact = np.asarray(node.op.numpy(*map(_canonical_unbounded, arrays))).item()
            same = _canonical_fold_agrees(value, exact, arrays)
    except (ArithmeticError, TypeError, ValueError, AttributeError):
        return None  # such as division by zero, or an op that has no meaning for such numbers
    if not same or value.dtype != dtype.numpy:
        return None
    return TABLE["Const"](dtype, (), value.tobytes())


def _is_canonical_scalar(type: Any) -> bool:
    return not isinstance(type, tuple) and not type.shape and type.dtype.kind in "biuf"


def _canonical_unbounded(array: np.ndarray) -> np.ndarray:
    """Return a number as one without bounds; -0.0, infinity and NaN have no such number."""
    if array.dtype == bool:
        return array
    if array.dtype.kind in "iu":
        return array.astype(object)
    number = float(array)
    if (number == 0 and math.copysign(1, number) < 0) or _canonical_fold_is_subnormal(array):
        raise ValueError("the value depends on the engine")
    made = np.empty((), object)
    made[()] = Fraction(number)
    return made


def _canonical_fold_agrees(value: np.ndarray, exact: Any, arrays: list[np.ndarray]) -> bool:
    """Whether a value in its dtype is exact, given the result for unbounded numbers."""
    if value.dtype.kind in "biu":
        return abs(exact - value.item()) < 1  # quotients are rounded
    if _canonical_fold_is_subnormal(value):
        return False
    if isinstance(exact, float):  # only conversions give one: they must keep the value
        return len(arrays) == 1 and Fraction(float(value)) == Fraction(arrays[0].item())
    return Fraction(float(value)) == exact


def _canonical_fold_is_subnormal(value: np.ndarray) -> bool:
    """Whether XLA may flush a float to zero."""
    return 0 < abs(float(value)) < float(ml_dtypes.finfo(value.dtype).smallest_normal)
