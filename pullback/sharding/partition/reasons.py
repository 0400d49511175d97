"""Why there are collectives in a per-device program, and in the graphs that its ops hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.graph.ambient import thread
from pullback.graph.canonical import canonicalise_with_map
from pullback.graph.graph import Graph
from pullback.graph.node import Node, emit, results
from pullback.ops.prelude import Op
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.buckets import bucketed
from pullback.sharding.partition.choose import Chooser
from pullback.sharding.partition.local_value import Placed


class Reason(NamedTuple):
    """Why there is a collective: what its user needs, of which value."""

    user: str
    where: Any
    why: str
    value: str


class Explained(Chooser):
    """Remembers for each collective what it was made for."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__(mesh)
        self.reasons: dict[Node, Reason] = {}
        self.within: dict[Node, Reason] = {}  # of collectives in graphs that ops hold
        self.made_for: dict[Node, Node] = {}  # of the whole program, which alone is known outside
        self.node: Node | None = None  # of the whole program, whose rule is running
        self._makers: dict[int, Node] = {}  # by the number of a value
        self._user = "the result"
        self._held: list[Reason | None] = []  # in the graphs of the op whose rule is running

    def note(self, made: Node, p: Placed, why: str) -> Node:
        maker = self._makers.get(p.number)
        value = "an input" if maker is None else _named(maker)
        self.reasons[made] = Reason(self._user, thread.where, why, value)
        return made

    def stand_for(self, *made: Node) -> None:
        """Remember for which op of the whole program nodes were made."""
        assert self.node is not None
        self.made_for |= dict.fromkeys(made, self.node)

    def held(self, inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
        """A per-device program in the form in which an op holds it."""
        names = [f"x{i}" for i in range(len(inputs))]
        graph, (reasons,) = final(Graph(inputs, outputs, names), [self.reasons], True)
        self._held += [reasons.get(n) for n in wired(graph)]
        self.reasons |= reasons
        return graph

    def copied(self, collectives: Sequence[Node], new: Sequence[Node]) -> None:
        """Among nodes that were written once more are these collectives, in the same order."""
        for old, n in zip(collectives, [n for n in new if _is_wired(n)], strict=True):
            if old in self.reasons:
                self.reasons[n] = self.reasons[old]

    def results(self, op: Op, operands: Sequence[Node]) -> tuple[Node, ...]:
        """Those of an op that holds such programs. Equal ones exist once, so its collectives may
        be those of an older op: they are told by their order."""
        made = emit(op, tuple(operands))
        self.stand_for(made)
        inside = [n for graph in made.op.graphs for n in wired(graph)]
        if len(inside) == len(self._held):
            pairs = zip(inside, self._held, strict=True)
            self.within |= {n: reason for n, reason in pairs if reason is not None}
        return results(made)


def final(
    graph: Graph, told: Sequence[dict[Node, Any]], held: bool = False
) -> tuple[Graph, list[dict[Node, Any]]]:
    """A per-device program as it is run: canonical, sums in buckets; and what was told of its
    nodes, now of those that they became."""
    graph, places = canonicalise_with_map(graph, held)
    graph, moved = bucketed(graph)

    def now(old: dict[Node, Any]) -> dict[Node, Any]:
        found: dict[Node, Any] = {}
        for node, what in old.items():
            if places.get(node) in moved:
                made = moved[places[node]]
                several = made.inputs and isinstance(made.inputs[0].type, tuple)
                found.setdefault(made.inputs[0] if several else made, what)
        return found

    return graph, [now(old) for old in told]


def wired(graph: Graph) -> list[Node]:
    """The collectives of a program, but for those in graphs that its ops hold."""
    return [n for n in graph.nodes if _is_wired(n)]


def _is_wired(node: Node) -> bool:
    return bool(getattr(node.op, "wire", ""))


def _named(node: Node) -> str:
    return node.op.title if node.where is None else f"{node.op.title} ({node.where})"
