"""What a forward pass keeps for its backward pass: a smallest sufficient set of values."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from pullback.graph.graph import by_number, graph_ancestors
from pullback.graph.node import Node
from pullback.graph.op_kinds import DistinctKind
from pullback.ops.shape.movement import Transpose

Cost = Callable[[Node], int]
_UNLIMITED = 1 << 62
_SOURCE, _SINK = 0, 1


def residuals(
    outputs: Sequence[Node], seeds: Sequence[Node], known: Sequence[Node], cost: Cost
) -> list[Node]:
    """Return the forward values to keep for computing `outputs` from `seeds` and `known`. The
    backward pass is what depends on a seed. Forward values that it uses are kept, or recomputed
    from others where that is cheap: a minimum cut of the graph, by `cost`, decides which."""
    available = set(known)
    needed = [
        x
        for x in _residuals_used_by_backward(outputs, set(seeds))
        if not _available_residuals(x, available)
    ]
    kept = [x for x in needed if not _recomputable_residuals(x)]
    rest = [x for x in needed if _recomputable_residuals(x)]
    cut = [_before_transposes(x) for x in _ResidualsMinCut(rest, available.union(kept), cost).cut()]
    return sorted({*kept, *cut}, key=by_number)


def _before_transposes(x: Node) -> Node:
    """Return the value that `x` is a transpose of: products read either as fast."""
    while isinstance(x.op, Transpose):
        x = x.inputs[0]
    return x


def _residuals_used_by_backward(outputs: Sequence[Node], seeds: set[Node]) -> list[Node]:
    backward: set[Node] = set()
    needed: dict[Node, None] = {}
    nodes = graph_ancestors(outputs)
    for node in nodes:
        if node in seeds or any(x in backward for x in node.inputs):
            backward.add(node)
    for node in nodes:
        if node in backward:
            needed.update((x, None) for x in node.inputs if x not in backward)
    needed.update((y, None) for y in outputs if y not in backward)
    return list(needed)


class _ResidualsMinCut:
    """A flow network from values that can only be kept to those needed, through cheap ops. Each
    value is two vertices, joined by an edge with its cost as capacity. Of the minimum cuts, the one
    nearest to the sink recomputes the least."""

    def __init__(self, needed: Sequence[Node], known: set[Node], cost: Cost) -> None:
        self.cost = cost
        self.edges: list[dict[int, int]] = [{}, {}]  # capacities, by tail and head
        self.index: dict[Node, int] = {}
        queue = deque(needed)
        for node in queue:
            self._connect(self._vertex(node) + 1, _SINK)
        entered = set(queue)
        while queue:
            node = queue.popleft()
            vertex = self._vertex(node)
            if not _recomputable_residuals(node):
                self._connect(_SOURCE, vertex)
                continue
            for x in node.inputs:
                if not _available_residuals(x, known):
                    self._connect(self._vertex(x) + 1, vertex)
                    if x not in entered:
                        entered.add(x)
                        queue.append(x)

    def _vertex(self, node: Node) -> int:
        if node not in self.index:
            vertex = self.index[node] = len(self.edges)
            self.edges += [{vertex + 1: self.cost(node)}, {vertex: 0}]
        return self.index[node]

    def _connect(self, tail: int, head: int) -> None:
        self.edges[tail][head] = _UNLIMITED
        self.edges[head].setdefault(tail, 0)

    def cut(self) -> list[Node]:
        while _SOURCE in (following := self._paths_to_sink()):
            path, a = [], _SOURCE
            while a != _SINK:
                path.append((a, following[a]))
                a = following[a]
            amount = min(self.edges[a][b] for a, b in path)
            for a, b in path:
                self.edges[a][b] -= amount
                self.edges[b][a] += amount
        return [n for n, v in self.index.items() if v not in following and v + 1 in following]

    def _paths_to_sink(self) -> dict[int, int]:
        """Search backward from the sink, along spare capacity, until the source is found. Return
        for each vertex the next one on a shortest path to the sink."""
        following = {_SINK: _SINK}
        queue = deque([_SINK])
        while queue and _SOURCE not in following:
            b = queue.popleft()
            for a in self.edges[b]:
                if a not in following and self.edges[a].get(b, 0):
                    following[a] = b
                    queue.append(a)
        return following


def _available_residuals(node: Node, known: set[Node]) -> bool:
    return node in known or (not node.inputs and not isinstance(node.op, DistinctKind))


def _recomputable_residuals(node: Node) -> bool:
    return node.op.cheap and not node.op.fallible


def residual_bytes(node: Node) -> int:
    return max(1, node.type.nbytes)
