"""The reasons for the collectives of a per-device program and of the graphs that its ops hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pullback.errors import Location
from pullback.graph.ambient import thread
from pullback.graph.canonical import canonicalise_with_map
from pullback.graph.graph import Graph
from pullback.graph.node import Node, apply_op_to_nodes, result_nodes
from pullback.ops.prelude import Op
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.buckets import sums_in_buckets
from pullback.sharding.partition.choose import Chooser
from pullback.sharding.partition.local_value import LocalValue


class Reason(NamedTuple):
    """The reason for a collective: its user, and what the user needs of which value."""

    user: str
    where: Location
    why: str
    value: str


class ChooserWithReasons(Chooser):
    """A chooser that records the reason for each collective."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__(mesh)
        self.reasons: dict[Node, Reason] = {}
        self.within: dict[Node, Reason] = {}  # of collectives in graphs that ops hold
        self.made_for: dict[Node, Node] = {}  # the node of the whole program for each new node
        self.node: Node | None = None  # of the whole program, now being partitioned
        self._makers: dict[int, Node] = {}  # by the number of a value
        self._user = "the result"
        self._held: list[Reason | None] = []  # in the held graphs of the op being partitioned

    def note(self, collective: Node, p: LocalValue, why: str) -> Node:
        maker = self._makers.get(p.number)
        value = "an input" if maker is None else _reason_title(maker)
        self.reasons[collective] = Reason(self._user, thread.where, why, value)
        return collective

    def stand_for(self, *nodes: Node) -> None:
        """Record that nodes belong to the current node of the whole program."""
        assert self.node is not None
        self.made_for |= dict.fromkeys(nodes, self.node)

    def held_graph(self, inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
        """Return a per-device program in the form in which an op holds it."""
        names = [f"x{i}" for i in range(len(inputs))]
        graph, (reasons,) = final_with_reasons(Graph(inputs, outputs, names), [self.reasons], True)
        self._held += [reasons.get(n) for n in wired_with_reasons(graph.nodes)]
        self.reasons |= reasons
        return graph

    def results(self, op: Op, operands: Sequence[Node]) -> tuple[Node, ...]:
        """Return the results of an op that holds per-device programs.

        Equal ops are one object, so its collectives may be those of an earlier op: they are
        matched by their order.
        """
        node = apply_op_to_nodes(op, tuple(operands))
        self.stand_for(node)
        inside = [n for graph in node.op.graphs for n in wired_with_reasons(graph.nodes)]
        if len(inside) == len(self._held):
            pairs = zip(inside, self._held, strict=True)
            self.within |= {n: reason for n, reason in pairs if reason is not None}
        return result_nodes(node)


def final_with_reasons(
    graph: Graph, notes: Sequence[dict[Node, Any]], held: bool = False
) -> tuple[Graph, list[dict[Node, Any]]]:
    """Return a per-device program as it runs, canonical and with sums in buckets.

    `notes` about nodes are returned as notes about the nodes that replace them.
    """
    graph, canonical = canonicalise_with_map(graph, held)
    graph, new = sums_in_buckets(graph)

    def transfer(notes: dict[Node, Any]) -> dict[Node, Any]:
        found: dict[Node, Any] = {}
        for old, note in notes.items():
            if canonical.get(old) in new:
                node = new[canonical[old]]
                selects = node.inputs and isinstance(node.inputs[0].type, tuple)
                found.setdefault(node.inputs[0] if selects else node, note)
        return found

    return graph, [transfer(n) for n in notes]


def wired_with_reasons(nodes: Iterable[Node]) -> list[Node]:
    """Return the collectives among nodes, without those in graphs that ops hold."""
    return [n for n in nodes if getattr(n.op, "wire", "")]


def _reason_title(node: Node) -> str:
    return node.op.title if node.where is None else f"{node.op.title} ({node.where})"
